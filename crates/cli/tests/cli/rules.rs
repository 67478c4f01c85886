//! Rules for pages, on the real vmcore in samples/.

use std::fs;
use std::path::{Path, PathBuf};

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, VirtAddr};
use bigiron_inspect::{Program, Slabs};
use bigiron_kernel::{IoMethod, Kernel, SECTION_FRAMES, Source};
use serde_json::Value;

use crate::common;
use crate::common::sample;
use crate::common::{arg, command, finish};

fn lab() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    sample::unpack(&path);
    (directory, path)
}

/// Makes a dump of level 31 by `rules`; returns it, and its report.
fn dump(directory: &Path, rules: &str) -> (Source, Value) {
    let file = directory.join("rules.toml");
    fs::write(&file, rules).unwrap();
    let output = directory.join("dump");
    let (sample, output, file) = (directory.join("sample"), arg(&output), arg(&file));
    let words = ["dump", "-d", "31", "--json", "--overwrite", "--rules", file];
    let words = [&words[..], &[arg(&sample), output]].concat();
    let outcome = finish(command(&words).spawn().unwrap()).code(0);
    let report = serde_json::from_str(&outcome.text()).unwrap();
    (Source::open(&[output.into()]).unwrap(), report)
}

/// Returns the page frames that a dump has.
fn present(dump: &Source) -> Bitmap {
    let mut all = Bitmap::new(SECTION_FRAMES as usize);
    dump.memory().present(PageFrame(0), &mut all).unwrap();
    all
}

/// Returns the prepared page frames of a kind.
fn prepared(kind: &str) -> Vec<usize> {
    let text = fs::read_to_string(sample::file("linux-6.1-5level.pages.txt")).unwrap();
    let mut frames = Vec::new();
    for line in text.lines() {
        let (found, range) = line.split_once(' ').unwrap();
        let (first, last) = range.split_once('-').unwrap();
        if found == kind {
            frames.extend(first.parse::<usize>().unwrap()..=last.parse().unwrap());
        }
    }
    assert!(!frames.is_empty(), "{kind}");
    frames
}

fn check(directory: &Path, rules: &str) -> common::Outcome {
    let file = directory.join("rules.toml");
    fs::write(&file, rules).unwrap();
    let sample = directory.join("sample");
    let words = ["rules", "check", "--json", arg(&file), arg(&sample)];
    finish(command(&words).spawn().unwrap())
}

#[test]
fn user_memory_of_processes_is_kept_at_level_31() {
    let (_directory, path) = lab();
    let (without, _) = dump(&path, "");
    let rule = "[[rule]]\naction = \"keep\"\nprocess = \"*\"\n";
    let (with, report) = dump(&path, rule);
    let (without, with) = (present(&without), present(&with));
    for kind in ["anon", "anon_equal", "thp", "mlocked"] {
        for frame in prepared(kind) {
            assert!(!without.get(frame) && with.get(frame), "{kind} {frame:#x}");
        }
    }
    let kept = report["pages"]["kept_by_rules"].as_u64().unwrap();
    assert_eq!(with.count() - without.count(), kept);
    let excluded = report["pages"]["excluded"].as_object().unwrap();
    let excluded: u64 = excluded.values().map(|count| count.as_u64().unwrap()).sum();
    let ram = report["pages"]["ram"].as_u64().unwrap();
    assert_eq!(ram - excluded, report["pages"]["dumped"].as_u64().unwrap());
    // Of a process that does not exist, nothing.
    let rule = "[[rule]]\naction = \"keep\"\nprocess = \"no-such-process\"\n";
    let (dump, report) = dump(&path, rule);
    assert_eq!(present(&dump).count(), without.count());
    let warning = report["warnings"][0].as_str().unwrap();
    assert!(warning.contains("there is no such process"), "{warning}");
}

#[test]
fn slabs_of_a_cache_are_dropped_as_many_as_the_kernel_counts() {
    let (_directory, path) = lab();
    let source = Source::open(&[path.join("sample")]).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    let slabs = Slabs::of(&Program::open(&kernel).unwrap()).unwrap();
    for name in ["dentry", "inode_cache"] {
        let cache = slabs.caches.iter().find(|cache| cache.name == name);
        let expected = cache.unwrap().bytes.unwrap() / 4096;
        let rule = format!("[[rule]]\naction = \"drop\"\nslab-cache = \"{name}\"\n");
        let (dump, report) = dump(&path, &rule);
        assert_eq!(report["pages"]["excluded"]["rules"], expected, "{name}");
        // It can be read all the same.
        let kernel = Kernel::find(&dump, None, IoMethod::Auto, 64).unwrap();
        assert!(Program::open(&kernel).is_ok());
        assert!(dump.memory().erase_info().starts_with(b"rule drop "));
        let outcome = check(&path, &rule).code(0);
        let rows: Value = serde_json::from_str(&outcome.text()).unwrap();
        assert_eq!(rows[0]["pages"], expected);
    }
}

#[test]
fn page_cache_of_a_file_system_is_kept_at_level_31() {
    let (_directory, path) = lab();
    let rule = "[[rule]]\naction = \"keep\"\nfile-system = \"tmpfs\"\n";
    let with = present(&dump(&path, rule).0);
    for (kind, is_kept) in [("tmpfs", true), ("cache_clean", false), ("anon", false)] {
        for frame in prepared(kind) {
            assert_eq!(with.get(frame), is_kept, "{kind} {frame:#x}");
        }
    }
}

#[test]
fn blank_pages_are_dumped_without_their_contents_where_the_level_keeps_them() {
    let (_directory, path) = lab();
    let anonymous = prepared("anon_equal");
    let address = anonymous[0] as u64 * 4096;
    // Of all memory, so that the kernel's own pages are among it.
    let rules = format!(
        "[[rule]]\naction = \"keep\"\nphysical = \"{address:#x}-{address:#x}\"\n\
         [[rule]]\naction = \"blank\"\nnode = 0\n"
    );
    let (without, report) = dump(&path, &rules);
    assert_eq!(report["pages"]["kept_by_rules"], 1);
    assert!(report["pages"]["blanked_by_rules"].as_u64() > Some(1000));
    let (output, whole, file) = (
        path.join("dump"),
        path.join("sample"),
        path.join("rules.toml"),
    );
    for (format, level) in [
        ("kdump", "1"),
        ("kdump", "0"),
        ("elf", "1"),
        ("vmdump", "1"),
    ] {
        let words = [
            "dump",
            "-d",
            level,
            "-f",
            format,
            "--json",
            "--overwrite",
            "--rules",
        ];
        let words = [&words[..], &[arg(&file), arg(&whole), arg(&output)]].concat();
        let outcome = finish(command(&words).spawn().unwrap()).code(0);
        let report: Value = serde_json::from_str(&outcome.text()).unwrap();
        let blanked = report["pages"]["blanked_by_rules"].as_u64().unwrap();
        let made = Source::open(std::slice::from_ref(&output)).unwrap();
        let mut reader = made.memory().reader(IoMethod::Auto);
        let mut is_blank = |frame: usize| {
            let pages = reader.pages(PageFrame(frame as u64), 1).unwrap();
            pages.iter().all(|byte| *byte == b'X')
        };
        assert!(
            !is_blank(anonymous[0]) && is_blank(anonymous[1]),
            "{format}"
        );
        let kept = present(&made);
        assert!(kept.count() > present(&without).count());
        let blank = (0..kept.len()).filter(|frame| kept.get(*frame) && is_blank(*frame));
        assert_eq!(blank.count() as u64, blanked, "{format}");
        // The kernel itself is whole.
        let kernel = Kernel::find(&made, None, IoMethod::Auto, 64).unwrap();
        assert!(bigiron_kernel::printk::Log::open(&kernel).is_ok());
        assert!(Program::open(&kernel).is_ok());
        let verified = ["verify", "--json", arg(&output), "--against", arg(&whole)];
        let verified = finish(command(&verified).spawn().unwrap()).code(0);
        let verified: Value = serde_json::from_str(&verified.text()).unwrap();
        assert_eq!(
            (&verified["blank"], &verified["complete"]),
            (&blanked.into(), &true.into())
        );
    }
}

#[test]
fn the_first_rule_that_names_a_page_counts_and_the_kernels_own_pages_stay() {
    let (_directory, path) = lab();
    let anonymous = prepared("anon_equal");
    let address = anonymous[0] as u64 * 4096;
    let rules = format!(
        "[[rule]]\naction = \"keep\"\nphysical = \"{address:#x}-{address:#x}\"\n\
         [[rule]]\naction = \"drop\"\nnode = 0\n\
         [[rule]]\naction = \"keep\"\nprocess = \"*\"\n"
    );
    let (source, report) = dump(&path, &rules);
    let with = present(&source);
    assert!(with.get(anonymous[0]) && !with.get(anonymous[1]));
    assert_eq!(report["pages"]["kept_by_rules"], 1);
    // What is guarded still makes a dump whose kernel, log and symbols are found.
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    assert!(bigiron_kernel::printk::Log::open(&kernel).is_ok());
    let (output, whole) = (path.join("dump"), path.join("sample"));
    let verified = ["verify", arg(&output), "--against", arg(&whole)];
    finish(command(&verified).spawn().unwrap())
        .code(0)
        .says(&["rules kept and dropped pages of the dump"]);
}

#[test]
fn pages_that_objects_name_are_found_by_struct_page_and_by_address() {
    let (_directory, path) = lab();
    let areas = "each = \"area in vmap_area_list:list_head within vmap_area:list\"\n";
    let by_pages = "pages = \"area.vm.pages size area.vm.nr_pages\"\n";
    let rows = |rules: &str| -> Value {
        let outcome = check(&path, rules);
        serde_json::from_str(&outcome.text()).unwrap()
    };
    let found = rows(&format!("[[rule]]\naction = \"keep\"\n{areas}{by_pages}"));
    assert!(found[0]["pages"].as_u64().unwrap() > 100, "{found}");
    assert_eq!(found[0]["problem"], Value::Null);
    let stacks = "each = \"task in init_task:task_struct.tasks within task_struct:tasks\"\n\
                  bytes = \"task.stack size 16K\"\n";
    let found = rows(&format!("[[rule]]\naction = \"keep\"\n{stacks}"));
    let pages = found[0]["pages"].as_u64().unwrap();
    assert!(pages > 0 && pages.is_multiple_of(4), "{found}");
}

#[test]
fn loops_in_each_other_go_through_hlists_lists_and_xarrays() {
    let (_directory, path) = lab();
    let by_owner = "[[rule]]\naction = \"keep\"\nfile-system = \"tmpfs\"\n";
    let by_objects = "[[rule]]\naction = \"keep\"\n\
        each = [\"sb in shmem_fs_type:file_system_type.fs_supers within super_block:s_instances\", \
        \"inode in sb.s_inodes within inode:i_sb_list\", \"page in inode.i_data.i_pages within page\"]\n\
        pages = \"page\"\n";
    let (without, _) = dump(&path, "");
    let without = present(&without).count();
    let (by_owner, _) = dump(&path, by_owner);
    let by_owner = present(&by_owner);
    let (by_objects, report) = dump(&path, by_objects);
    assert_eq!(report["warnings"], Value::Array(Vec::new()));
    assert!(by_owner.count() > without);
    assert_eq!(present(&by_objects), by_owner);
}

#[test]
fn a_tree_has_the_elements_of_the_list_that_the_kernel_has_beside_it() {
    let (_directory, path) = lab();
    let mut found = Vec::new();
    for each in [
        "area in vmap_area_list:list_head within vmap_area:list",
        "area in vmap_area_root:rb_root within vmap_area:rb_node",
    ] {
        let pages = "pages = \"area.vm.pages size area.vm.nr_pages\"";
        let rule = format!("[[rule]]\naction = \"keep\"\neach = \"{each}\"\n{pages}\n");
        found.push(present(&dump(&path, &rule).0));
    }
    assert!(found[0] == found[1] && found[0].count() > 0);
}

#[test]
fn the_variable_of_each_cpu_is_found() {
    let (_directory, path) = lab();
    let source = Source::open(&[path.join("sample")]).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    let program = Program::open(&kernel).unwrap();
    let name = |name: &str| program.symbols().find(name).unwrap().address;
    let cpus = kernel.read_u32("nr_cpu_ids", name("nr_cpu_ids")).unwrap();
    let mut expected = Bitmap::new(SECTION_FRAMES as usize);
    for cpu in 0..u64::from(cpus) {
        let slot = VirtAddr(name("__per_cpu_offset").0 + 8 * cpu);
        let offset = kernel.read_u64("an offset", slot).unwrap();
        let at = VirtAddr(name("runqueues").0.wrapping_add(offset));
        let frame = kernel.translate(at).unwrap().unwrap().physical.0 / 4096;
        expected.set(frame as usize);
    }
    let rule =
        "[[rule]]\naction = \"keep\"\neach = \"rq in runqueues per-cpu\"\nbytes = \"rq size 8\"\n";
    let rows: Value = serde_json::from_str(&check(&path, rule).code(0).text()).unwrap();
    assert_eq!(rows[0]["pages"], expected.count());
}

#[test]
fn rules_that_cannot_be_resolved_are_warnings_of_a_dump_and_errors_of_the_check() {
    let (_directory, path) = lab();
    let rules = "[[rule]]\nname = \"buffers\"\naction = \"drop\"\n\
                 each = \"buffer in no_such_list:list_head within no_such:list\"\n\
                 pages = \"buffer.page\"\n";
    let (source, report) = dump(&path, rules);
    let warning = report["warnings"][0].as_str().unwrap();
    assert_eq!(warning, "rule \"buffers\": symbol 'no_such_list' not found");
    let (plain, _) = dump(&path, "");
    assert_eq!(present(&source).count(), present(&plain).count());
    check(&path, rules)
        .code(1)
        .says(&["1 of 1 rules cannot be resolved"]);
    // A file that is no rules costs no dump either.
    let (plain, _) = dump(&path, "[[rule]]\naction = \"hide\"\n");
    assert_eq!(present(&source).count(), present(&plain).count());
    check(&path, "[[rule]]\naction = \"hide\"\n")
        .code(1)
        .says(&["rules.toml: line 2: action is"]);
}
