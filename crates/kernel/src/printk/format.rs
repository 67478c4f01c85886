//! Formats records as text.

use std::io::{self, Write};

use super::record::{Record, RecordText};

/// The text format of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Escaping of bytes that are neither printable nor white space.
    pub escape: Escape,
    /// Indent continuation lines of a record to its text.
    pub indent: bool,
    /// Print a line for a record without text.
    pub lines_without_text: bool,
    /// Print facility and level before each record, as `dmesg --decode` does.
    pub level_names: bool,
    /// Print the task or CPU that wrote the record after the time.
    pub caller: bool,
    /// Print white space such as carriage return, and a plain-text log, as they are, as other
    /// programs do; otherwise nothing but line feeds and tabs reaches a terminal unescaped.
    pub exact: bool,
}

/// Escaping of bytes that are neither printable nor white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// `\xc3`.
    Byte,
    /// `\xffffffc3`: makedumpfile prints bytes as signed numbers on x86_64.
    SignExtended,
}

impl TextStyle {
    /// `[    0.000000] text`, as `makedumpfile --dump-dmesg` on x86_64.
    pub const MAKEDUMPFILE: Self = Self {
        escape: Escape::SignExtended,
        exact: true,
        ..Self::PLAIN
    };

    /// The format of vmcore-dmesg of kexec-tools.
    pub const VMCORE_DMESG: Self = Self {
        indent: false,
        lines_without_text: true,
        exact: true,
        ..Self::PLAIN
    };

    /// makedumpfile's format, with every byte escaped as itself, and all control characters
    /// escaped.
    pub const PLAIN: Self = Self {
        escape: Escape::Byte,
        indent: true,
        lines_without_text: false,
        level_names: false,
        caller: false,
        exact: false,
    };

    /// Writes one record, followed by a line feed.
    pub fn write(self, out: &mut dyn Write, record: &Record<'_>) -> io::Result<()> {
        if !self.lines_without_text && !matches!(record.text, RecordText::Bytes(_)) {
            return Ok(());
        }
        let mut line = Vec::with_capacity(128);
        if self.level_names
            && let (Some(facility), Some(level)) = (record.facility, record.level)
        {
            write!(
                line,
                "{:<6}:{:<6}: ",
                facility_name(facility).unwrap_or("?"),
                level_name(level).unwrap_or("?")
            )?;
        }
        if let Some(ts_nsec) = record.ts_nsec {
            let (seconds, nanos) = (ts_nsec / 1_000_000_000, ts_nsec % 1_000_000_000);
            write!(line, "[{seconds:5}.{:06}] ", nanos / 1000)?;
        }
        if self.caller
            && let Some(caller) = record.caller
        {
            write!(line, "[{caller:>6}] ")?;
        }
        let indent = if self.indent { line.len() } else { 0 };
        for byte in record.text.bytes() {
            match byte {
                b'\n' => {
                    line.push(b'\n');
                    line.resize(line.len() + indent, b' ');
                }
                byte => self.put(&mut line, *byte)?,
            }
        }
        line.push(b'\n');
        out.write_all(&line)
    }

    /// Writes a piece of a plain-text log.
    pub(super) fn write_plain(self, out: &mut dyn Write, text: &[u8]) -> io::Result<()> {
        if self.exact {
            return out.write_all(text);
        }
        let mut escaped = Vec::with_capacity(text.len());
        for byte in text {
            match byte {
                b'\n' => escaped.push(b'\n'),
                byte => self.put(&mut escaped, *byte)?,
            }
        }
        out.write_all(&escaped)
    }

    /// Adds a byte of text to a line.
    fn put(self, line: &mut Vec<u8>, byte: u8) -> io::Result<()> {
        match byte {
            // isprint() of the C locale.
            b' '..=b'~' | b'\t' => line.push(byte),
            // The rest of isspace(); 0x0b is VT.
            b'\r' | 0x0b | 0x0c if self.exact => line.push(byte),
            _ => self.escape.write(line, byte)?,
        }
        Ok(())
    }
}

impl Escape {
    fn write(self, line: &mut Vec<u8>, byte: u8) -> io::Result<()> {
        match self {
            Self::SignExtended if byte >= 0x80 => write!(line, "\\xffffff{byte:02x}"),
            _ => write!(line, "\\x{byte:02x}"),
        }
    }
}

/// Name of a level, as in dmesg(1).
pub fn level_name(level: u8) -> Option<&'static str> {
    const NAMES: [&str; 8] = [
        "emerg", "alert", "crit", "err", "warn", "notice", "info", "debug",
    ];
    NAMES.get(usize::from(level)).copied()
}

/// Name of a facility, as in dmesg(1).
pub fn facility_name(facility: u8) -> Option<&'static str> {
    const NAMES: [&str; 12] = [
        "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron",
        "authpriv", "ftp",
    ];
    NAMES.get(usize::from(facility)).copied()
}
