//! Finds out from the log why a kernel stopped.
//!
//! The search relies on the kernel's messages, not on its version: a line that names the
//! problem, then `CPU: 1 PID: 87 Comm: sh …` (dump_stack_print_info, lib/dump_stack.c), `RIP:
//! …` and the lines after `Call Trace:` (arch/x86/kernel/dumpstack.c).

use bigiron_kernel::printk::{Caller, Log, LogError, LogSummary, Record};
use serde::Serialize;

/// Prefix of a panic message (kernel/panic.c).
const PANIC: &str = "Kernel panic - not syncing: ";
/// Prefixes of the first line of other events, and their kinds.
const BEGINNINGS: [(&str, EventKind); 16] = [
    ("BUG: ", EventKind::Oops),
    ("kernel BUG at ", EventKind::Oops),
    ("Oops: ", EventKind::Oops),
    ("general protection fault", EventKind::Oops),
    ("invalid opcode: ", EventKind::Oops),
    ("divide error: ", EventKind::Oops),
    ("stack segment: ", EventKind::Oops),
    ("int3: ", EventKind::Oops),
    ("traps: PANIC: ", EventKind::Oops),
    ("watchdog: BUG: ", EventKind::Lockup),
    ("watchdog: Watchdog detected ", EventKind::Lockup),
    ("NMI watchdog: Watchdog detected ", EventKind::Lockup),
    ("INFO: task ", EventKind::HungTask),
    ("rcu: INFO: ", EventKind::Stall),
    ("mce: [Hardware Error]: ", EventKind::Hardware),
    ("sysrq: Trigger a crash", EventKind::Request),
];
/// Prefix of the line with the kernel's instruction pointer, in the segment __KERNEL_CS. The
/// trace of a system call ends with the user's.
const KERNEL_RIP: &str = "RIP: 0010:";
/// Maximum number of lines of a call trace, and maximum length of a line, since a log may be
/// hostile.
const MAX_TRACE: usize = 128;
const MAX_LINE: usize = 512;
/// An oops has several lines that look like the first line of an event: `BUG: …`, then `Oops:
/// …`.
const SAME_EVENT_NS: u64 = 1_000_000_000;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// Panic.
    Panic,
    /// A fault, or a failed assertion of the kernel.
    Oops,
    /// A CPU that does not respond.
    Lockup,
    /// A task that was blocked too long.
    HungTask,
    /// An RCU stall.
    Stall,
    /// An error reported by the CPU or memory.
    Hardware,
    /// A requested crash.
    Request,
}

/// An event in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Kind.
    pub kind: EventKind,
    /// Its first line, without time.
    pub message: String,
    /// Nanoseconds since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ts_nsec: Option<u64>,
    /// The CPU on which it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// PID of the task on that CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Name of that task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Instruction pointer, `function+offset/size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction: Option<String>,
    /// The call trace as printed, innermost function first.
    pub trace: Vec<String>,
    #[serde(skip)]
    caller: Option<Caller>,
}

impl Event {
    fn new(kind: EventKind, message: &str, record: &Record<'_>) -> Self {
        Self {
            kind,
            message: message.to_owned(),
            ts_nsec: record.ts_nsec,
            cpu: None,
            pid: None,
            command: None,
            instruction: None,
            trace: Vec::new(),
            caller: record.caller,
        }
    }
}

/// Why the kernel stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Crash {
    /// The panic, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panic: Option<Event>,
    /// The last other event before it; without a panic, the last in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Event>,
    /// Time of the last line: nanoseconds since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ts_nsec: Option<u64>,
}

impl Crash {
    /// Searches a log.
    pub fn find(log: &Log<'_>) -> Result<(Self, LogSummary), LogError> {
        let mut search = Search::default();
        let summary = log.for_each(false, &mut |record| {
            search.record(record);
            Ok(())
        })?;
        Ok((search.crash, summary))
    }

    /// Returns the event whose call trace shows what the task was doing: the panic's own, else
    /// its cause's.
    pub fn with_trace(&self) -> Option<&Event> {
        let events = [&self.panic, &self.cause];
        let mut events = events.into_iter().flatten();
        events
            .clone()
            .find(|event| !event.trace.is_empty())
            .or_else(|| events.next())
    }
}

#[derive(Default)]
struct Search {
    crash: Crash,
    /// True while lines belong to the last event's call trace.
    in_trace: bool,
}

impl Search {
    fn record(&mut self, record: &Record<'_>) {
        self.crash.last_ts_nsec = record.ts_nsec.or(self.crash.last_ts_nsec);
        let text = String::from_utf8_lossy(record.text.bytes());
        for line in text.lines() {
            self.line(cut(line), record);
        }
    }

    fn line(&mut self, line: &str, record: &Record<'_>) {
        if let Some(message) = line.strip_prefix(PANIC) {
            // A second panic, of another CPU or caused by the first, explains nothing.
            if self.crash.panic.is_none() {
                self.crash.panic = Some(Event::new(EventKind::Panic, message, record));
                self.in_trace = false;
            }
            return;
        }
        if let Some(kind) = kind_of(line) {
            self.begin(kind, line, record);
            return;
        }
        let Some(event) = current(&mut self.crash) else {
            return;
        };
        // Other CPUs may log in between.
        if event.caller != record.caller {
            return;
        }
        if line.trim_end() == "Call Trace:" {
            self.in_trace = event.trace.is_empty();
        } else if self.in_trace && line.starts_with(' ') {
            let call = line.trim();
            let is_mark = call == "<TASK>" || call == "</TASK>";
            if !is_mark && event.trace.len() < MAX_TRACE {
                event.trace.push(call.to_owned());
            }
        } else {
            self.in_trace = false;
            details(event, line);
        }
    }

    fn begin(&mut self, kind: EventKind, line: &str, record: &Record<'_>) {
        if self.crash.panic.is_some() {
            return;
        }
        if let Some(before) = &self.crash.cause {
            let since = record
                .ts_nsec
                .unwrap_or(0)
                .saturating_sub(before.ts_nsec.unwrap_or(0));
            let goes_on = before.trace.is_empty()
                && since < SAME_EVENT_NS
                && before.kind == kind
                && before.caller == record.caller;
            if goes_on {
                return;
            }
        }
        self.in_trace = false;
        self.crash.cause = Some(Event::new(kind, line, record));
    }
}

/// Returns the event to which lines belong.
fn current(crash: &mut Crash) -> Option<&mut Event> {
    crash.panic.as_mut().or(crash.cause.as_mut())
}

fn cut(line: &str) -> &str {
    let mut end = line.len().min(MAX_LINE);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    &line[..end]
}

fn kind_of(line: &str) -> Option<EventKind> {
    let known = BEGINNINGS.iter().find(|(text, _)| line.starts_with(text));
    known.map(|(_, kind)| *kind)
}

/// Extracts CPU, task and instruction pointer from a line.
fn details(event: &mut Event, line: &str) {
    if let Some(rest) = line.strip_prefix("CPU: ") {
        event.cpu = event.cpu.or(number(rest));
        event.pid = event.pid.or_else(|| number(rest.split("PID: ").nth(1)?));
        if event.command.is_none() {
            event.command = command(rest);
        }
    } else if let Some(rip) = line.strip_prefix(KERNEL_RIP)
        && event.instruction.is_none()
    {
        event.instruction = Some(rip.to_owned());
    }
}

/// Parses the number at the start of `text`.
fn number(text: &str) -> Option<u32> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Parses the name after `Comm: `, which may contain blanks; the taint state follows it.
fn command(rest: &str) -> Option<String> {
    let (_, rest) = rest.split_once("Comm: ")?;
    let ends = [" Not tainted", " Tainted: ", " Kdump: "];
    let end = ends.iter().filter_map(|text| rest.find(text)).min();
    Some(rest[..end.unwrap_or(rest.len())].to_owned())
}

#[cfg(test)]
mod tests {
    use bigiron_kernel::printk::RecordText;

    use super::*;

    fn crash(log: &[(u64, u32, &str)]) -> Crash {
        let mut search = Search::default();
        for (ts, caller, text) in log {
            search.record(&Record {
                seq: None,
                ts_nsec: Some(*ts),
                level: None,
                facility: None,
                caller: Some(Caller(*caller)),
                device: None,
                text: RecordText::Bytes(text.as_bytes()),
            });
        }
        search.crash
    }

    #[test]
    fn oops_followed_by_a_panic_keeps_its_first_line_and_trace() {
        let found = crash(&[
            (
                5,
                87,
                "BUG: kernel NULL pointer dereference, address: 0000000000000008",
            ),
            (6, 87, "#PF: supervisor write access in kernel mode"),
            (7, 87, "Oops: 0002 [#1] PREEMPT SMP PTI"),
            (
                8,
                87,
                "CPU: 1 UID: 0 PID: 87 Comm: my own name Kdump: loaded Not tainted 6.12",
            ),
            (9, 87, "RIP: 0010:sysrq_handle_crash+0x16/0x20"),
            (10, 87, "Call Trace:"),
            (11, 87, " <TASK>"),
            (12, 87, " ? __die+0x1f/0x60"),
            (13, 2, "other: a line of another task"),
            (14, 87, " write_sysrq_trigger+0x42/0x50"),
            (15, 87, " </TASK>"),
            (16, 87, "Modules linked in: ext4"),
            (17, 87, " not a call"),
            (18, 87, "Kernel panic - not syncing: Fatal exception"),
        ]);
        let panic = found.panic.as_ref().map(|event| event.message.as_str());
        assert_eq!(panic, Some("Fatal exception"));
        let cause = found.cause.as_ref();
        assert!(cause.is_some_and(|event| event.message.starts_with("BUG: kernel NULL")));
        let event = found.with_trace();
        assert_eq!(event, cause);
        let Some(event) = event else { return };
        assert_eq!((event.cpu, event.pid), (Some(1), Some(87)));
        assert_eq!(event.command.as_deref(), Some("my own name"));
        assert_eq!(
            event.instruction.as_deref(),
            Some("sysrq_handle_crash+0x16/0x20")
        );
        assert_eq!(
            event.trace,
            ["? __die+0x1f/0x60", "write_sysrq_trigger+0x42/0x50"]
        );
        assert_eq!(found.last_ts_nsec, Some(18));
    }

    #[test]
    fn clean_log_has_no_events_and_hostile_log_is_bounded() {
        let calm = crash(&[(1, 1, "Linux version 6.1"), (2, 1, "CPU: 1 PID: 1 Comm: x")]);
        assert_eq!((calm.panic, calm.cause), (None, None));
        let mut lines = vec![
            (1, 1, "Kernel panic - not syncing: x"),
            (1, 1, "Call Trace:"),
        ];
        lines.extend([(1, 1, " f+0x1/0x2"); 1000]);
        let found = crash(&lines);
        assert_eq!(found.panic.map(|event| event.trace.len()), Some(MAX_TRACE));
        let long = format!("Kernel panic - not syncing: {}", "ä".repeat(1000));
        let found = crash(&[(1, 1, &long)]);
        assert!(
            found
                .panic
                .is_some_and(|event| event.message.len() <= MAX_LINE)
        );
    }
}
