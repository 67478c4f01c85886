//! The table of a report with known figures.

use std::path::PathBuf;

use super::*;
use crate::peers::agreement::{Agreement, Frames};
use crate::peers::child::{Ending, Run};
use crate::peers::programs::Program;
use crate::peers::report::{Bare, Level, Ratios, Reference, SourceInfo};

fn series(mode: &str, threads: usize, seconds: &[f64]) -> Series {
    let mut series = Series::new(mode, threads);
    for seconds in seconds {
        series.add(Ending::Done(Run {
            seconds: *seconds,
            cpu_seconds: 2.0 * seconds,
            peak_bytes: 10 << 20,
            output_bytes: 5_000_000,
        }));
    }
    series
}

/// Returns a report with zlib, measured with makedumpfile, and snappy, measured without.
fn report() -> Report {
    let mut aborted = series("--num-threads=2", 2, &[9.0]);
    aborted.add(Ending::Signal(6, "libgcc_s.so.1".into()));
    let mut too_slow = series("--num-threads=4", 4, &[]);
    too_slow.add(Ending::TooSlow);
    let agreement = Agreement {
        between: ["makedumpfile (one thread)", "bigiron -j1"].map(str::to_owned),
        equal: 100,
        only_first: Frames {
            count: 3,
            first: Some(0x77),
        },
        ..Agreement::default()
    };
    let mut zlib = Row {
        codec: "zlib".into(),
        level: 1,
        makedumpfile: vec![series("one thread", 1, &[6.0, 4.0, 5.0]), aborted, too_slow],
        makedumpfile_absent: None,
        one_helper: series("-j1", 1, &[2.0]),
        all_helpers: series("-j2", 2, &[1.0, 1.25, 8.0]),
        bare: Bare { one: 1.9, all: 1.0 },
        ratios: Ratios::default(),
        agreements: vec![agreement],
    };
    zlib.compute_ratios();
    let mut snappy = Row {
        codec: "snappy".into(),
        makedumpfile: Vec::new(),
        makedumpfile_absent: Some("this makedumpfile was built without snappy".into()),
        agreements: Vec::new(),
        ..zlib.clone()
    };
    snappy.compute_ratios();
    Report {
        version: "1.2.3",
        source: SourceInfo {
            path: PathBuf::from("/dumps/vmcore"),
            kind: "ELF core".into(),
            kernel: "6.1".into(),
            page_size: 4096,
            bytes: 1 << 30,
            in_memory: true,
        },
        directory: PathBuf::from("/tmp"),
        in_memory: false,
        runs: 3,
        helpers: 2,
        programs: vec![Program::find("no-such-program", &[])],
        levels: vec![Level {
            level: 1,
            kept_pages: 103,
            nonzero_pages: 90,
            sampled_pages: 45,
            memcpy: Bare { one: 0.2, all: 0.1 },
        }],
        rows: vec![zlib, snappy],
        references: vec![Reference {
            level: 1,
            core_seconds: 0.5,
            core_bytes: 7_000_000,
            series: series("zstd -q -1 -T2", 2, &[3.0]),
        }],
    }
}

/// Returns the cells of the line that begins with `begin`, by column name.
fn cells(lines: &[String], begin: &str) -> Vec<(String, String)> {
    let split = |line: &str| -> Vec<String> {
        let cells = line.split("  ").map(str::trim);
        cells
            .filter(|cell| !cell.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let line = lines.iter().find(|line| line.starts_with(begin)).unwrap();
    split(&lines[0]).into_iter().zip(split(line)).collect()
}

#[test]
fn row_has_medians_and_ratios_to_the_best_mode() {
    let lines = align(&rows(&report()));
    let zlib = cells(&lines, "zlib -d 1");
    let has = |name: &str, value: &str| {
        assert!(
            zlib.contains(&(name.into(), value.into())),
            "{name}: {zlib:?}"
        );
    };
    has("makedumpfile", "5.00");
    has("its mode", "one thread");
    has("-j1", "2.00");
    has("-j2", "1.25");
    has("thread/-j1", "2.50");
    has("best/-j2", "4.00");
    has("-j2/bare", "1.25");
    has("pages", "other *");
    assert_eq!(zlib.len(), 17);
}

#[test]
fn missing_figure_has_a_dash_and_a_reason() {
    let report = report();
    let snappy = cells(&align(&rows(&report)), "snappy -d 1");
    assert!(
        snappy.contains(&("best/-j2".into(), NOTHING.into())),
        "{snappy:?}"
    );
    assert!(
        snappy.contains(&("pages".into(), "equal".into())),
        "{snappy:?}"
    );
    let notes = notes(&report).join("\n");
    for part in [
        "snappy -d 1: this makedumpfile was built without snappy",
        "makedumpfile --num-threads=2: 1 of 2 runs were ended by a signal",
        "makedumpfile --num-threads=4: abandoned in 1 rows, where it took more than 4 times",
        "* zlib -d 1: makedumpfile (one thread) and bigiron -j1: 100 pages are equal, 3 pages are \
         only in makedumpfile (one thread)'s dump (first 0x77)",
    ] {
        assert!(notes.contains(part), "no {part:?} in: {notes}");
    }
}

#[test]
fn head_lists_programs_and_states_that_a_disk_is_measured() {
    let text = report().text(&Machine::here());
    for part in [
        "bigiron 1.2.3; no-such-program: not installed",
        "so the disk is measured",
        "3 runs each",
        "zstd -q",
    ] {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    let columns = text.lines().map(str::len).max();
    assert!(columns < Some(240), "{columns:?}");
}
