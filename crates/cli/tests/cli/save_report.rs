//! The report that is written to a dump device before the dump.

use std::fs;

use bigiron_format::device::{
    BLOCK_SIZE, BlockPosition as Block, CONTENTS_OFFSET, DeviceHeader, ReportPlace,
};
use serde_json::Value;

use crate::common::{arg, run};
use crate::save::SaveLab;

/// Makes the device that of a machine that stopped when `kept` bytes of the dump were written.
fn stop_after(place: &SaveLab, kept: usize) -> ReportPlace {
    let header = place.found().unwrap().header;
    let stopped = DeviceHeader {
        complete: false,
        length: 0,
        ended: 0,
        ..header.clone()
    };
    let report = header.report.unwrap();
    let end = place.end_block();
    place.patch(|bytes| {
        bytes[CONTENTS_OFFSET as usize + kept..report.offset as usize].fill(0);
        bytes[..BLOCK_SIZE].copy_from_slice(&stopped.encode(Block::Start));
        bytes[end..].copy_from_slice(&stopped.encode(Block::End));
    });
    report
}

/// Asserts that a saved report has the facts and the log of the machine.
#[track_caller]
fn tells_the_crash(place: &SaveLab, name: &str) {
    let report = fs::read(place.file(name)).unwrap();
    let end = report.iter().position(|byte| *byte == b'\n').unwrap();
    let facts: Value = serde_json::from_slice(&report[..end]).unwrap();
    assert_eq!(facts["release"], "6.12.0-synth");
    let log = run(&["dmesg", arg(place.lab.vmcore())]).code(0).stdout;
    assert!(!log.is_empty() && report[end + 1..] == log);
}

#[test]
fn report_is_saved_if_the_machine_stopped_before_the_first_page() {
    for options in [&["-f", "vmdump"][..], &["-f", "kdump"], &["-f", "elf"]] {
        let place = SaveLab::with_dump(options);
        stop_after(&place, 0);
        let kept = place.save(&["--keep"]).code(0);
        assert!(kept.text().contains("only the report"), "{}", kept.text());
        assert!(place.is_valid());
        let saved = place.saved(&[]);
        assert_eq!(saved["found"], false);
        assert_eq!(saved["mark_cleared"], true);
        assert_eq!(saved["report"], place.file("report.0").to_str().unwrap());
        assert_eq!(place.names(), ["info.0", "report.0"]);
        tells_the_crash(&place, "report.0");
        assert!(place.save(&[]).code(0).text().contains("no unsaved dump"));
        // The number is taken.
        place.dump(options).code(0);
        assert_eq!(place.saved(&[])["number"], 1);
    }
}

#[test]
fn incomplete_dump_has_its_report_beside_it_and_a_complete_one_has_none() {
    let place = SaveLab::with_dump(&["-f", "vmdump", "-d", "1"]);
    assert_eq!(place.saved(&["--keep"])["report"], Value::Null);
    place.empty_directory();
    stop_after(&place, 4 << 20);
    let saved = place.saved(&[]);
    assert_eq!(saved["complete"], false);
    assert_eq!(saved["report"], place.file("report.0").to_str().unwrap());
    tells_the_crash(&place, "report.0");
}

#[test]
fn damaged_report_is_not_saved() {
    let place = SaveLab::with_dump(&[]);
    let report = stop_after(&place, 0);
    place.patch(|bytes| bytes[report.offset as usize + 100] ^= 1);
    let outcome = place
        .save(&[])
        .code(0)
        .says(&["cannot read the report", "checksum"]);
    assert!(outcome.text().contains("nothing to save"));
    assert!(place.names().is_empty());
}

#[test]
fn dump_with_a_report_of_an_unknown_place_is_refused() {
    let place = SaveLab::with_dump(&[]);
    let header = place.found().unwrap().header;
    let report = header.report.unwrap();
    for (offset, length) in [(u64::MAX, 8), (report.offset, 2 << 20), (0, 1)] {
        let header = DeviceHeader {
            report: Some(ReportPlace {
                offset,
                length,
                ..report
            }),
            ..header.clone()
        };
        place.patch(|bytes| {
            bytes[..BLOCK_SIZE].copy_from_slice(&header.encode(Block::Start));
            let end = bytes.len() - BLOCK_SIZE;
            bytes[end..].copy_from_slice(&header.encode(Block::End));
        });
        place.save(&[]).code(1);
        assert!(place.names().is_empty());
    }
}
