//! Finds out from the console of a Xen hypervisor why it stopped.
//!
//! The search relies on its messages: those of a panic (xen/drivers/char/console.c), of dom0's end
//! (xen/common/shutdown.c), of its debug key (xen/common/kexec.c) and of its watchdog
//! (xen/arch/x86/nmi.c).

use serde::Serialize;

/// Lines of a panic's message, at most.
const MAX_LINES: usize = 8;
/// Maximum length of a line, since a console may be hostile.
const MAX_LINE: usize = 512;
/// What precedes the number of the CPU in the first line of a panic, and in the last line of all.
const PANIC: &str = "Panic on CPU ";
const EXECUTING: &str = "Executing kexec image on cpu";
/// The line before and behind a panic's message.
const FRAME: &str = "****";
/// What the lines of other reasons begin with, and what they contain. The domain with the hardware
/// need not be dom0.
const REASONS: [(&str, &str, StopKind); 5] = [
    ("'", "pressed -> triggering crashdump", StopKind::Request),
    ("Hardware Dom", " crashed: ", StopKind::Dom0),
    ("Domain 0 crashed: ", "", StopKind::Dom0),
    ("Hardware Dom", " shutdown: watchdog ", StopKind::Watchdog),
    ("Domain 0 shutdown: watchdog ", "", StopKind::Watchdog),
];

/// The kind of reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// The hypervisor panicked.
    Panic,
    /// dom0 crashed.
    Dom0,
    /// dom0 did not reset its watchdog in time.
    Watchdog,
    /// Somebody asked for a dump.
    Request,
}

/// Why a hypervisor stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stop {
    /// Kind.
    pub kind: StopKind,
    /// Its line of the console; those of a panic, without the first one.
    pub message: String,
    /// The CPU that stopped the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

impl Stop {
    /// Searches the console; returns the last reason, or `None` without one.
    pub fn find(console: &[u8]) -> Option<Self> {
        let console = String::from_utf8_lossy(console);
        let mut lines = console.lines().map(without_prefix);
        let mut found: Option<Self> = None;
        while let Some(line) = lines.next() {
            if let Some(cpu) = line.strip_prefix(PANIC) {
                let message = lines
                    .by_ref()
                    .take_while(|line| !line.starts_with(FRAME))
                    .take(MAX_LINES)
                    .filter(|line| !line.is_empty());
                found = Some(Self {
                    kind: StopKind::Panic,
                    message: message.collect::<Vec<_>>().join(" "),
                    cpu: number(cpu),
                });
            } else if let Some(kind) = kind_of(line) {
                let end = line.find(EXECUTING).unwrap_or(line.len());
                found = Some(Self {
                    kind,
                    message: line[..end].trim_end_matches([':', ' ']).to_owned(),
                    cpu: None,
                });
            }
            let executing = line.split_once(EXECUTING).and_then(|(_, cpu)| number(cpu));
            if let (Some(stop), Some(cpu)) = (&mut found, executing) {
                stop.cpu = Some(cpu);
            }
        }
        found
    }
}

fn kind_of(line: &str) -> Option<StopKind> {
    let mut reasons = REASONS.iter();
    let found = reasons.find(|(start, part, _)| line.starts_with(start) && line.contains(part));
    found.map(|(_, _, kind)| *kind)
}

/// Returns a line without what precedes its text: `(XEN) [2026-11-25 10:00:00] `, of which the
/// time depends on an option.
fn without_prefix(line: &str) -> &str {
    let mut end = line.len().min(MAX_LINE);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    let line = &line[..end];
    let line = line.strip_prefix("(XEN) ").unwrap_or(line);
    let time = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "));
    let is_time = |time: &str| {
        !time.is_empty()
            && time
                .chars()
                .all(|c| c.is_ascii_digit() || "-:. ".contains(c))
    };
    match time {
        Some((time, rest)) if is_time(time) => rest,
        _ => line,
    }
}

/// Parses the number at the start of `text`.
fn number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(console: &str) -> (StopKind, String, Option<u32>) {
        let stop = Stop::find(console.as_bytes()).unwrap();
        (stop.kind, stop.message, stop.cpu)
    }

    #[test]
    fn panic_has_its_message_and_its_cpu() {
        let console = "\
(XEN) Xen call trace:
(XEN)    [<ffff82d04022ba9c>] F do_tasklet+0x58/0x8a
(XEN) 
(XEN) ****************************************
(XEN) Panic on CPU 12:
(XEN) FATAL PAGE FAULT
(XEN) [error_code=0003]
(XEN) ****************************************
(XEN) 
(XEN) Reboot in five seconds...
(XEN) Executing kexec image on cpu12
(XEN) Shot down all CPUs";
        let message = "FATAL PAGE FAULT [error_code=0003]".to_owned();
        assert_eq!(find(console), (StopKind::Panic, message, Some(12)));
    }

    #[test]
    fn other_reasons_are_their_line() {
        for (console, kind, message) in [
            (
                "(XEN) 'C' pressed -> triggering crashdump\n(XEN) Executing kexec image on cpu5",
                StopKind::Request,
                "'C' pressed -> triggering crashdump",
            ),
            (
                "(XEN) [2026-11-25 10:00:01] Hardware Dom0 crashed: Executing kexec image on cpu5",
                StopKind::Dom0,
                "Hardware Dom0 crashed",
            ),
            (
                "(XEN) [  812.000001] Domain 0 shutdown: watchdog rebooting machine\n\
                 (XEN) Executing kexec image on cpu5",
                StopKind::Watchdog,
                "Domain 0 shutdown: watchdog rebooting machine",
            ),
        ] {
            assert_eq!(find(console), (kind, message.to_owned(), Some(5)));
        }
    }

    #[test]
    fn last_reason_counts() {
        let console = "Panic on CPU 1:\nold\n****\n(XEN) 'C' pressed -> triggering crashdump\n";
        assert_eq!(find(console).0, StopKind::Request);
        assert_eq!(Stop::find(b"(XEN) Brought up 2 CPUs\n\xff\n"), None);
    }
}
