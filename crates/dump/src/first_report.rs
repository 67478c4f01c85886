//! What is known of a crash before any page is written: a line of JSON, and the end of the kernel
//! log. It is small, so that it can be stored or sent first.

use std::io::{self, Write};

use bigiron_kernel::Kernel;
use bigiron_kernel::printk::{Log, TextStyle};
use serde_json::{Map, Value, json};

/// Maximum size of the log in a report, in bytes: the default buffer of a machine with some 16
/// CPUs. The end tells the reason.
const MAX_LOG: usize = 256 << 10;

/// Makes the report of a kernel's crash: a line of JSON, then the end of the log as `bigiron
/// dmesg` prints it. Both have at most `max` bytes together.
/// If data is erased, there is no log: it may have some of them.
///
/// What cannot be read is left out, and named in the line.
pub fn first_report(kernel: &Kernel, max: usize) -> Vec<u8> {
    let mut facts = Map::new();
    let names = &kernel.utsname().names;
    for (name, value) in ["system", "host", "release", "version", "machine"]
        .iter()
        .zip(names)
    {
        facts.insert((*name).to_owned(), json!(value));
    }
    let time = kernel.info().value("CRASHTIME");
    if let Some(time) = time.and_then(|time| time.trim().parse::<i64>().ok()) {
        facts.insert("crash_time".into(), json!(time));
    }
    let mut log = Tail::new(MAX_LOG.min(max));
    let mut panic = None;
    let mut last = None;
    let read = match kernel.is_erased() {
        true => Err("the log may have data that are erased".to_owned()),
        false => Log::open(kernel).map_err(|error| error.to_string()),
    };
    let read = read.and_then(|found| {
        let summary = found.for_each(false, &mut |record| {
            last = record.ts_nsec.or(last);
            let text = record.text.bytes();
            if panic.is_none() && text.starts_with(PANIC) {
                panic = Some(String::from_utf8_lossy(text).into_owned());
            }
            TextStyle::PLAIN.write(&mut log, record)
        });
        summary.map_err(|error| error.to_string())
    });
    match read {
        Ok(summary) => {
            let warnings = summary.warnings();
            if !warnings.is_empty() {
                facts.insert("log_warnings".into(), json!(warnings));
            }
        }
        Err(error) => {
            facts.insert("log_error".into(), json!(error));
        }
    }
    facts.insert("panic".into(), json!(panic));
    facts.insert("uptime_nsec".into(), json!(last));
    let mut report = Value::Object(facts).to_string().into_bytes();
    report.push(b'\n');
    report.truncate(max);
    log.keep(max - report.len());
    report.extend(log.bytes);
    report
}

/// Start of the record of a panic (kernel/panic.c).
const PANIC: &[u8] = b"Kernel panic - not syncing";

/// A writer that keeps the last whole lines.
struct Tail {
    bytes: Vec<u8>,
    max: usize,
}

impl Tail {
    fn new(max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            max,
        }
    }

    /// Drops lines from the start until `max` bytes are left at most.
    fn keep(&mut self, max: usize) {
        let excess = self.bytes.len().saturating_sub(max);
        if excess == 0 {
            return;
        }
        // From the first whole line on.
        let ends = self.bytes[excess - 1..]
            .iter()
            .position(|byte| *byte == b'\n');
        let start = ends.map_or(self.bytes.len(), |end| excess + end);
        self.bytes.drain(..start);
    }
}

impl Write for Tail {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        // Not for each record: dropping moves what is left.
        if self.bytes.len() > 2 * self.max {
            self.keep(self.max);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::path::PathBuf;

    use bigiron_kernel::{IoMethod, PhysicalMemory, Source};
    use bigiron_synth::{ElfShape, Synth};

    use super::*;

    /// The report of a machine, and its whole log.
    fn report(max: usize) -> (Vec<u8>, Vec<u8>) {
        let text = "kernel 6.12\nram 0x0-0x9f 0x100-0x1fff\nlog lockless n=200";
        let core = Synth::from_text(text).unwrap().elf(&ElfShape::vmcore());
        let source = Source::from_bytes(Box::new(core), PathBuf::from("core")).unwrap();
        let cache = PhysicalMemory::DEFAULT_CACHE_PAGES;
        let kernel = Kernel::find(&source, None, IoMethod::Read, cache).unwrap();
        let mut log = Vec::new();
        let found = Log::open(&kernel).unwrap();
        found
            .write_styled(&mut log, false, TextStyle::PLAIN)
            .unwrap();
        (first_report(&kernel, max), log)
    }

    /// Splits a report into its facts and the log.
    fn parts(report: &[u8]) -> (Value, &[u8]) {
        let end = report.iter().position(|byte| *byte == b'\n').unwrap();
        let facts = serde_json::from_slice(&report[..end]).unwrap();
        (facts, &report[end + 1..])
    }

    #[test]
    fn report_has_the_facts_in_its_first_line_and_the_log_after_it() {
        let (report, whole) = report(1 << 20);
        let (facts, log) = parts(&report);
        assert_eq!(facts["release"], "6.12.0-synth");
        assert!(!whole.is_empty() && log == whole);
    }

    #[test]
    fn small_report_has_the_last_whole_lines_of_the_log() {
        let (small, whole) = report(2000);
        assert!(small.len() <= 2000 && small.len() > 1500, "{}", small.len());
        let (_, log) = parts(&small);
        let before = whole.strip_suffix(log).unwrap();
        assert!(before.ends_with(b"\n"));
        assert!(report(10).0.len() <= 10);
    }
}
