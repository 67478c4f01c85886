//! The lines of an event in the log, as each architecture prints them.

use super::kind::EventKind;

/// Prefixes of the first line of events other than panics, and their kinds.
const BEGINNINGS: [(&str, EventKind); 26] = [
    ("BUG: ", EventKind::Oops),
    ("kernel BUG at ", EventKind::Oops),
    ("Oops: ", EventKind::Oops),
    ("general protection fault", EventKind::Oops),
    ("invalid opcode: ", EventKind::Oops),
    ("divide error: ", EventKind::Oops),
    ("stack segment: ", EventKind::Oops),
    ("int3: ", EventKind::Oops),
    ("traps: PANIC: ", EventKind::Oops),
    // arm64, riscv64 and s390x; ppc64 until 5.4.
    ("Unable to handle kernel ", EventKind::Oops),
    // arm64 (arch/arm64/kernel/traps.c).
    ("Internal error: ", EventKind::Oops),
    ("Bad mode in ", EventKind::Oops),
    // riscv64 (die, arch/riscv/kernel/traps.c).
    ("Oops [#", EventKind::Oops),
    ("Oops - ", EventKind::Oops),
    ("Kernel BUG [#", EventKind::Oops),
    // ppc64 (arch/powerpc/kernel/traps.c).
    ("Bad kernel stack pointer ", EventKind::Oops),
    ("watchdog: BUG: ", EventKind::Lockup),
    ("watchdog: Watchdog detected ", EventKind::Lockup),
    ("NMI watchdog: Watchdog detected ", EventKind::Lockup),
    ("INFO: task ", EventKind::HungTask),
    ("rcu: INFO: ", EventKind::Stall),
    ("mce: [Hardware Error]: ", EventKind::Hardware),
    // arm64, then ppc64.
    ("SError Interrupt on CPU", EventKind::Hardware),
    ("Machine check in kernel mode", EventKind::Hardware),
    ("Severe Machine check interrupt", EventKind::Hardware),
    ("sysrq: Trigger a crash", EventKind::Request),
];

/// Prefixes before the name of the interrupted function: of the instruction pointer in the
/// segment __KERNEL_CS of x86-64, since the trace of a system call ends with the user's; of
/// arm64 and, until 4.14, arm64; of riscv64.
const INSTRUCTIONS: [&str; 4] = ["RIP: 0010:", "pc : ", "PC is at ", "epc : "];

/// Returns the kind of event that the line begins.
pub fn kind_of(line: &str) -> Option<EventKind> {
    let known = BEGINNINGS.iter().find(|(text, _)| line.starts_with(text));
    match known {
        Some((_, kind)) => Some(*kind),
        None => is_program_exception(line).then_some(EventKind::Oops),
    }
}

/// Returns true for a line such as `specification exception: 0006 ilc:3 [#1] SMP`, by which s390x
/// reports any exception (die, arch/s390/kernel/dumpstack.c).
fn is_program_exception(line: &str) -> bool {
    let Some((before, after)) = line.split_once(" ilc:") else {
        return false;
    };
    let code = before.rsplit_once(": ").map_or("", |(_, code)| code);
    code.len() == 4
        && is_address(code)
        && after
            .split_once(" [#")
            .is_some_and(|(len, _)| len.len() == 1)
}

/// Returns the interrupted instruction that a line names, as `function+offset/size`.
pub fn instruction(line: &str) -> Option<&str> {
    if let Some(found) = INSTRUCTIONS
        .iter()
        .find_map(|prefix| line.strip_prefix(prefix))
    {
        // Later lines of riscv64 and arm64 have addresses only.
        return is_call(found).then_some(found);
    }
    // ppc64: `NIP [c00000000094f8a4] sysrq_handle_crash+0x34/0x50`.
    if let Some(rest) = line.strip_prefix("NIP [") {
        let (_, name) = rest.split_once("] ")?;
        // That of the user program at the end of a trace has no name.
        return is_call(name).then_some(name.trim_end());
    }
    // s390x: `Krnl PSW : 0704c00180000000 00000000008a54e4 (sysrq_handle_crash+0x2c/0x40)`.
    let rest = line.strip_prefix("Krnl PSW : ")?;
    let (_, name) = rest.split_once('(')?;
    name.trim_end().strip_suffix(')')
}

/// Returns true for the first line about a task (sched_show_task, kernel/sched/core.c).
pub fn begins_task(line: &str) -> bool {
    line.starts_with("task:") && line.contains(" state:")
}

/// Returns true for the line before a call trace.
pub fn begins_trace(line: &str) -> bool {
    ["Call Trace:", "Call trace:"].contains(&line.trim_end())
}

/// Returns the call that a line of a call trace names, without addresses; `None` if the line
/// does not belong to it.
pub fn call(line: &str) -> Option<&str> {
    let is_part = [" ", "[", "([<"].iter().any(|text| line.starts_with(text));
    let mut rest = line.trim();
    // s390x puts a call that is not reliable into parentheses.
    if let Some(inner) = rest.strip_prefix('(') {
        rest = inner.strip_suffix(')').unwrap_or(inner).trim_end();
    }
    // riscv64, s390x and older kernels have `[<ffffffff80a6944c>]` before it, ppc64 the stack
    // pointer and the address: `[c000000003437a90] [c0000000005d6c18]`.
    for _ in 0..2 {
        let Some((address, after)) = rest
            .strip_prefix('[')
            .and_then(|inner| inner.split_once("] "))
        else {
            break;
        };
        if !is_address(address) {
            break;
        }
        rest = after.trim_start();
    }
    is_part.then_some(rest)
}

fn is_address(text: &str) -> bool {
    let text = text.trim_start_matches('<').trim_end_matches('>');
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_call(text: &str) -> bool {
    text.split_once("+0x")
        .is_some_and(|(name, _)| !name.is_empty())
}

/// Parses the number at the start of `text`.
pub fn number(text: &str) -> Option<u32> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Parses the name after `Comm: `, which may contain blanks; the taint state follows it.
pub fn command(rest: &str) -> Option<String> {
    let (_, rest) = rest.split_once("Comm: ")?;
    let ends = [" Not tainted", " Tainted: ", " Kdump: "];
    let end = ends.iter().filter_map(|text| rest.find(text)).min();
    Some(rest[..end.unwrap_or(rest.len())].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_instruction_is_read_as_each_architecture_prints_it() {
        let name = "sysrq_handle_crash+0x34/0x50";
        for line in [
            format!("RIP: 0010:{name}"),
            format!("pc : {name}"),
            format!("PC is at {name}"),
            format!("epc : {name}"),
            format!("NIP [c00000000094f8a4] {name}"),
            format!("Krnl PSW : 0704c00180000000 00000000008a54e4 ({name})"),
        ] {
            assert_eq!(instruction(&line), Some(name), "{line}");
        }
        for line in [
            "epc : ffffffff8056d5a2 ra : ffffffff8056dca2 sp : ff20000000293a30",
            "pc : [<ffffffc000d394c4>] lr : [<ffffffc000d394c4>] pstate: 200001c5",
            "lr : __handle_sysrq+0x8c/0x1a0",
            "NIP [00000000100c4180] 0x100c4180",
            "NIP:  c00000000094f8a4 LR: c000000000950a40 CTR: c00000000094f870",
            "Krnl PSW : 0704c00180000000 00000000008a54e4",
            "RIP: 0033:0x7f1",
        ] {
            assert_eq!(instruction(line), None, "{line}");
        }
    }

    #[test]
    fn calls_are_read_without_addresses() {
        for line in [
            " vfs_write+0x2ac/0x470",
            "  vfs_write+0x2ac/0x470 ",
            " [<ffffffff801f4f58>] vfs_write+0x2ac/0x470",
            "[<ffffffff801f4f58>] vfs_write+0x2ac/0x470",
            "[c000000003437a90] [c0000000005d6c18] vfs_write+0x2ac/0x470",
            " [<00000000003fd0c6>] vfs_write+0x2ac/0x470 ",
            "([<00000000003fd0c6>] vfs_write+0x2ac/0x470)",
        ] {
            assert_eq!(call(line), Some("vfs_write+0x2ac/0x470"), "{line}");
        }
        let unreliable = "[c000000003437a90] [c0000000005d6c18] f+0x2c/0x470 (unreliable)";
        assert_eq!(call(unreliable), Some("f+0x2c/0x470 (unreliable)"));
        assert_eq!(call(" f+0x1/0x2 [ext4]"), Some("f+0x1/0x2 [ext4]"));
        assert_eq!(call(" ? f+0x1/0x2"), Some("? f+0x1/0x2"));
        assert_eq!(call("Code: d503201f (b900001f)"), None);
        assert_eq!(call("--- interrupt: c00 at 0x7fff9c0e1b24"), None);
    }

    #[test]
    fn program_exceptions_of_s390x_are_events() {
        let line = "specification exception: 0006 ilc:3 [#1] SMP";
        assert_eq!(kind_of(line), Some(EventKind::Oops));
        assert_eq!(kind_of("see the ilc: of [#1]"), None);
    }
}
