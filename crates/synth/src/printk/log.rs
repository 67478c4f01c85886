//! The log to be written: its form and its records.

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
