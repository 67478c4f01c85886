//! Searches a log for the report that counts.

use bigiron_kernel::printk::Record;

use super::prefix::{self, Caller, Line, Way, Writer};
use super::report::{self, Report};
use super::stack::Frame;
use super::{Signature, identify, pattern};

/// Seconds within which a warning may have led to a later crash.
const SAME_CRASH: u64 = 60;

/// Reports after which the kernel goes on as before, so that a later crash may have another
/// cause.
const WARNINGS: [&str; 3] = ["WARNING:", "INFO: suspicious RCU usage", "UBSAN:"];
/// Reports of something that does not go on, which may be known by a later panic, but not lead
/// to a fault.
const HANGS: [&str; 5] = [
    "INFO: task",
    "INFO: rcu_",
    "BUG: soft lockup",
    "BUG: workqueue lockup",
    "unregister_netdevice: waiting for",
];
/// Faults, after which a kernel or task does not go on.
const FAULTS: [&str; 9] = [
    "nable to handle ",
    "NULL pointer dereference",
    "general protection fault",
    "kernel BUG at ",
    "double fault",
    "divide error: ",
    "Internal error:",
    "Trigger a crash",
    "Machine Check Exception:",
];
const PANIC: &str = "Kernel panic - not syncing";
/// Printed into the log of a virtual machine whose console broke off.
const CONSOLE_LOST: &str = "serialport: VM disconnected.";

/// A search through a log.
#[derive(Debug, Default)]
pub struct Search {
    report: Option<Report>,
    is_console_lost: bool,
}

impl Search {
    /// Searches a line of a text log.
    pub fn text_line(&mut self, line: &str) {
        self.is_console_lost |= line.contains(CONSOLE_LOST);
        if let Some(line) = prefix::parse(line) {
            self.line(&line);
        }
    }

    /// Searches a record of the kernel's log.
    pub fn record(&mut self, record: &Record<'_>) {
        /// Flag of the number of a CPU in a caller id (printk_caller_id, kernel/printk/printk.c).
        const CPU: u32 = 0x8000_0000;
        let caller = record.caller.map(|caller| match caller.0 & CPU {
            0 => Caller::Task(caller.0),
            _ => Caller::Cpu(caller.0 & !CPU),
        });
        let text = String::from_utf8_lossy(record.text.bytes());
        for line in text.lines() {
            self.line(&Line {
                writer: Writer {
                    way: Way::Stamped,
                    caller,
                },
                time: record.ts_nsec.map(|time| time / 1_000_000_000),
                text: line,
            });
        }
    }

    fn line(&mut self, line: &Line<'_>) {
        let begins = match &self.report {
            None => true,
            Some(report) => is_another_crash(report, line),
        };
        if begins && let Some(beginning) = report::beginning_of(line.text) {
            self.report = Some(Report::new(beginning, line));
        } else if let Some(report) = &mut self.report {
            report.add(line);
        }
    }

    /// The first line of the report that counts.
    pub fn first_line(&self) -> Option<&str> {
        self.report.as_ref().map(Report::first)
    }

    /// The first `count` lines of the report that counts.
    pub fn first_lines(&self, count: usize) -> impl Iterator<Item = &str> {
        let lines = self.report.iter().flat_map(Report::own);
        lines.take(count).map(String::as_str)
    }

    /// When the report began: seconds since boot.
    pub fn time(&self) -> Option<u64> {
        self.report.as_ref()?.time
    }

    /// Returns the signature of the report; `None` if there was none. The frames are those of
    /// the crashed task, for a report that does not have them.
    pub fn signature(&self, frames: &[Frame<'_>]) -> Option<Signature> {
        let mut signature = identify::identify(self.report.as_ref()?, frames);
        if self.is_console_lost && !signature.corrupted {
            signature.corrupted = true;
            signature.fingerprint = None;
        }
        Some(signature)
    }
}

/// Returns true if the line tells of a crash that the report did not lead to.
fn is_another_crash(report: &Report, line: &Line<'_>) -> bool {
    let (Some(before), Some(now)) = (report.time, line.time) else {
        return false;
    };
    if now.saturating_sub(before) < SAME_CRASH {
        return false;
    }
    let is = |text: &str, known: &[&'static str]| known.iter().any(|k| pattern::occurs(k, text));
    let is_fault = || is(line.text, &FAULTS);
    is(report.first(), &WARNINGS) && (is_fault() || line.text.contains(PANIC))
        || is(report.first(), &HANGS) && is_fault()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame<'t>(name: &'t str, module: Option<&'t str>) -> Frame<'t> {
        Frame { name, module }
    }

    #[test]
    fn stack_of_a_dump_is_used_where_the_report_has_none() {
        let mut search = Search::default();
        search.text_line("BUG: kernel NULL pointer dereference, address: 0000000000000008");
        let of_log = search.signature(&[]).unwrap();
        assert!(of_log.corrupted);
        let frames = [
            frame("panic", None),
            frame("crash_now", Some("m")),
            frame("write_it", None),
        ];
        let found = search.signature(&frames).unwrap();
        assert_eq!(
            found.title,
            "BUG: unable to handle kernel NULL pointer dereference in crash_now"
        );
        assert_eq!(found.frames, ["crash_now [m]", "write_it"]);
        assert!(!found.corrupted && found.fingerprint.is_some());
    }

    #[test]
    fn stack_of_a_dump_does_not_replace_that_of_the_report() {
        let mut search = Search::default();
        for line in [
            "divide error: 0000 [#1] SMP",
            "RIP: 0010:of_the_log+0x1/0x2",
            "Call Trace:",
            " caller+0x1/0x2",
        ] {
            search.text_line(line);
        }
        let found = search.signature(&[frame("of_the_dump", None)]).unwrap();
        assert_eq!(found.title, "divide error in of_the_log");
    }
}
