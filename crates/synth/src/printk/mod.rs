//! The kernel's log as printk() leaves it in memory, and what is to be read there.

mod lockless;
mod records;
mod text;

use crate::error::SynthError;

/// How the kernel keeps its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogForm {
    /// The ring buffer of 5.10 on; blocks of text that would end just at the end of the
    /// ring go to its start.
    Lockless,
    /// The same from 67e1b0052f6b on: such blocks stay where they are.
    LocklessToTheEnd,
    /// The `struct printk_log` of 3.11 to 5.9.
    Records,
    /// The same by its name up to 3.10, `struct log`.
    OldRecords,
    /// The characters of kernels before 3.5.
    Text,
}

/// How far the writing of a record has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is whole and closed.
    Finalized,
    /// It is whole; text might have been added to it.
    Committed,
    /// The writer was interrupted.
    Reserved,
    /// It has no block of text since it is an empty line.
    EmptyLine,
    /// It has no block of text since the ring had no room.
    NoRoom,
}

/// One call of printk().
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// Nanoseconds since boot.
    pub ts_nsec: u64,
    /// 0 to 7.
    pub level: u8,
    /// 0 is the kernel.
    pub facility: u8,
    /// A PID, or a CPU with bit 31 set.
    pub caller: u32,
    /// The text.
    pub text: Vec<u8>,
    /// Subsystem and device.
    pub device: Option<(String, String)>,
    /// Other than [`Written::Finalized`] in lockless rings only.
    pub written: Written,
}

impl LogRecord {
    /// A message of the kernel.
    pub fn new(ts_nsec: u64, text: &[u8]) -> Self {
        Self {
            ts_nsec,
            level: 6,
            facility: 0,
            caller: 1,
            text: text.to_vec(),
            device: None,
            written: Written::Finalized,
        }
    }
}

/// A log to be put into memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelLog {
    /// How it is kept.
    pub form: LogForm,
    /// log2 of the bytes for text.
    pub text_bits: u32,
    /// log2 of the number of descriptors.
    pub descriptor_bits: u32,
    /// All that was logged since boot, the overwritten too.
    pub records: Vec<LogRecord>,
    /// How many of them were there at the last `dmesg --clear`.
    pub cleared: usize,
}

/// A log in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogImage {
    /// The lines of VMCOREINFO about it.
    pub info: String,
    /// What is at its address.
    pub bytes: Vec<u8>,
    /// Indices of the records that are still there, oldest first.
    pub kept: Vec<usize>,
}

impl KernelLog {
    /// An empty log with room for 4 KiB of text.
    pub fn new(form: LogForm) -> Self {
        Self {
            form,
            text_bits: 12,
            descriptor_bits: 7,
            records: Vec::new(),
            cleared: 0,
        }
    }

    /// `count` records of all kinds that there are.
    pub fn with_records(mut self, count: usize) -> Self {
        for number in self.records.len()..self.records.len() + count {
            let ts_nsec = number as u64 * 98_765_432_101;
            let mut text = format!("record {number}: {}", "=".repeat(number * 7 % 61)).into_bytes();
            match number % 11 {
                3 => text.extend_from_slice(b"\nwith a second line\n and\ta third"),
                5 => text.extend_from_slice(b"\x1b[31m\x7f \xc3\xa4\x00\xff\r"),
                7 => text.clear(),
                _ => {}
            }
            let mut record = LogRecord::new(ts_nsec, &text);
            record.level = (number % 8) as u8;
            record.facility = if number % 5 == 4 { 3 } else { 0 };
            record.caller = (number as u32 % 700) | ((number as u32 % 2) << 31);
            record.device = (number % 6 == 2)
                .then(|| ("pci".to_owned(), format!("+pci:0000:00:{number:02x}.0")));
            record.written = match number % 17 {
                8 => Written::Committed,
                10 => Written::Reserved,
                12 => Written::EmptyLine,
                14 => Written::NoRoom,
                _ => Written::Finalized,
            };
            if !self.is_lockless() {
                record.written = Written::Finalized;
            }
            self.records.push(record);
        }
        self
    }

    /// The log at an address that is a multiple of 8.
    pub fn image(&self, base: u64) -> LogImage {
        match self.form {
            LogForm::Lockless | LogForm::LocklessToTheEnd => lockless::image(self, base),
            LogForm::Records => records::image(self, base, "printk_log"),
            LogForm::OldRecords => records::image(self, base, "log"),
            LogForm::Text => text::image(self, base),
        }
    }

    /// What `makedumpfile --dump-dmesg` of x86_64 makes of it; with `since_clear`,
    /// what `--partial-dmesg` should.
    pub fn expected_text(&self, since_clear: bool) -> Vec<u8> {
        let image = self.image(0);
        let first = if since_clear { self.cleared } else { 0 };
        if self.form == LogForm::Text {
            return text::expected(self, first);
        }
        let mut out = Vec::new();
        for index in image.kept.into_iter().filter(|index| *index >= first) {
            let record = &self.records[index];
            if !matches!(record.written, Written::Finalized | Written::Committed) {
                continue;
            }
            let seconds = record.ts_nsec / 1_000_000_000;
            let micros = record.ts_nsec / 1000 % 1_000_000;
            let prefix = format!("[{seconds:>5}.{micros:06}] ");
            out.extend_from_slice(prefix.as_bytes());
            for byte in &record.text {
                match byte {
                    b'\n' => out.extend(format!("\n{}", " ".repeat(prefix.len())).bytes()),
                    b'\t' | b'\r' | 11 | 12 | 32..=126 => out.push(*byte),
                    0..128 => out.extend(format!("\\x{byte:02x}").bytes()),
                    _ => out.extend(format!("\\xffffff{byte:02x}").bytes()),
                }
            }
            out.push(b'\n');
        }
        out
    }

    pub(crate) fn is_lockless(&self) -> bool {
        matches!(self.form, LogForm::Lockless | LogForm::LocklessToTheEnd)
    }

    /// Reads `log FORM [n=COUNT] [text_bits=N] [descriptor_bits=N] [cleared=COUNT]`.
    pub(crate) fn from_words(line: usize, words: &[&str]) -> Result<Self, SynthError> {
        let fail = |message: &str| SynthError::line(line, message.to_owned());
        let forms = "log wants lockless, lockless-to-the-end, records, old-records or text";
        let (form, settings) = words.split_first().ok_or_else(|| fail(forms))?;
        let mut log = Self::new(match *form {
            "lockless" => LogForm::Lockless,
            "lockless-to-the-end" => LogForm::LocklessToTheEnd,
            "records" => LogForm::Records,
            "old-records" => LogForm::OldRecords,
            "text" => LogForm::Text,
            _ => return Err(fail(forms)),
        });
        let mut count = 40;
        for setting in settings {
            let parsed = setting
                .split_once('=')
                .and_then(|(key, value)| Some((key, value.parse::<usize>().ok()?)));
            match parsed {
                Some(("n", value)) if value <= 1 << 16 => count = value,
                Some(("cleared", value)) => log.cleared = value,
                Some(("text_bits", value @ 9..=20)) => log.text_bits = value as u32,
                Some(("descriptor_bits", value @ 1..=15)) => log.descriptor_bits = value as u32,
                _ => return Err(fail(&format!("`{setting}` is not a setting of a log"))),
            }
        }
        Ok(log.with_records(count))
    }
}

/// Bytes with fields set one by one, all little endian.
struct Bytes(Vec<u8>);

impl Bytes {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = at as usize;
        if self.0.len() < at + bytes.len() {
            self.0.resize(at + bytes.len(), 0);
        }
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn u64(&mut self, at: u64, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    fn u32(&mut self, at: u64, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    fn u16(&mut self, at: u64, value: u16) {
        self.put(at, &value.to_le_bytes());
    }
}
