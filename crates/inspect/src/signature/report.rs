//! Collects the lines of a report from a log.

use super::prefix::{Line, Writer};
use super::rules::{BEGINNINGS, Beginning};
use super::{pattern, stack};

/// Maximum number of lines of a report. Those after its stacks say nothing about the kind.
const MAX_LINES: usize = 4096;
/// Lines after which the report stands on its own, and what it leads to is left out: a panic
/// because of it (panic_on_warn), with the same stack again, and lockdep's report about the
/// locks that printing takes. A shorter report may have its stack only in the panic.
const WHOLE: usize = 22;
/// The same of KMSAN, whose reports are shorter.
const WHOLE_KMSAN: usize = 16;

/// Lines that begin a report, but also go on with one: a panic because of it, the exception by
/// which a BUG is noticed, and the line before the registers on some architectures.
const GOES_ON: [&str; 8] = [
    "invalid opcode: 0000",
    "Kernel panic - not syncing",
    "unregister_netdevice: waiting for",
    "PANIC: double fault",
    "Internal error:",
    "Kernel BUG",
    "Oops - ",
    " ilc:",
];

/// Lines that begin no report, but print a stack (mm/vmalloc.c, lib/fault-inject.c,
/// fs/userfaultfd.c).
const OTHER_STACKS: [&str; 3] = [
    "vmalloc: allocation failure:",
    "FAULT_INJECTION: forcing a failure",
    "FAULT_FLAG_ALLOW_RETRY missing",
];

/// The lines of a report.
#[derive(Debug)]
pub struct Report {
    /// Its beginning.
    pub beginning: &'static Beginning,
    /// When it began: seconds since boot.
    pub time: Option<u64>,
    /// Its lines, the first included.
    lines: Vec<String>,
    /// Number of lines before those of another report.
    end: usize,
    writer: Writer,
    /// Lines seen of the same writer.
    count: usize,
    /// True after another report's first line.
    is_mixed: bool,
    /// True after the request to all CPUs to print their stacks.
    is_of_all_cpus: bool,
    /// True after the panic to which it led.
    is_over: bool,
}

/// Finds out what report the line begins.
pub fn beginning_of(text: &str) -> Option<&'static Beginning> {
    BEGINNINGS.iter().find(|beginning| {
        text.contains(beginning.word)
            && !(beginning.not.iter()).any(|other| pattern::occurs(other, text))
    })
}

impl Report {
    /// Begins a report.
    pub fn new(beginning: &'static Beginning, line: &Line<'_>) -> Self {
        Self {
            beginning,
            time: line.time,
            lines: vec![line.text.to_owned()],
            end: 1,
            writer: line.writer,
            count: 1,
            is_mixed: false,
            is_of_all_cpus: false,
            is_over: false,
        }
    }

    /// Its first line.
    pub fn first(&self) -> &str {
        self.lines.first().map_or("", String::as_str)
    }

    /// The lines up to those of another report.
    pub fn own(&self) -> &[String] {
        &self.lines[..self.end]
    }

    /// All lines.
    pub fn all(&self) -> &[String] {
        &self.lines
    }

    /// Adds a line of the log, if it belongs to the report.
    pub fn add(&mut self, line: &Line<'_>) {
        if self.is_over || self.lines.len() >= MAX_LINES {
            return;
        }
        let text = line.text;
        // Reports of known writers do not mix.
        if !self.is_mixed && !self.writer.is_known() {
            self.is_mixed = is_other(text);
        }
        let is_ours = line.writer == self.writer || self.is_of_all_cpus && line.writer.is_cpu();
        if !is_ours || stack::is_doubtful(text) {
            return;
        }
        self.count += 1;
        if text.contains("Disabling lock debugging due to kernel taint") {
            return;
        }
        self.is_of_all_cpus |= text.contains("Sending NMI from CPU");
        self.is_over = self.count > self.whole() && is_consequence(text);
        if !self.is_over {
            self.lines.push(text.to_owned());
            if !self.is_mixed {
                self.end = self.lines.len();
            }
        }
    }

    fn whole(&self) -> usize {
        if self.first().contains("BUG: KMSAN:") {
            WHOLE_KMSAN
        } else {
            WHOLE
        }
    }
}

/// Returns true for a line of another report than the current one.
fn is_other(text: &str) -> bool {
    let begins = beginning_of(text).is_some();
    begins && !GOES_ON.iter().any(|known| text.contains(known))
        || OTHER_STACKS.iter().any(|known| text.contains(known))
}

/// Returns true for a line to which a report led.
fn is_consequence(text: &str) -> bool {
    text.contains("Kernel panic - not syncing")
        || text.contains("WARNING: possible circular locking dependency detected")
}
