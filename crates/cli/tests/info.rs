//! `bigiron info`: what a dump is, and why its kernel stopped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::fs;
use std::path::Path;

use bigiron_synth::{ElfShape, KernelLog, LogForm, LogRecord, Synth};
use common::{arg, run};
use serde_json::Value;

const OOPS: [&str; 12] = [
    "Linux version 5.10",
    "BUG: unable to handle page fault for address: ffffdead00000000",
    "Oops: 0000 [#1] SMP",
    "CPU: 3 PID: 4711 Comm: a worse \x1b[31m name Tainted: G",
    "RIP: 0010:take_a_page+0x10/0x40",
    "Call Trace:",
    " ? page_fault_oops+0xd2/0x2b0",
    " hold_the_page+0x1/0x2",
    " let_it_go+0x3/0x4",
    "RIP: 0033:0x47b7a0",
    "---[ end trace 0000000000000000 ]---",
    "Kernel panic - not syncing: Fatal exception",
];

/// A vmcore whose log has these lines, a second apart.
fn vmcore(directory: &Path, lines: &[&str]) -> String {
    let text = "kernel 5.10\nram 0x0-0x9f 0x100-0xfff\npages 0x200 free order=9\n";
    let mut spec = Synth::from_text(text).unwrap().spec().clone();
    let mut log = KernelLog::new(LogForm::Lockless);
    for (second, line) in (1..).zip(lines) {
        log.records
            .push(LogRecord::new(second * 100_000_000, line.as_bytes()));
    }
    spec.log = Some(log);
    let path = directory.join("vmcore");
    fs::write(
        &path,
        Synth::from_spec(spec).unwrap().elf(&ElfShape::vmcore()),
    )
    .unwrap();
    arg(&path).to_owned()
}

fn json(dump: &str) -> Value {
    serde_json::from_slice(&run(&["info", "--json", dump]).code(0).stdout).unwrap()
}

#[test]
fn it_says_why_the_kernel_stopped_whatever_the_format() {
    let directory = tempfile::tempdir().unwrap();
    let source = vmcore(directory.path(), &OOPS);
    let shown = run(&["info", &source]).code(0).text();
    for line in [
        "dump      ELF core, dump level 0, complete",
        "crashed   1.2 s after the start",
        "panic     Fatal exception",
        "fault     BUG: unable to handle page fault for address: ffffdead00000000",
        "task      a worse \u{fffd}[31m name (PID 4711) on CPU 3",
        "at        take_a_page+0x10/0x40",
        "trace     hold_the_page+0x1/0x2",
        "          let_it_go+0x3/0x4",
        "memory    15.6 MiB, of which 15.6 MiB are in the dump",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert!(
        !shown.contains("page_fault_oops") && !shown.contains("0x47b7a0"),
        "{shown}"
    );
    let of_source = json(&source);
    assert_eq!(
        of_source["crash"]["cause"]["trace"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    for format in ["kdump", "elf", "flattened", "vmdump"] {
        let dump = arg(&directory.path().join(format)).to_owned();
        run(&["dump", "-q", "-d", "31", "-f", format, &source, &dump]).code(0);
        let found = json(&dump);
        for part in ["crash", "kernel", "cpus"] {
            assert_eq!(found[part], of_source[part], "{format}, {part}");
        }
        assert_eq!(found["dump"]["complete"], true);
        let (pages, there) = (&found["memory"]["pages"], &found["memory"]["pages_in_dump"]);
        assert_eq!(pages, &of_source["memory"]["pages"], "{format}");
        assert!(
            there.as_u64().unwrap() < pages.as_u64().unwrap(),
            "{format}"
        );
    }
}

#[test]
fn of_a_kernel_that_did_not_crash_it_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let source = vmcore(directory.path(), &OOPS[..1]);
    let shown = run(&["info", &source]).code(0).text();
    assert!(
        shown.contains("the log tells of no panic and no fault"),
        "{shown}"
    );
    assert!(!shown.contains("crashed"), "{shown}");
    assert_eq!(json(&source)["crash"].get("panic"), None);
}

#[test]
fn what_is_missing_is_told_and_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let source = vmcore(directory.path(), &OOPS);
    let whole = fs::read(&source).unwrap();
    fs::write(&source, &whole[..whole.len() - 8192]).unwrap();
    let shown = run(&["info", &source]).code(0).text();
    assert!(
        shown.contains("INCOMPLETE") && shown.contains("it is truncated"),
        "{shown}"
    );
    assert!(shown.contains("Fatal exception"), "{shown}");
    fs::write(&source, &whole[..8192]).unwrap();
    let outcome = run(&["info", &source]).code(0);
    let outcome = outcome.says(&["warning: ", "the kernel log cannot be read"]);
    assert!(outcome.text().contains("not known"), "{}", outcome.text());
    fs::write(&source, &whole[..100]).unwrap();
    run(&["info", &source]).code(1).says(&[&source]);
    run(&["info", arg(&directory.path().join("nothing"))]).code(1);
    run(&["info"]).code(2);
}
