//! Erasing data from dumps of the real vmcore in samples/, with its own symbols and BTF.

use std::fs;
use std::path::{Path, PathBuf};

use bigiron_format::bitmap::Bitmap;
use bigiron_format::kdump::KdumpHeaders;
use bigiron_format::vmdump::Tag;
use bigiron_format::{PageFrame, VirtAddr};
use bigiron_kernel::symbols::{Symbols, kallsyms};
use bigiron_kernel::types::{TypeTable, btf, find_member};
use bigiron_kernel::{IoMethod, Kernel, SECTION_FRAMES, Source};

use crate::common;
use crate::common::sample;
use crate::common::{arg, command, finish};

const CONFIG: &str = "\
# The machine's name, what it was started with, and the names of all tasks.
erase init_uts_ns:uts_namespace.name.nodename
erase saved_command_line:char*
[vmlinux]
for task in init_task:task_struct.tasks within task_struct:tasks
    erase task.comm
    erase task.stack nullify
endfor
erase linux_banner:char[300] size 20
erase init_task:task_struct.cred size 16
";

/// Runs the program; arguments that begin with @ are files of `directory`.
fn run(directory: &Path, words: &str) -> common::Outcome {
    let words: Vec<String> = words
        .split_whitespace()
        .map(|word| match word.strip_prefix('@') {
            Some(name) => arg(&directory.join(name)).to_owned(),
            None => word.to_owned(),
        })
        .collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    finish(command(&words).spawn().unwrap())
}

/// A directory with the sample and a file of erase commands.
fn lab(config: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    sample::unpack(&path);
    fs::write(path.join("config"), config).unwrap();
    (directory, path)
}

fn open(path: &Path) -> Source {
    Source::open(&[path.to_owned()]).unwrap()
}

/// Opens the kernel of a dump.
fn kernel(source: &Source) -> Kernel<'_> {
    Kernel::find(source, None, IoMethod::Auto, 64).unwrap()
}

fn bytes_at(kernel: &Kernel, address: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    kernel
        .read("the test's data", VirtAddr(address), &mut bytes)
        .unwrap();
    bytes
}

fn symbol(symbols: &Symbols, name: &str) -> u64 {
    symbols.find(name).unwrap().address.0
}

/// Returns the addresses of all tasks but the first, from the task list in memory.
fn tasks(kernel: &Kernel, symbols: &Symbols, list: u64) -> Vec<u64> {
    let head = symbol(symbols, "init_task") + list;
    let mut tasks = Vec::new();
    let mut node = head;
    loop {
        node = u64::from_le_bytes(bytes_at(kernel, node, 8).try_into().unwrap());
        if node == head {
            return tasks;
        }
        tasks.push(node - list);
    }
}

/// Returns the bytes that differ between two dumps of the same pages.
fn differences(one: &Path, other: &Path) -> Vec<(u8, u8)> {
    let (one, other) = (open(one), open(other));
    let (one, other) = (one.memory(), other.memory());
    let mut readers = (one.reader(IoMethod::Auto), other.reader(IoMethod::Auto));
    let mut there = [(); 2].map(|()| Bitmap::new(SECTION_FRAMES as usize));
    let mut found = Vec::new();
    for chunk in one.sections() {
        one.present(chunk, &mut there[0]).unwrap();
        other.present(chunk, &mut there[1]).unwrap();
        for bit in 0..SECTION_FRAMES as usize {
            assert_eq!(there[0].get(bit), there[1].get(bit), "{chunk:?} {bit}");
            if there[0].get(bit) {
                let frame = PageFrame(chunk.0 + bit as u64);
                let pages = (
                    readers.0.pages(frame, 1).unwrap(),
                    readers.1.pages(frame, 1).unwrap(),
                );
                let bytes = pages.0.iter().zip(pages.1);
                found.extend(bytes.filter(|(a, b)| a != b).map(|(a, b)| (*a, *b)));
            }
        }
    }
    found
}

#[test]
fn only_the_named_data_is_erased_in_every_format() {
    let (_directory, path) = lab(CONFIG);
    run(&path, "dump -q -d 31 @sample @plain").code(0);
    run(&path, "dump -q -d 31 --erase @config @sample @erased").code(0);

    let plain = open(&path.join("plain"));
    let plain = kernel(&plain);
    let symbols = kallsyms::read(&plain).unwrap().unwrap();
    let types = btf::from_memory(&plain, &symbols).unwrap().unwrap();
    let task = bigiron_kernel::types::structure(&types, "task_struct");
    let task = task.unwrap().unwrap();
    let offset = |name| find_member(&types, task, name).unwrap().unwrap().offset;
    assert!(types.get(task).unwrap().name.is_some());
    let tasks = tasks(&plain, &symbols, offset("tasks"));
    assert!(tasks.len() > 20, "{} tasks", tasks.len());
    let pointer = |address| u64::from_le_bytes(bytes_at(&plain, address, 8).try_into().unwrap());
    let command_line = pointer(symbol(&symbols, "saved_command_line"));
    let text = bytes_at(&plain, command_line, 1024);
    let length = text.iter().position(|byte| *byte == 0).unwrap();
    assert!(length > 10, "{:?}", String::from_utf8_lossy(&text));
    let node_name = {
        let address = symbol(&symbols, "init_uts_ns");
        let offset = plain.info().offset("uts_namespace.name").unwrap() as u64;
        address + offset + 65
    };

    // All formats, and a dump of the dump, which must not restore anything.
    run(&path, "dump -q -d 0 -c none @erased @again").code(0);
    run(&path, "dump -q -d 31 -f elf --erase @config @sample @elf").code(0);
    run(
        &path,
        "dump -q -d 31 -f flattened --erase @config @sample @flat",
    )
    .code(0);
    run(
        &path,
        "dump -q -d 31 -f vmdump --erase @config @sample @vmdump",
    )
    .code(0);
    // Both unpacked as a whole and page by page.
    run(&path, "dump -q -d 0 -f elf @vmdump @unpacked").code(0);
    run(
        &path,
        "makedumpfile -d 31 --config @config @sample @personality",
    )
    .code(0);
    run(
        &path,
        "makedumpfile -d 31 --config @config --split @sample @part1 @part2",
    )
    .code(0);
    run(&path, "makedumpfile --reassemble @part1 @part2 @joined").code(0);
    for name in [
        "erased",
        "again",
        "elf",
        "flat",
        "vmdump",
        "unpacked",
        "personality",
        "joined",
    ] {
        let source = open(&path.join(name));
        let info = String::from_utf8(source.memory().erase_info().to_vec()).unwrap();
        let lines: Vec<_> = info.lines().collect();
        let sum = 2 + 2 * tasks.len() + 2;
        assert_eq!(lines.len(), sum, "{name}: {info}");
        assert_eq!(
            lines[0],
            "erase init_uts_ns:uts_namespace.name.nodename size 65"
        );
        let line = format!("erase saved_command_line:char* size {length}");
        assert_eq!(lines[1], line);
        assert_eq!(lines[2], "erase task.comm size 16");
        assert_eq!(lines[2 + tasks.len()], "erase task.stack nullify");
        let kernel = kernel(&source);
        for task in &tasks {
            assert_eq!(
                bytes_at(&kernel, task + offset("comm"), 16),
                [b'X'; 16],
                "{name}"
            );
            assert_eq!(
                bytes_at(&kernel, task + offset("stack"), 8),
                [0; 8],
                "{name}"
            );
        }
        assert_eq!(bytes_at(&kernel, node_name, 65), [b'X'; 65]);
        let erased = bytes_at(&kernel, command_line, length + 1);
        assert_eq!(erased[..length], vec![b'X'; length]);
        assert_eq!(erased[length], 0);
    }
    let headers = KdumpHeaders::read(&fs::read(path.join("erased")).unwrap()).unwrap();
    assert_eq!(
        headers.utsname.names[1],
        "X".repeat(64),
        "the header's name"
    );
    let vmdump = open(&path.join("vmdump"));
    let file = vmdump.memory().vmdump().unwrap().file();
    assert_eq!(file.header().utsname.names[1], "X".repeat(64));
    let root = file.root().unwrap();
    assert_eq!(root.header, *file.header());
    let metadata = file.read_payload(Tag::Metadata, root.metadata).unwrap();
    let metadata = String::from_utf8(metadata).unwrap();
    let node = format!("\"nodename\":\"{}", "X".repeat(64));
    assert!(metadata.contains(&node), "{metadata}");

    let found = differences(&path.join("plain"), &path.join("erased"));
    assert!(found.iter().all(|(_, now)| matches!(now, b'X' | 0)));
    let most = 65 + length + tasks.len() * 24 + 20 + 16;
    assert!(found.len() <= most, "{} of {most}", found.len());
    assert!(found.len() > tasks.len() * 8, "{}", found.len());
    assert!(differences(&path.join("erased"), &path.join("personality")).is_empty());
    assert!(differences(&path.join("erased"), &path.join("joined")).is_empty());
}

#[test]
fn erase_command_without_a_match_fails_a_dump_except_as_makedumpfile() {
    let (_directory, path) = lab(
        "erase init_task:task_struct.comm\nerase nothing\nerase init_task:task_struct.nothing\n\
         erase init_task\nerase init_task:no_struct\nerase init_task:task_struct.sched_migrated\n\
         erase init_task:task_struct size 999999999M\nerase jiffies:char[4] nullify\nbad\n\
         [sd_mod]\nerase sd_index_ida\n",
    );
    let problems = [
        (2, "symbol 'nothing' not found"),
        (3, "struct 'task_struct' has no member 'nothing'"),
        (4, "the type of 'init_task' is not known."),
        (5, "type 'no_struct' not found"),
        (6, "'sched_migrated' is a bit field"),
        (7, "1048575998951424 bytes are too many"),
        (8, "'jiffies:char[4]' is not a pointer"),
        (9, "invalid token 'bad'"),
        (11, "symbols of modules are not read"),
    ];
    let mut outcome = run(&path, "dump -q --erase @config @sample @out").code(1);
    for (line, text) in problems {
        outcome = outcome.says(&[&format!("line {line}: {text}")]);
    }
    assert!(!path.join("out").exists());
    let mut outcome = run(&path, "makedumpfile -d 31 --config @config @sample @out").code(0);
    for (line, text) in problems {
        outcome = outcome.says(&[&format!("Config error at {line}: {text}")]);
    }
    outcome.says(&["9 of the commands in"]);
    let source = open(&path.join("out"));
    assert_eq!(
        source.memory().erase_info(),
        b"erase init_task:task_struct.comm size 16\n"
    );
    run(&path, "dump -q --erase @missing @sample @none")
        .code(1)
        .says(&["missing: cannot read the erase commands: No such file"]);
    run(&path, "makedumpfile --config @missing @sample @none")
        .code(1)
        .says(&["Can't open config file("]);
}
