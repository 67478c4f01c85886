//! What stands before the kernel's text in a line of a log: the work of the console, of
//! netconsole, of syslog and of the programs that print the log again.

/// Who wrote a line, as far as the line says. Lines of one report have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// How the line came here. Two ways into one file, such as the console and a syslog that
    /// writes to it, do not mix.
    pub way: Way,
    /// The task or CPU (CONFIG_PRINTK_CALLER).
    pub caller: Option<Caller>,
}

/// How a line came into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without anything before it.
    Bare,
    /// With a time stamp or a level of the kernel.
    Stamped,
    /// By a syslog.
    Syslog,
}

/// A printk caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A task, by its PID.
    Task(u32),
    /// A CPU that was in an interrupt.
    Cpu(u32),
}

impl Writer {
    /// A line without anything before it.
    pub const UNKNOWN: Self = Self {
        way: Way::Bare,
        caller: None,
    };

    /// Returns true if the line says which task or CPU wrote it.
    pub fn is_known(self) -> bool {
        self.caller.is_some()
    }

    /// Returns true for a CPU in an interrupt.
    pub fn is_cpu(self) -> bool {
        matches!(self.caller, Some(Caller::Cpu(_)))
    }
}

/// A line without what stands before its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'t> {
    /// Its writer.
    pub writer: Writer,
    /// Seconds since boot.
    pub time: Option<u64>,
    /// The kernel's text.
    pub text: &'t str,
}

/// Parses a line; `None` if another program than the kernel wrote it to the syslog.
pub fn parse(line: &str) -> Option<Line<'_>> {
    let mut found = Line {
        writer: Writer::UNKNOWN,
        time: None,
        text: line,
    };
    if let Some(of_kernel) = after_syslog(line) {
        found.text = of_kernel?;
        found.writer.way = Way::Syslog;
    }
    let rest = after_dropped(found.text);
    let rest = after_login(rest).unwrap_or(rest);
    let (is_leveled, rest) = match after_level(rest) {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    if let Some(stamped) = after_extended(rest).or_else(|| after_stamp(rest)) {
        let way = found.writer.way;
        found = stamped;
        if way == Way::Syslog {
            found.writer.way = way;
        }
    } else if is_leveled {
        found.text = rest;
        if found.writer.way == Way::Bare {
            found.writer.way = Way::Stamped;
        }
    }
    Some(found)
}

/// The host that a syslog or journald names, the seconds since boot, and the kernel's text of a
/// line; `None` if another program wrote it.
pub fn writer_of(line: &str) -> Option<(Option<&str>, Option<u64>, &str)> {
    let found = parse(line)?;
    let before = &line[..line.len() - found.text.len()];
    let host = [" kernel: ", " kernel[0]: "].iter().find_map(|tag| {
        let (head, _) = before.split_once(tag)?;
        head.rsplit(' ').next()
    });
    Some((host.filter(|host| !host.is_empty()), found.time, found.text))
}

/// `Nov 24 16:33:32 host kernel: text` and `2026-11-24T16:33:32+00:00 host kernel: text`:
/// returns the kernel's text, or `Some(None)` for that of another program.
fn after_syslog(line: &str) -> Option<Option<&str>> {
    const LONGEST: usize = 160;
    let bytes = line.as_bytes();
    let has_date = is_traditional(bytes) || is_iso(bytes);
    if !has_date {
        return None;
    }
    let end = line.char_indices().map(|(at, _)| at).nth(LONGEST);
    let head = &line[..end.unwrap_or(line.len())];
    let tag = [" kernel: ", " kernel[0]: "]
        .iter()
        .find_map(|tag| head.find(tag).map(|at| at + tag.len()));
    match tag {
        Some(at) => Some(Some(&line[at..])),
        // An empty line of the kernel.
        None if head.trim_end().ends_with(" kernel:") => Some(Some("")),
        None => Some(None),
    }
}

/// `Nov  4 16:33:32 `.
fn is_traditional(bytes: &[u8]) -> bool {
    const MONTHS: [&[u8]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    bytes.len() > 15
        && MONTHS.contains(&&bytes[..3])
        && (bytes[3], bytes[6], bytes[15]) == (b' ', b' ', b' ')
        && (bytes[9], bytes[12]) == (b':', b':')
        && bytes[7..9].iter().all(u8::is_ascii_digit)
}

/// `2026-11-24T16:33:32`.
fn is_iso(bytes: &[u8]) -> bool {
    bytes.len() > 19
        && (bytes[4], bytes[7], bytes[10]) == (b'-', b'-', b'T')
        && (bytes[13], bytes[16]) == (b':', b':')
        && bytes[..4].iter().all(u8::is_ascii_digit)
}

/// `** 12 printk messages dropped ** ` (console_emit_next_record, kernel/printk/printk.c).
fn after_dropped(text: &str) -> &str {
    let dropped = text.strip_prefix("** ").and_then(|inner| {
        let (count, rest) = inner.split_once(" printk messages dropped ** ")?;
        count
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(rest)
    });
    dropped.unwrap_or(text)
}

/// A terminal on the serial line asks for a name: `debian login: [   12.345678] text`.
fn after_login(text: &str) -> Option<&str> {
    let (_, rest) = text.rsplit_once(" login: ")?;
    after_stamp(rest).map(|_| rest)
}

/// `<6>` (console without `quiet`, dmesg -r, pstore), and `kern  :warn  : ` (dmesg -x).
fn after_level(text: &str) -> Option<&str> {
    if let Some((level, rest)) = text
        .strip_prefix('<')
        .and_then(|inner| inner.split_once('>'))
    {
        let is_number = (1..=3).contains(&level.len()) && level.bytes().all(|c| c.is_ascii_digit());
        return is_number.then_some(rest);
    }
    let rest = text.strip_prefix("kern")?.trim_start_matches(' ');
    let (level, rest) = rest.strip_prefix(':')?.split_once(": ")?;
    let is_word = level.trim().bytes().all(|byte| byte.is_ascii_lowercase());
    is_word.then_some(rest)
}

/// `6,1234,56789012,-,caller=T87;text` (/dev/kmsg and extended netconsole: info_print_ext_header,
/// kernel/printk/printk.c).
fn after_extended(text: &str) -> Option<Line<'_>> {
    let (head, text) = text.split_once(';')?;
    let mut fields = head.split(',');
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (_, _, microseconds) = (number()?, number()?, number()?);
    let caller = fields.find_map(|field| caller_of(field.strip_prefix("caller=")?));
    Some(Line {
        writer: Writer {
            way: Way::Stamped,
            caller,
        },
        time: Some(microseconds / 1_000_000),
        text,
    })
}

/// `[   12.345678] text`, `[   12.345678][   T87] text`, the same with one pair of brackets, and
/// `[Tue Nov 24 16:33:32 2026] text` (dmesg -T).
fn after_stamp(text: &str) -> Option<Line<'_>> {
    let (inner, mut rest) = text.strip_prefix('[')?.split_once(']')?;
    let mut words = inner.split([' ', ',', '@']).filter(|word| !word.is_empty());
    let mut caller = None;
    let time = match seconds(words.next()?) {
        Some(time) => {
            if let Some(word) = words.next() {
                caller = Some(caller_of(word)?);
            }
            Some(time)
        }
        None => {
            is_date(inner).then_some(())?;
            None
        }
    };
    if let Some((inside, after)) = rest
        .trim_start_matches(' ')
        .strip_prefix('[')
        .and_then(|inner| inner.split_once(']'))
        && let Some(known) = caller_of(inside.trim())
    {
        (caller, rest) = (Some(known), after);
    }
    // The blank is missing after a stamp without a text.
    let text = match rest.strip_prefix(' ') {
        Some(text) => text,
        None if rest.is_empty() => rest,
        None => return None,
    };
    Some(Line {
        writer: Writer {
            way: Way::Stamped,
            caller,
        },
        time,
        text: after_host(text),
    })
}

/// `host kernel: text`, after the time stamp of journalctl -o short-monotonic.
fn after_host(text: &str) -> &str {
    match text.split_once(" kernel: ") {
        Some((host, rest)) if !host.is_empty() && !host.contains([' ', ':']) => rest,
        _ => text,
    }
}

fn seconds(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.split_once('.')?;
    let is_number = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| seconds.parse().ok())?
}

fn is_date(text: &str) -> bool {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    words.next().is_some_and(|day| DAYS.contains(&day)) && words.count() == 4
}

/// `T87` and `C1`.
fn caller_of(word: &str) -> Option<Caller> {
    match (word.as_bytes().first()?, word.get(1..)?.parse().ok()?) {
        (b'T', number) => Some(Caller::Task(number)),
        (b'C', number) => Some(Caller::Cpu(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> (Way, Option<Caller>, Option<u64>, &str) {
        let found = parse(text).unwrap();
        (
            found.writer.way,
            found.writer.caller,
            found.time,
            found.text,
        )
    }

    #[test]
    fn prefixes_of_all_kinds_of_logs_are_taken_off() {
        let task = Some(Caller::Task(87));
        for (text, caller, time) in [
            ("[   12.345678] BUG: x", None, Some(12)),
            ("[   12.345678][   T87] BUG: x", task, Some(12)),
            ("[   12.345678] [   T87] BUG: x", task, Some(12)),
            ("[   12.345678 T87] BUG: x", task, Some(12)),
            (
                "[   12.345678][    C1] BUG: x",
                Some(Caller::Cpu(1)),
                Some(12),
            ),
            ("<4>[   12.345678] BUG: x", None, Some(12)),
            ("<4>BUG: x", None, None),
            ("kern  :warn  : [   12.345678] BUG: x", None, Some(12)),
            ("[Tue Nov 24 16:33:32 2026] BUG: x", None, None),
            ("4,1234,12345678,-;BUG: x", None, Some(12)),
            ("4,1234,12345678,-,caller=T87;BUG: x", task, Some(12)),
            ("debian login: [   12.345678] BUG: x", None, Some(12)),
            (
                "** 5 printk messages dropped ** [   12.345678] BUG: x",
                None,
                Some(12),
            ),
            ("[   12.345678] host kernel: BUG: x", None, Some(12)),
        ] {
            assert_eq!(line(text), (Way::Stamped, caller, time, "BUG: x"), "{text}");
        }
        for (text, time) in [
            ("Nov 24 16:33:32 host kernel: BUG: x", None),
            (
                "Nov  4 16:33:32 host kernel: [   12.345678] BUG: x",
                Some(12),
            ),
            ("2026-11-24T16:33:32.1+00:00 host kernel: BUG: x", None),
        ] {
            assert_eq!(line(text), (Way::Syslog, None, time, "BUG: x"), "{text}");
        }
    }

    #[test]
    fn text_without_a_prefix_stays_whole() {
        for text in [
            "BUG: x",
            " [<ffffffff81234567>] f+0x1/0x2",
            "[<ffffffff81234567>] f+0x1/0x2",
            "[ffff888000000000] f",
            "[12.5]no blank",
            "",
            "[",
            "<",
        ] {
            assert_eq!(line(text), (Way::Bare, None, None, text));
        }
    }

    #[test]
    fn lines_of_other_programs_in_a_syslog_are_not_the_kernels() {
        assert_eq!(parse("Nov 24 16:33:32 host sshd[12]: BUG: x"), None);
    }
}
