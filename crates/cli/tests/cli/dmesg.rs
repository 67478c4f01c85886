//! `bigiron dmesg` and its alias vmcore-dmesg.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::common::{arg, command, finish, make_pipe, run, run_with_input};
use bigiron_synth::{ElfShape, LogRecord, Machine, Synth, Written};

fn machine(log: &str) -> Machine {
    let text = format!("kernel 5.4\nram 0x0-0xfff\npages 0x200 free order=9\n{log}");
    Synth::from_text(&text).unwrap()
}

/// Returns the log as makedumpfile prints it, with every byte escaped as itself, and carriage
/// returns as well.
fn log_text(machine: &Machine, since_clear: bool) -> String {
    let log = machine.spec().log.as_ref().unwrap();
    let text = String::from_utf8_lossy(&log.expected_text(since_clear)).into_owned();
    let text = text.replace("\\xffffff", "\\x");
    text.replace('\r', "\\x0d")
}

fn vmcore(directory: &Path, machine: &Machine) -> String {
    let path = directory.join("vmcore");
    fs::write(&path, machine.elf(&ElfShape::vmcore())).unwrap();
    arg(&path).to_owned()
}

#[test]
fn log_is_in_dumps_of_the_highest_level_in_every_format() {
    let directory = tempfile::tempdir().unwrap();
    for log in ["log lockless n=200", "log records n=200"] {
        let machine = machine(log);
        let source = vmcore(directory.path(), &machine);
        let right = log_text(&machine, false);
        assert!(right.contains("record 198"), "{right}");
        assert_eq!(run(&["dmesg", &source]).code(0).text(), right);
        for format in ["kdump", "flattened", "elf", "vmdump"] {
            let dump = arg(&directory.path().join(format)).to_owned();
            run(&["dump", "-qf", format, "--overwrite", &source, &dump]).code(0);
            assert_eq!(run(&["dmesg", &dump]).code(0).text(), right, "{format}");
            for cache in ["0", "20K", "1M", "1G"] {
                let read = run(&["dmesg", "--cache", cache, &dump]).code(0);
                assert_eq!(read.text(), right, "{format} with a cache of {cache}");
            }
        }
        let flat = fs::read(directory.path().join("flattened")).unwrap();
        let piped = run_with_input(&["dmesg", "-"], &flat).code(0);
        assert_eq!(piped.text(), right);
    }
}

#[test]
fn filters_select_the_records_that_are_printed() {
    let directory = tempfile::tempdir().unwrap();
    let machine = machine("log lockless n=30 cleared=20");
    let source = vmcore(directory.path(), &machine);
    let since = run(&["dmesg", "--since-clear", &source]).code(0).text();
    assert_eq!(since, log_text(&machine, true));
    let errors = run(&["dmesg", "-x", "-l", "err,crit", &source])
        .code(0)
        .text();
    let heads: Vec<_> = errors
        .lines()
        .filter_map(|line| line.split_once(": ["))
        .map(|(head, _)| head.trim_end())
        .collect();
    assert!(
        heads.contains(&"kern  :err") && heads.contains(&"kern  :crit"),
        "{heads:?}"
    );
    let others = |head: &&&str| !head.ends_with(":err") && !head.ends_with(":crit");
    assert_eq!(heads.iter().find(others), None);
    let callers = run(&["dmesg", "--caller", &source]).code(0).text();
    assert!(
        callers.starts_with("[    0.000000] [    T0] record 0: "),
        "{callers}"
    );
    assert!(callers.contains("] [    C1] record 1: "), "{callers}");
}

#[test]
fn json_output_has_one_object_per_record() {
    let directory = tempfile::tempdir().unwrap();
    let machine = machine("log lockless n=30");
    let source = vmcore(directory.path(), &machine);
    let text = run(&["dmesg", "--json", &source]).code(0).text();
    let records = &machine.spec().log.as_ref().unwrap().records;
    let mut count = 0;
    for line in text.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        let right = &records[object["seq"].as_u64().unwrap() as usize];
        assert_eq!(object["ts_nsec"], right.ts_nsec);
        assert_eq!(object["level"], right.level);
        assert_eq!(object["facility"], right.facility);
        let device = right.device.as_ref().map(|(_, device)| device.as_str());
        assert_eq!(object["device"].as_str(), device);
        count += 1;
    }
    let reserved = |record: &&LogRecord| record.written == Written::Reserved;
    assert_eq!(count, 30 - records.iter().filter(reserved).count());
}

#[test]
fn output_file_is_private_and_never_replaces_another() {
    let directory = tempfile::tempdir().unwrap();
    let machine = machine("log records");
    let source = vmcore(directory.path(), &machine);
    let output = directory.path().join("log");
    run(&["dmesg", &source, "-o", arg(&output)]).code(0);
    assert_eq!(
        fs::read_to_string(&output).unwrap(),
        log_text(&machine, false)
    );
    let mode = fs::metadata(&output).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    run(&["dmesg", &source, "-o", arg(&output)])
        .code(1)
        .says(&["already exists"]);
    let nowhere = directory.path().join("no/log");
    run(&["dmesg", &source, "-o", arg(&nowhere)])
        .code(1)
        .says(&["no/log", "No such file"]);
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let child = command(&["dmesg", &source]).stdout(full).spawn().unwrap();
    finish(child).code(1).says(&["No space left"]);
}

#[test]
fn dump_without_a_log_is_an_error_that_names_the_missing_key() {
    let directory = tempfile::tempdir().unwrap();
    let source = vmcore(directory.path(), &machine(""));
    run(&["dmesg", &source])
        .code(1)
        .says(&[&source, "SYMBOL(prb)"]);
}

/// Runs vmcore-dmesg: ours, then kexec-tools' if it is installed.
fn vmcore_dmesg(directory: &Path, arguments: &[&str]) -> Vec<(Option<i32>, Vec<u8>)> {
    let ours = directory.join("vmcore-dmesg");
    if !ours.exists() {
        symlink(env!("CARGO_BIN_EXE_bigiron"), &ours).unwrap();
    }
    [ours, "/usr/sbin/vmcore-dmesg".into()]
        .iter()
        .filter(|program| program.exists())
        .map(|program| {
            let output = Command::new(program).args(arguments).output().unwrap();
            (output.status.code(), output.stdout)
        })
        .collect()
}

#[test]
fn vmcore_dmesg_alias_prints_what_vmcore_dmesg_prints() {
    let directory = tempfile::tempdir().unwrap();
    for log in [
        "log lockless n=40 text_bits=14",
        "log lockless n=400",
        "log records n=20",
        "log text n=300",
    ] {
        let source = vmcore(directory.path(), &machine(log));
        let said = vmcore_dmesg(directory.path(), &[&source]);
        assert!(!said[0].1.is_empty());
        for (code, text) in &said {
            assert_eq!(*code, Some(0));
            assert_eq!(
                String::from_utf8_lossy(text),
                String::from_utf8_lossy(&said[0].1),
                "{log}"
            );
        }
    }
    for (arguments, right) in [(&[][..], 1), (&["a", "b"], 1), (&["/nowhere"], 2)] {
        for (code, _) in vmcore_dmesg(directory.path(), arguments) {
            assert_eq!(code, Some(right), "{arguments:?}");
        }
    }
}

#[test]
fn pipe_as_log_file_receives_the_log_and_stays_a_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let machine = machine("log records n=50");
    let source = vmcore(directory.path(), &machine);
    let pipe = directory.path().join("pipe");
    make_pipe(&pipe);
    let reader = {
        let pipe = pipe.clone();
        thread::spawn(move || fs::read(pipe).unwrap())
    };
    let arguments = ["makedumpfile", "-f", "--dump-dmesg", &source, arg(&pipe)];
    run(&arguments).code(0);
    let log = machine.spec().log.as_ref().unwrap();
    assert_eq!(reader.join().unwrap(), log.expected_text(false));
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
}
