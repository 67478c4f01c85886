//! Every command that reads a dump, on machines of every architecture.

use std::fs;
use std::path::{Path, PathBuf};

use bigiron_dump::{
    ChunkCompression, DumpOptions, Format, Progress, Subject, ZstdChunks, save_kernel,
};
use bigiron_format::elf::CoreHeaders;
use bigiron_helpers::Stop;
use bigiron_kernel::{IoMethod, Kernel, RUNNING_KERNEL, Source};
use bigiron_synth::{ElfShape, Synth, Vaddr};
use serde_json::Value;

use crate::common::{arg, run};
use crate::machines::{
    CACHE, CALLS, FREE, FREE_COUNTER, LOG, MODULE_BASE, MODULE_SIZE, PLAIN, RAM, USER, each,
    each_of,
};
use crate::mounted::{Mounted, can_mount};

fn json(words: &[&str]) -> Value {
    serde_json::from_slice(&run(words).code(0).stdout).unwrap()
}

/// The value of a member of a struct that was read.
fn member(read: &Value, name: &str) -> Value {
    let members = read["members"].as_array().unwrap().iter();
    let mut found = members.filter(|member| member["name"] == name);
    let found = found.next().unwrap_or_else(|| panic!("{name}: {read}"));
    let mut shown = ["text", "value", "members"]
        .iter()
        .filter_map(|kind| found.get(kind));
    let shown = shown.next().unwrap_or_else(|| panic!("{name}: {read}"));
    shown.clone()
}

#[test]
fn tasks_modules_and_memory_are_those_of_the_machine() {
    each(|lab| {
        for dump in [&lab.core, &lab.dump("dump", &["-d", "31"])] {
            let topics = [
                "--tasks",
                "--modules",
                "--memory",
                "--pages",
                "--run-queues",
            ];
            let words = [&["info", "--json"], &topics[..], &[arg(dump)]].concat();
            let said = json(&words);
            assert_eq!(said["kernel"]["machine"], lab.name);
            let tasks = said["tasks"]["tasks"].as_array().unwrap();
            let shown = tasks
                .iter()
                .map(|task| (&task["pid"], &task["name"], &task["cpu"]));
            let shown: Vec<_> = shown
                .map(|(pid, name, cpu)| format!("{pid} {name} {cpu}"))
                .collect();
            assert_eq!(shown, ["0 \"swapper/0\" 0", "1 \"worker\" 0"], "{said}");
            assert!(said["tasks"].get("gaps").is_none(), "{said}");
            let module = &said["modules"]["list"][0];
            assert_eq!(module["name"], "virtio_lab");
            assert_eq!(module["base"], format!("{MODULE_BASE:#x}"));
            assert_eq!(module["size"], MODULE_SIZE);
            assert_eq!(
                (&module["state"], &module["taints"]),
                (&"live".into(), &"O".into())
            );
            assert_eq!(module["references"], 3);
            let used = &said["memory_use"];
            assert_eq!(used["page_size"], 1 << lab.page_shift);
            assert_eq!(used["counters"]["NR_FREE_PAGES"], FREE_COUNTER);
            assert_eq!(used["counters"]["NR_FILE_PAGES"], CACHE);
            let bytes = FREE_COUNTER << lab.page_shift;
            assert_eq!(
                (&used["users"][0]["name"], &used["users"][0]["bytes"]),
                (&"free".into(), &bytes.into())
            );
            let classes = &said["page_classes"];
            assert_eq!(classes["ram"], RAM >> lab.page_shift);
            let of = |class: &str| classes["classes"][class].as_u64().unwrap();
            assert_eq!(
                (of("free"), of("cache") + of("cache_private"), of("user")),
                (FREE, CACHE, USER)
            );
        }
    });
}

/// The log is that of the same machine of x86-64, which makedumpfile judges
/// (`crates/synth/tests/printk.rs`).
#[test]
fn symbols_types_values_and_the_log_are_found() {
    let text = format!("kernel 6.12\nram 0x0-0x3fff\nlog lockless n={LOG}\n");
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("own");
    let machine = Synth::from_text(&text).unwrap();
    fs::write(&own, machine.elf(&ElfShape::vmcore())).unwrap();
    let expected = run(&["dmesg", arg(&own)]).code(0).text();
    assert!(expected.contains("record 19: "), "{expected}");
    each(|lab| {
        let core = arg(&lab.core);
        let line = run(&["sym", core, "schedule"]).code(0).text();
        let (address, rest) = line.split_once(' ').unwrap();
        assert_eq!(rest, "(T) schedule\n");
        let inside = run(&["sym", core, &format!("{address}+4")]).code(0).text();
        assert!(inside.ends_with(" (T) schedule+0x4\n"), "{inside}");
        let task = run(&["type", core, "task_struct"]).code(0).text();
        assert!(
            task.ends_with("// struct task_struct: 128 bytes\n"),
            "{task}"
        );
        let next = json(&["read", "--json", core, "init_task.tasks.next"]);
        let at = format!("{:x}", next["value"].as_u64().unwrap());
        let worker = json(&["read", "--json", core, &at, "task_struct"]);
        assert_eq!(member(&worker, "comm"), "worker");
        assert_eq!(member(&worker, "pid"), 1);
        let log = run(&["dmesg", core]).code(0).text();
        assert_eq!(log, expected);
    });
}

/// The machines of other architectures have no code; their stacks are tested in `bigiron-kernel`.
#[test]
fn stack_of_loongarch64_is_unwound_by_the_prologues_of_its_functions() {
    let machines = [
        ("loongarch64", "loongarch64", 14, 0),
        ("loongarch64 pages=64k", "loongarch64", 16, 0),
    ];
    each_of(&machines, |lab| {
        let said = json(&["info", "--json", "--backtrace", arg(&lab.core)]);
        let stack = &said["backtrace"]["tasks"][0];
        let frames = stack["frames"].as_array().unwrap().iter();
        let found: Vec<_> = frames
            .map(|frame| frame["symbol"].as_str().unwrap())
            .collect();
        let expected: Vec<_> = (0..CALLS).map(|index| format!("call{index}")).collect();
        assert_eq!(found, expected, "{stack}");
        assert!(stack.get("cut").is_none(), "{stack}");
    });
}

#[test]
fn dumps_are_verified_and_a_changed_page_is_found() {
    each(|lab| {
        let frame = lab.frame(PLAIN + 1);
        let other = lab.changed("other", frame);
        run(&["verify", arg(&other), "--against", arg(&lab.core)]).code(1);
        for format in ["kdump", "vmdump"] {
            let all = lab.dump(format, &["-d", "0", "-f", format]);
            run(&["verify", arg(&all), "--against", arg(&lab.core)]).code(0);
            let listed = run(&["diff", "--list", arg(&all), arg(&other)])
                .code(1)
                .text();
            assert_eq!(listed.trim(), format!("different {frame:#x} 1"), "{format}");
            let some = lab.dump(&format!("{format}-31"), &["-d", "31", "-f", format]);
            run(&["verify", arg(&some), "--against", arg(&lab.core)]).code(0);
            let lost = run(&["diff", "--json", arg(&some), arg(&all)]).code(1);
            let lost: Value = serde_json::from_slice(&lost.stdout).unwrap();
            assert!(
                lost["only_second"]["count"].as_u64().unwrap() >= FREE + CACHE + USER,
                "{lost}"
            );
        }
    });
}

/// gdb, and drgn on some architectures, find memory by the addresses in the program headers only.
#[test]
fn elf_dumps_of_cores_without_addresses_have_the_image_at_its_addresses() {
    each(|lab| {
        let qemu = ElfShape {
            vaddr: Vaddr::Physical,
            qemu_notes: false,
            ..ElfShape::qemu()
        };
        let core = lab.path("qemu");
        fs::write(&core, lab.machine.elf(&qemu)).unwrap();
        let (virt, phys) = lab.machine.image();
        let page_size = 1 << lab.page_shift;
        for level in ["0", "31"] {
            let dump = lab.path(level);
            let words = [
                "dump",
                "-q",
                "-f",
                "elf",
                "-d",
                level,
                arg(&core),
                arg(&dump),
            ];
            run(&words).code(0);
            let bytes = fs::read(&dump).unwrap();
            let segments = CoreHeaders::read(bytes.as_slice()).unwrap().segments;
            for offset in (0..virt.end - virt.start).step_by(page_size) {
                let at = virt.start + offset;
                let holder = segments.iter().find_map(|segment| {
                    let inside = at.checked_sub(segment.virt.0)?;
                    (inside < segment.file_size).then_some((segment, inside))
                });
                let (segment, inside) = holder.unwrap_or_else(|| panic!("{at:#x}: {segments:x?}"));
                assert_eq!(segment.physical.0 + inside, phys.start + offset, "{at:#x}");
                let place = (segment.file_offset + inside) as usize;
                let page = lab.machine.read(phys.start + offset, page_size);
                assert!(bytes[place..place + page_size] == page.unwrap(), "{at:#x}");
            }
            run(&["verify", arg(&dump), "--against", arg(&core)]).code(0);
        }
        run(&["diff", arg(&lab.path("0")), arg(&core)]).code(0);
    });
}

#[test]
fn erased_member_is_erased_and_nothing_else() {
    each(|lab| {
        let config = lab.path("config");
        fs::write(&config, "erase init_task:task_struct.comm\n").unwrap();
        let plain = lab.dump("plain", &["-d", "31"]);
        let erased = lab.dump("erased", &["-d", "31", "--erase", arg(&config)]);
        let task = |dump: &Path| json(&["read", "--json", arg(dump), "init_task"]);
        let (before, after) = (task(&plain), task(&erased));
        assert_eq!(member(&before, "comm"), "swapper/0");
        assert_eq!(member(&after, "comm"), "X".repeat(16));
        assert_eq!(
            member(&after, "thread_node"),
            member(&before, "thread_node")
        );
        let address = run(&["sym", arg(&lab.core), "init_task"]).code(0).text();
        let address = u64::from_str_radix(address.split(' ').next().unwrap(), 16).unwrap();
        let physical = address.wrapping_sub(lab.machine.page_offset());
        let listed = run(&["diff", "--list", arg(&plain), arg(&erased)])
            .code(1)
            .text();
        let page = physical >> lab.page_shift;
        assert_eq!(listed.trim(), format!("different {page:#x} 1"));
    });
}

#[test]
fn report_counts_every_page_frame() {
    each(|lab| {
        let page = run(&["report", arg(&lab.core), "-o", "-"]).code(0).text();
        let data = page.split_once("id=\"data\">").unwrap().1;
        let data: Value = serde_json::Deserializer::from_str(data)
            .into_iter()
            .next()
            .unwrap()
            .unwrap();
        let map = &data["map"];
        let totals = map["total"].as_array().unwrap();
        let of = |name: &str| {
            let classes = map["classes"].as_array().unwrap();
            let index = classes.iter().position(|class| class["name"] == name);
            totals[index.unwrap()].as_u64().unwrap()
        };
        assert_eq!(map["ram"], RAM >> lab.page_shift);
        assert_eq!((of("free"), of("user")), (FREE, USER));
        assert_eq!(data["overview"]["kernel"]["machine"], lab.name);
        assert!(data["log"]["lines"].as_array().unwrap().len() >= LOG / 2);
    });
}

#[test]
fn mounted_core_equals_the_dump() {
    if !can_mount() {
        return;
    }
    each(|lab| {
        let dump = lab.dump("dump", &["-d", "0"]);
        let mounted = Mounted::new(lab.path("mnt"), &[&dump], &[]);
        let core = mounted.path("vmcore");
        run(&["diff", arg(&core), arg(&lab.core)]).code(0);
        let info = fs::read_to_string(mounted.path("info.json")).unwrap();
        let info: Value = serde_json::from_str(&info).unwrap();
        assert_eq!(info["kernel"]["machine"], lab.name);
        let value = |dump: &Path| run(&["read", arg(dump), "init_task"]).code(0).text();
        assert_eq!(value(&core), value(&lab.core));
        let log = fs::read_to_string(mounted.path("dmesg")).unwrap();
        assert_eq!(log, run(&["dmesg", arg(&lab.core)]).code(0).text());
    });
}

/// The core stands for /proc/kcore, which only a machine of the architecture has.
#[test]
fn dump_of_the_running_kernel_holds_its_pages() {
    each(|lab| {
        let core = fs::read(&lab.core).unwrap();
        let running = Source::from_bytes(Box::new(core), PathBuf::from(RUNNING_KERNEL)).unwrap();
        let subject = Subject::from(Kernel::find(&running, None, IoMethod::Read, 16).unwrap());
        let directory = lab.path("saved");
        fs::create_dir(&directory).unwrap();
        let (saved, summary) = save_kernel(
            &subject,
            Path::new(RUNNING_KERNEL),
            &directory,
            Format::Vmdump(ChunkCompression::Zstd(ZstdChunks::default())),
            &DumpOptions::default(),
            &Progress::new(),
            &Stop::new(),
        )
        .unwrap();
        assert_eq!(summary.lost, 0);
        run(&["verify", arg(&saved.path), "--against", arg(&lab.core)]).code(0);
        let made = Source::open(std::slice::from_ref(&saved.path)).unwrap();
        assert!(made.memory().notes().live_task().is_some());
        assert_eq!(made.memory().machine(), lab.name);
    });
}
