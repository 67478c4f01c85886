//! The kernel log, line by line.

use std::collections::VecDeque;

use bigiron_kernel::Kernel;
use bigiron_kernel::printk::{Log, LogError};
use serde::Serialize;

/// Maximum size of the log text on a page; a longer log is cut at the front.
const MAX_BYTES: usize = 16 << 20;
/// Estimated bytes per line in addition to its text.
const LINE: usize = 24;
/// Level of a line without one; levels are 0 to 7.
const NO_LEVEL: u8 = 8;

/// The log.
#[derive(Debug, Default, Serialize)]
pub(crate) struct LogLines {
    /// For each line: nanoseconds since boot, level (8: none), text.
    lines: VecDeque<(Option<u64>, u8, String)>,
    /// Number of lines omitted at the beginning.
    left_out: u64,
    warnings: Vec<String>,
    #[serde(skip)]
    bytes: usize,
}

impl LogLines {
    pub(crate) fn of(kernel: &Kernel) -> Result<Self, LogError> {
        let log = Log::open(kernel)?;
        let mut found = Self::default();
        let summary = log.for_each(false, &mut |record| {
            let text = String::from_utf8_lossy(record.text.bytes());
            for line in text.split('\n') {
                found.push(record.ts_nsec, record.level.unwrap_or(NO_LEVEL), line);
            }
            Ok(())
        })?;
        found.warnings = summary.warnings();
        Ok(found)
    }

    fn push(&mut self, time: Option<u64>, level: u8, line: &str) {
        self.bytes += line.len() + LINE;
        self.lines.push_back((time, level, line.to_owned()));
        while self.bytes > MAX_BYTES {
            let Some((_, _, line)) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= line.len() + LINE;
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_log_keeps_its_end() {
        let mut log = LogLines::default();
        let line = "x".repeat(1000);
        for time in 0..40_000 {
            log.push(Some(time), 6, &line);
        }
        let kept = log.lines.len() as u64;
        assert!(log.bytes <= MAX_BYTES && kept > 16_000, "{kept} lines");
        assert_eq!(kept + log.left_out, 40_000);
        assert_eq!(log.lines.back().map(|line| line.0), Some(Some(39_999)));
    }
}
