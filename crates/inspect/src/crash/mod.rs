//! Finds out from the log why a kernel stopped.
//!
//! The search relies on the kernel's messages, not on its version: a line that names the
//! problem, then `CPU: 1 PID: 87 Comm: sh …` (dump_stack_print_info, lib/dump_stack.c), the
//! instruction and the lines after `Call Trace:`, which each architecture prints in its own way.

mod kind;
mod lines;

use bigiron_kernel::printk::{Caller, Log, LogError, LogSummary, Record};
use serde::Serialize;

pub use kind::EventKind;

/// Prefix of a panic message (kernel/panic.c).
const PANIC: &str = "Kernel panic - not syncing: ";
/// Maximum number of lines of a call trace, and maximum length of a line, since a log may be
/// hostile.
const MAX_TRACE: usize = 128;
const MAX_LINE: usize = 512;
/// An oops has several lines that look like the first line of an event: `BUG: …`, then `Oops:
/// …`.
const SAME_EVENT_NS: u64 = 1_000_000_000;

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
    /// The call trace as printed, without addresses, innermost function first.
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
        Self::find_and(log, &mut |_| {})
    }

    /// Searches a log, and passes its records to `also`, since reading it takes long.
    pub fn find_and(
        log: &Log<'_>,
        also: &mut dyn FnMut(&Record<'_>),
    ) -> Result<(Self, LogSummary), LogError> {
        let mut search = Search::default();
        let summary = log.for_each(false, &mut |record| {
            search.record(record);
            also(record);
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
    /// True while traces are those of other tasks: a kernel that panics may list them all
    /// (panic_print, and sysrq-t).
    of_others: bool,
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
                (self.in_trace, self.of_others) = (false, false);
            }
            return;
        }
        if let Some(kind) = lines::kind_of(line) {
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
        if lines::begins_task(line) {
            // These events are about a task, which follows.
            let has_task = matches!(event.kind, EventKind::HungTask | EventKind::Stall);
            self.of_others = !has_task;
            self.in_trace = false;
        } else if lines::begins_trace(line) {
            self.in_trace = event.trace.is_empty() && !self.of_others;
        } else if let Some(call) = lines::call(line).filter(|_| self.in_trace) {
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
        (self.in_trace, self.of_others) = (false, false);
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

/// Extracts CPU, task and instruction pointer from a line.
fn details(event: &mut Event, line: &str) {
    if let Some(rest) = line.strip_prefix("CPU: ") {
        event.cpu = event.cpu.or(lines::number(rest));
        event.pid = event
            .pid
            .or_else(|| lines::number(rest.split("PID: ").nth(1)?));
        if event.command.is_none() {
            event.command = lines::command(rest);
        }
    } else if event.instruction.is_none() {
        event.instruction = lines::instruction(line).map(str::to_owned);
    }
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

    /// With panic_print=1, a panic lists all tasks.
    #[test]
    fn traces_of_a_list_of_tasks_are_not_those_of_the_panic() {
        let list = [
            "task:init            state:S stack:0     pid:1     tgid:1     ppid:0      flags:0x00000002",
            "Call Trace:",
            " <TASK>",
            " __schedule+0x3c5/0x9f0",
            " </TASK>",
        ];
        let oops = [
            "BUG: kernel NULL pointer dereference, address: 0000000000000008",
            "Call Trace:",
            " write_sysrq_trigger+0x42/0x50",
            "Kernel panic - not syncing: Fatal exception",
        ];
        let lines = oops.iter().chain(&list).map(|line| (1, 87, *line));
        let found = crash(&lines.collect::<Vec<_>>());
        assert!(
            found
                .panic
                .as_ref()
                .is_some_and(|panic| panic.trace.is_empty())
        );
        let trace = found.with_trace().map(|event| event.trace.as_slice());
        assert_eq!(
            trace,
            Some(&["write_sysrq_trigger+0x42/0x50".to_owned()][..])
        );
        // A task that hangs is the event itself.
        let hung = ["INFO: task init:1 blocked for more than 120 seconds."];
        let lines = hung.iter().chain(&list).map(|line| (1, 87, *line));
        let found = crash(&lines.collect::<Vec<_>>());
        let trace = found.with_trace().map(|event| event.trace.len());
        assert_eq!(trace, Some(1));
    }

    /// A requested crash by a write to address 0, as each architecture reports it.
    const OOPSES: [&[&str]; 4] = [
        // arm64.
        &[
            "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000000",
            "Mem abort info:",
            "  ESR = 0x0000000096000045",
            "user pgtable: 4k pages, 48-bit VAs, pgdp=0000000043a1d000",
            "[0000000000000000] pgd=0000000000000000, p4d=0000000000000000",
            "Internal error: Oops: 0000000096000045 [#1] SMP",
            "Modules linked in: ext4 virtio_blk",
            "CPU: 1 PID: 87 Comm: sh Not tainted 6.1.0-arm64 #1  Debian 6.1.1-1",
            "pstate: 60400005 (nZCv daif +PAN -UAO -TCO -DIT -SSBS BTYPE=--)",
            "pc : crash_now+0x34/0x50",
            "lr : write_it+0x9c/0xb0",
            "sp : ffff80000ab1bc90",
            "x29: ffff80000ab1bc90 x28: ffff000004e0d3c0 x27: 0000000000000000",
            "Call trace:",
            " crash_now+0x34/0x50",
            " write_it+0x9c/0xb0",
            "Code: 52800020 b9000020 (d503201f)",
        ],
        // riscv64.
        &[
            "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000000",
            "Oops [#1]",
            "Modules linked in: ext4 virtio_blk",
            "CPU: 1 PID: 87 Comm: sh Not tainted 6.12-riscv64 #1  Debian 6.12.1-1",
            "epc : crash_now+0x34/0x50",
            " ra : write_it+0x9c/0xb0",
            "epc : ffffffff8056d5a2 ra : ffffffff8056dca2 sp : ff20000000293a30",
            " gp : ffffffff81e2b3d0 tp : ff60000002f3aac0 t0 : ffffffff800011f8",
            "status: 0000000200000120 badaddr: 0000000000000000 cause: 000000000000000f",
            "[<ffffffff8056d5a2>] crash_now+0x34/0x50",
            "Call Trace:",
            "[<ffffffff8056d5a2>] crash_now+0x34/0x50",
            "[<ffffffff8056dca2>] write_it+0x9c/0xb0",
            "Code: 4785 4705 (c31c) 8082",
        ],
        // ppc64le.
        &[
            "BUG: Kernel NULL pointer dereference on write at 0x00000000",
            "Faulting instruction address: 0xc00000000094f8a4",
            "Oops: Kernel access of bad area, sig: 11 [#1]",
            "LE PAGE_SIZE=64K MMU=Radix SMP NR_CPUS=2048 NUMA pSeries",
            "CPU: 1 PID: 87 Comm: sh Not tainted 6.1.0-powerpc64le #1  Debian 6.1.1-1",
            "NIP:  c00000000094f8a4 LR: c000000000950a40 CTR: c00000000094f870",
            "REGS: c0000000034377e0 TRAP: 0300   Not tainted  (6.1.0-powerpc64le Debian 6.1.1-1)",
            "NIP [c00000000094f8a4] crash_now+0x34/0x50",
            "LR [c000000000950a40] write_it+0x9c/0xb0",
            "Call Trace:",
            "[c000000003437a80] [c00000000094f8a4] crash_now+0x34/0x50",
            "[c000000003437a90] [c000000000950a40] write_it+0x9c/0xb0",
            "--- interrupt: c00 at 0x7fff9c0e1b24",
            "NIP:  00007fff9c0e1b24 LR: 0000000010013a44 CTR: 0000000000000000",
        ],
        // s390x.
        &[
            "Unable to handle kernel pointer dereference in virtual kernel address space",
            "Failing address: 0000000000000000 TEID: 0000000000000483",
            "Fault in home space mode while using kernel ASCE.",
            "Oops: 0004 ilc:3 [#1] SMP",
            "Modules linked in: ext4 virtio_blk",
            "CPU: 1 PID: 87 Comm: sh Not tainted 6.1.0-s390x #1  Debian 6.1.1-1",
            "Hardware name: QEMU 8561 QEMU (KVM/Linux)",
            "Krnl PSW : 0704c00180000000 00000000008a54e4 (crash_now+0x34/0x50)",
            "           R:0 T:1 IO:1 EX:1 Key:0 M:1 W:0 P:0 AS:3 CC:0 PM:0 RI:0 EA:3",
            "Krnl GPRS: 0000000000000001 00000000008a54b0 0000000000000063 0000000000000000",
            "Call Trace:",
            " [<00000000008a54e4>] crash_now+0x34/0x50 ",
            "([<00000000008a5c1e>] write_it+0x9c/0xb0)",
            "Last Breaking-Event-Address:",
            " [<00000000008a5c18>] write_it+0x96/0xb0",
        ],
    ];

    #[test]
    fn oops_of_every_architecture_is_one_event() {
        for lines in OOPSES {
            let mut log: Vec<_> = lines.iter().map(|line| (1, 87, *line)).collect();
            log.push((2, 87, "Kernel panic - not syncing: Fatal exception"));
            let found = crash(&log);
            let event = found.cause.as_ref().unwrap();
            assert_eq!(
                (event.kind, event.message.as_str()),
                (EventKind::Oops, lines[0])
            );
            assert_eq!((event.cpu, event.pid), (Some(1), Some(87)), "{}", lines[0]);
            assert_eq!(event.command.as_deref(), Some("sh"));
            assert_eq!(event.instruction.as_deref(), Some("crash_now+0x34/0x50"));
            assert_eq!(event.trace, ["crash_now+0x34/0x50", "write_it+0x9c/0xb0"]);
        }
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
