//! The lines of a report that name functions.

use super::pattern;

/// A function that a line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'t> {
    /// Its name, without what the compiler appended after a dot.
    pub name: &'t str,
    /// Its module.
    pub module: Option<&'t str>,
}

/// Returns true for a line before a call trace.
pub fn begins_trace(line: &str) -> bool {
    ["Call Trace:", "Call trace:", "Backtrace:"]
        .iter()
        .any(|text| line.contains(text))
}

/// Headings of stacks: of a call trace, and of those by which KASAN, KMSAN and kmemleak say where
/// memory was allocated and freed.
pub const HEADINGS: [&str; 9] = [
    "Call (Trace|trace)",
    "Backtrace:",
    "Allocated:",
    "Allocated by task #:",
    "Freed:",
    "Freed by task #:",
    "Uninit was stored to memory at",
    // Not `stack backtrace:`, which is only the heading of a call trace.
    "* backtrace(:| (crc)",
    END_OF_REGISTERS,
];

/// The last line of the registers of riscv64 (__show_regs, arch/riscv/kernel/process.c), after
/// which the stack may come without a heading.
const END_OF_REGISTERS: &str = "status: {status} badaddr: {address} cause: {cause}";

/// Returns the heading of which kind of stack the line is.
pub fn heading(line: &str) -> Option<&'static str> {
    let mut known = HEADINGS.iter();
    let found = known.find(|heading| pattern::occurs(heading, line))?;
    (!line.contains("stack backtrace:")).then_some(found)
}

/// Returns true for the first line of any stack.
pub fn begins_stack(line: &str) -> bool {
    heading(line).is_some()
}

/// Returns true for a heading that may be without a stack.
pub fn may_be_empty(heading: &str) -> bool {
    heading == END_OF_REGISTERS
}

/// Returns true for a function that is on the stack, but perhaps left over from an earlier call:
/// `? f+0x1/0x2`, and ppc64's `f+0x1/0x2 (unreliable)`. The mark of the end of an interrupt is
/// as good as a frame.
pub fn is_doubtful(line: &str) -> bool {
    if line.contains("<EOI>") {
        return false;
    }
    line.ends_with(" (unreliable)")
        || line.split_once(" ? ").is_some_and(|(before, after)| {
            let before = before.trim();
            (before.is_empty() || before.starts_with('[') && before.ends_with(']'))
                && function(after.trim_start()).is_some()
        })
}

/// Returns the functions that a line of a call trace names: one, or on 32-bit arm, which prints
/// `[<c0101234>] (f) from [<c0105678>] (g+0x12/0x34)`, the function and its caller.
pub fn calls(line: &str) -> impl Iterator<Item = Frame<'_>> {
    let mut rest = line.trim_start_matches(' ');
    // s390x puts a call that it did not find by a return address into parentheses.
    rest = rest.strip_prefix("([").map_or(rest, |_| &rest[1..]);
    for _ in 0..2 {
        rest = pattern::address(rest).map_or(rest, |length| &rest[length..]);
    }
    let both = of_arm(rest).unwrap_or([None, None]);
    let found = function(rest);
    both.into_iter().chain([found]).flatten()
}

fn of_arm(rest: &str) -> Option<[Option<Frame<'_>>; 2]> {
    let (callee, caller) = rest.strip_prefix('(')?.split_once(") from ")?;
    let name = callee.split(['.', '+']).next().unwrap_or_default();
    let caller = &caller[pattern::address(caller)?..];
    let found = function(caller.strip_prefix('(')?)?;
    let callee = (!name.is_empty()).then_some(Frame { name, module: None });
    Some([callee, Some(found)])
}

/// Returns the function at the start of `text`: `f.isra.0+0x12/0x34 [module]`.
pub fn function(text: &str) -> Option<Frame<'_>> {
    let name = &text[..pattern::function(text)?];
    let offset = text.find("+0x")?;
    let suffix = &text[name.len()..offset];
    if !(suffix.is_empty() || suffix.starts_with('.') && !suffix.contains(' ')) {
        return None;
    }
    let rest = text[offset..].split(['\n', ')']).next().unwrap_or_default();
    let module = rest.split_once(" [").and_then(|(_, module)| {
        let name = module.split([']', ' ']).next()?;
        (name != "inline").then_some(name)
    });
    Some(Frame { name, module })
}

/// Returns the function that a line with the instruction pointer names; `Some(None)` if the
/// pointer is in no function.
///
/// | architecture | line |
/// |---|---|
/// | x86 | `RIP: 0010:f+0x1/0x2`, `EIP: f+0x1`, `IP: [<ffffffff81234567>] f+0x1/0x2` |
/// | arm64, riscv64 | `pc : f+0x1/0x2`, `epc : f+0x1/0x2` |
/// | arm, arm64 until 4.14 | `PC is at f+0x1/0x2` |
/// | ppc64 | `NIP [c000000000012345] f+0x1/0x2` |
/// | s390x | `Krnl PSW : 0704c00180000000 0000000000123456 (f+0x1/0x2)` |
pub fn instruction(line: &str) -> Option<Option<Frame<'_>>> {
    if let Some((_, rest)) = line.split_once("Krnl PSW : ") {
        let inner = rest.split_once('(').map(|(_, inner)| inner);
        return Some(inner.and_then(function));
    }
    ["IP", "pc ", "PC is at"].iter().find_map(|name| {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once(name) {
            let pointer = after.strip_prefix(':').unwrap_or(after);
            if let Some(found) = pointer.strip_prefix(' ').and_then(pointed) {
                return Some(found);
            }
            rest = after;
        }
        None
    })
}

/// Returns what an instruction pointer's value says.
fn pointed(value: &str) -> Option<Option<Frame<'_>>> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let has_segment = digits > 0 && value[digits..].starts_with(':');
    let value = if has_segment {
        &value[digits + 1..]
    } else {
        value
    };
    let mut rest = value;
    for _ in 0..2 {
        rest = pattern::address(rest).map_or(rest, |length| &rest[length..]);
    }
    if let Some(found) = function(rest) {
        return Some(Some(found));
    }
    let is_address = value
        .strip_prefix("0x")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    let is_null = || {
        let near = value.char_indices().nth(64);
        let near = near.map_or(value, |(end, _)| &value[..end]);
        near.contains("(null)")
    };
    (is_address || is_null()).then_some(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> Vec<&str> {
        calls(line).map(|frame| frame.name).collect()
    }

    #[test]
    fn calls_are_read_as_each_architecture_prints_them() {
        for line in [
            " f+0x1/0x2",
            "f+0x1/0x2",
            "  f.isra.0.cold+0x1/0x2 [ext4]",
            " [<ffffffff801f4f58>] f+0x1/0x2",
            "[c000000003437a90] [c0000000005d6c18] f+0x1/0x2",
            "([<00000000003fd0c6>] f+0x1/0x2)",
            " f+0x1/0x2 fs/read_write.c:12",
        ] {
            assert_eq!(names(line), ["f"], "{line}");
        }
        let arm = "[<c0101234>] (f) from [<c0105678>] (g.part.1+0x12/0x34)";
        assert_eq!(names(arm), ["f", "g"]);
        for line in [
            " ? f+0x1/0x2",
            "RSP: 0018:ffff",
            " <TASK>",
            " f fs/x.c:1 [inline]",
        ] {
            assert!(names(line).is_empty(), "{line}");
        }
        let module = calls(" f+0x1/0x2 [ext4 abcdef]").next();
        assert_eq!(module.and_then(|frame| frame.module), Some("ext4"));
    }

    #[test]
    fn instruction_pointer_is_read_as_each_architecture_prints_it() {
        for line in [
            "RIP: 0010:f+0x1/0x2",
            "RIP: 0010:[<ffffffff81234567>]  [<ffffffff81234567>] f+0x1/0x2",
            "IP: [<ffffffff81234567>] f+0x1/0x2",
            "EIP: f+0x1/0x2 EFLAGS: 00010246",
            "pc : f+0x1/0x2",
            "epc : f+0x1/0x2",
            "PC is at f+0x1/0x2",
            "NIP [c00000000094f8a4] f+0x1/0x2",
            "Krnl PSW : 0704c00180000000 00000000008a54e4 (f+0x1/0x2)",
        ] {
            let name = instruction(line).map(|found| found.map(|frame| frame.name));
            assert_eq!(name, Some(Some("f")), "{line}");
        }
        for line in ["RIP: 0010:0x0", "RIP: 0033:0x7f1234"] {
            assert_eq!(instruction(line), Some(None), "{line}");
        }
        assert_eq!(instruction("TCP: out of memory"), None);
    }

    #[test]
    fn doubtful_calls_are_told_from_sure_ones() {
        for line in [
            " ? f+0x1/0x2",
            " [<ffffffff81>] ? f+0x1/0x2",
            "[c0] [c1] f+0x1/0x2 (unreliable)",
        ] {
            assert!(is_doubtful(line), "{line}");
        }
        for line in [" f+0x1/0x2", " <EOI>  ? f+0x1/0x2", "is it? no"] {
            assert!(!is_doubtful(line), "{line}");
        }
    }

    #[test]
    fn headings_begin_stacks() {
        for line in [
            "Call Trace:",
            "Allocated by task 12:",
            "  backtrace (crc 12ab):",
            " backtrace:",
        ] {
            assert!(begins_stack(line), "{line}");
        }
        assert!(!begins_stack("stack backtrace:"));
    }
}
