//! `bigiron dump --report-first` and `--report-only`.

use std::fs;

use serde_json::Value;

use crate::common::{Lab, arg, run};
use crate::save::{complete_and_equal, lab};

/// The facts and the log of a report.
fn parse(report: &str) -> (Value, &str) {
    let (line, log) = report.split_once('\n').unwrap();
    (serde_json::from_str(line).unwrap(), log)
}

#[test]
fn report_precedes_the_dump_and_has_facts_and_log() {
    let lab = lab();
    let (report, dump) = (lab.path("report"), lab.path("dump"));
    let words = [
        "dump",
        "-q",
        "--report-first",
        arg(&report),
        arg(lab.vmcore()),
        arg(&dump),
    ];
    run(&words).code(0);
    complete_and_equal(&dump, lab.vmcore());
    let text = fs::read_to_string(&report).unwrap();
    let (facts, log) = parse(&text);
    assert_eq!(facts["release"], "6.12.0-synth");
    let printed = run(&["dmesg", arg(lab.vmcore())]).code(0).text();
    assert!(log.lines().count() > 40 && log == printed, "{log}");
    // An existing report is not replaced, which takes no dump away.
    fs::remove_file(&dump).unwrap();
    run(&words)
        .code(0)
        .says(&["warning: the report is not written", arg(&report)]);
    complete_and_equal(&dump, lab.vmcore());
}

#[test]
fn only_the_report_is_written_to_a_file_or_a_stream() {
    let lab = lab();
    let report = lab.path("report");
    run(&["dump", "--report-only", arg(lab.vmcore()), arg(&report)]).code(0);
    let written = fs::read_to_string(&report).unwrap();
    let streamed = run(&["dump", "--report-only", arg(lab.vmcore()), "-"])
        .code(0)
        .text();
    assert_eq!(streamed, written);
    assert!(written.len() < 100_000 && !written.contains("KDUMP"));
    run(&["dump", "--report-only", arg(lab.vmcore()), arg(&report)]).code(1);
    run(&[
        "dump",
        "--report-only",
        "--overwrite",
        arg(lab.vmcore()),
        arg(&report),
    ])
    .code(0);
}

#[test]
fn report_without_a_kernel_is_a_failure_only_if_it_is_all() {
    let lab = Lab::new();
    let mut core = fs::read(lab.vmcore()).unwrap();
    // No note, and no VMCOREINFO in memory.
    for at in 0..core.len() - 10 {
        if core[at..].starts_with(b"VMCOREINFO") || core[at..].starts_with(b"OSRELEASE=") {
            core[at] = b'X';
        }
    }
    let core = lab.file("core", &core);
    let (report, dump) = (lab.path("report"), lab.path("dump"));
    run(&["dump", "--report-only", arg(&core), arg(&report)]).code(1);
    let words = [
        "dump",
        "-d",
        "1",
        "--report-first",
        arg(&report),
        arg(&core),
        arg(&dump),
    ];
    run(&words).code(0).says(&["the report is not written"]);
    assert!(dump.exists() && !report.exists());
}

#[test]
fn report_of_an_encrypted_dump_is_refused() {
    let lab = lab();
    let dump = lab.path("dump");
    let words = [
        "dump",
        "--encrypt",
        "age1x",
        "--report-only",
        arg(lab.vmcore()),
        arg(&dump),
    ];
    run(&words).code(2);
}
