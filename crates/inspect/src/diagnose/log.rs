//! The lines of the kernel's log that findings look at.

use bigiron_kernel::Kernel;
use bigiron_kernel::printk::Log;

use crate::crash::{Crash, Event, EventKind};

/// Lines that are kept, the newest, and bytes of each: a log may be hostile.
const MAX_LINES: usize = 32 << 10;
const MAX_LINE: usize = 512;
/// Lines before the calls; the second is arm64's (arch/arm64/kernel/stacktrace.c).
const CALL_TRACES: [&str; 2] = ["Call Trace:", "Call trace:"];
/// Beginnings of the names of functions that print the calls, which arm64 shows among them
/// (lib/dump_stack.c).
const PRINTING: [&str; 3] = ["dump_backtrace+", "show_stack+", "dump_stack"];
/// Lines of one report.
const MAX_REPORT: usize = 160;

/// The log.
#[derive(Default)]
pub struct LogLines {
    lines: std::collections::VecDeque<Line>,
    /// Why the kernel stopped, according to the log.
    pub crash: Crash,
}

/// A line.
pub struct Line {
    /// Nanoseconds since boot.
    pub ts_nsec: Option<u64>,
    /// The text.
    pub text: String,
}

impl LogLines {
    /// Reads the log; empty if it cannot be read.
    pub fn of(kernel: &Kernel) -> Self {
        let mut found = Self::default();
        let lines = &mut found.lines;
        let read = Log::open(kernel).map(|log| {
            Crash::find_and(&log, &mut |record| {
                let text = String::from_utf8_lossy(record.text.bytes());
                for line in text.lines() {
                    if lines.len() == MAX_LINES {
                        lines.pop_front();
                    }
                    lines.push_back(Line {
                        ts_nsec: record.ts_nsec,
                        text: line.chars().take(MAX_LINE).collect(),
                    });
                }
            })
        });
        if let Ok(Ok((crash, _))) = read {
            found.crash = crash;
        }
        found
    }

    /// A log with these lines.
    #[cfg(test)]
    pub fn of_lines(lines: &[&str]) -> Self {
        let lines = lines.iter().map(|text| Line {
            ts_nsec: None,
            text: (*text).to_owned(),
        });
        Self {
            lines: lines.collect(),
            crash: Crash::default(),
        }
    }

    /// The fault or failed assertion that stopped the kernel.
    pub fn fault(&self) -> Option<&Event> {
        let cause = self.crash.cause.as_ref();
        cause.filter(|event| event.kind == EventKind::Oops)
    }

    /// Time of the panic; without one, of the last line.
    pub fn end(&self) -> Option<u64> {
        let panic = self.crash.panic.as_ref().and_then(|panic| panic.ts_nsec);
        panic.or_else(|| self.lines.back()?.ts_nsec)
    }

    /// Returns the last line that `is_wanted`, and those after it that may belong to its report.
    pub fn last_report(&self, is_wanted: impl Fn(&str) -> bool) -> Option<Vec<&str>> {
        let position = self.lines.iter().rposition(|line| is_wanted(&line.text))?;
        let lines = self.lines.iter().skip(position).take(MAX_REPORT);
        Some(lines.map(|line| line.text.as_str()).collect())
    }

    /// All lines, the oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    /// Time of the last line that `is_wanted`.
    pub fn last_time(&self, is_wanted: impl Fn(&str) -> bool) -> Option<u64> {
        let line = self.lines.iter().rfind(|line| is_wanted(&line.text))?;
        line.ts_nsec
    }

    /// The lines of the report of an event, its first line included.
    pub fn report_of(&self, event: &Event) -> Vec<&str> {
        let first = self
            .lines
            .iter()
            .position(|line| line.text == event.message && line.ts_nsec == event.ts_nsec);
        let Some(first) = first else {
            return Vec::new();
        };
        let lines = self.lines.iter().skip(first).take(MAX_REPORT);
        lines.map(|line| line.text.as_str()).collect()
    }
}

/// Returns the calls of the first call trace in a report, without those that are doubtful, and
/// without those that print the trace.
pub fn calls(report: &[&str]) -> Vec<String> {
    let after = report
        .iter()
        .skip_while(|line| !CALL_TRACES.iter().any(|known| line.starts_with(known)));
    let lines = after.skip(1).map(|line| line.trim());
    let lines = lines.take_while(|line| *line == "<TASK>" || line.contains("+0x"));
    lines
        .filter(|line| line.contains("+0x") && !line.starts_with('?'))
        .skip_while(|line| PRINTING.iter().any(|known| line.starts_with(known)))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_as_each_architecture_prints_them() {
        let x86 = [
            "RIP: 0010:use+0x9/0x20 [faults]",
            "Call Trace:",
            " <TASK>",
            " list_corruption+0x94/0x118 [faults]",
            " ? kthread_park+0x0/0x80",
            " kthread+0xec/0xf8",
            " </TASK>",
            " other+0x1/0x2",
        ];
        let arm64 = [
            "pc : __list_del_entry_valid_or_report+0xd8/0xe0",
            "Call trace:",
            " dump_backtrace+0xa0/0x128",
            " show_stack+0x20/0x38",
            " dump_stack_lvl+0x78/0x90",
            " dump_stack+0x18/0x28",
            " list_corruption+0x94/0x118 [faults]",
            " kthread+0xec/0xf8",
            "Code: aa0403e1 900058a0 91386000 97e74435 (d4210000)",
        ];
        let expected = ["list_corruption+0x94/0x118 [faults]", "kthread+0xec/0xf8"];
        assert_eq!(calls(&x86), expected);
        assert_eq!(calls(&arm64), expected);
        assert!(calls(&arm64[2..]).is_empty());
    }
}
