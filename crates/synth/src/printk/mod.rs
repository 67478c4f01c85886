//! The kernel's log as printk() stores it in memory, and the text expected from it.

mod bytes;
mod lockless;
mod log;
mod records;
mod text;

pub use log::{KernelLog, LogForm, LogImage, LogRecord, Written};

use crate::order::ByteOrder;

impl KernelLog {
    /// Returns the log of a little-endian machine at the address `base`, a multiple of 8.
    pub fn image(&self, base: u64) -> LogImage {
        self.image_in(base, ByteOrder::Little)
    }

    /// Returns the log of a machine with this byte order at the address `base`, a multiple of 8.
    pub fn image_in(&self, base: u64, order: ByteOrder) -> LogImage {
        match self.form {
            LogForm::Lockless | LogForm::LocklessToTheEnd => lockless::image(self, base, order),
            LogForm::Records => records::image(self, base, order, "printk_log"),
            LogForm::OldRecords => records::image(self, base, order, "log"),
            LogForm::Text => text::image(self, base, order),
        }
    }

    /// Returns the output of `makedumpfile --dump-dmesg` of x86_64 for this log or, with
    /// `since_clear`, the correct output of `--partial-dmesg`.
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
}
