//! The plain text of kernels before 3.5: log_buf is a ring of characters, log_end counts all
//! characters ever written. Lines have the form `<6>[    0.000000] text`. Source:
//! kernel/printk.c of 3.4.

use std::io;

use bigiron_format::VirtAddr;

use super::fields;
use super::record::{LogError, LogSummary, Record, RecordText, Visit};
use crate::error::KernelError;
use crate::kernel_memory::KernelMemory;

/// Bytes read at once; a divisor or multiple of every page size.
const READ_SIZE: u32 = 4096;
/// Maximum length of a line passed on at once.
const MAX_LINE: usize = 64 << 10;

pub(super) struct Buffer {
    log_buf: VirtAddr,
    log_buf_len: u32,
    log_end: u32,
    logged_chars: Option<u32>,
}

impl Buffer {
    pub(super) fn find(memory: &dyn KernelMemory) -> Result<Self, KernelError> {
        let (log_buf, log_buf_len) = fields::log_buf(memory)?;
        // The kernel indexes it by `log_end & (log_buf_len - 1)`.
        if !log_buf_len.is_power_of_two() {
            return Err(KernelError::Implausible {
                what: "log_buf_len".into(),
                found: log_buf_len.to_string(),
                expected: "a power of two",
            });
        }
        let log_end = fields::symbol(memory, "log_end")?;
        let logged_chars = memory.info().symbol("logged_chars");
        Ok(Self {
            log_buf,
            log_buf_len,
            // An unsigned long up to 2.6.24, of which this is the low half.
            log_end: fields::read_u32(memory, "log_end", log_end)?,
            logged_chars: logged_chars
                .map(|at| fields::read_u32(memory, "logged_chars", at))
                .transpose()?,
        })
    }

    /// Address and number of bytes.
    pub(super) fn area(&self) -> (VirtAddr, u64) {
        (self.log_buf, u64::from(self.log_buf_len))
    }

    /// Passes all text on unchanged.
    pub(super) fn copy(
        &self,
        memory: &dyn KernelMemory,
        since_clear: bool,
        write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<LogSummary, LogError> {
        let mut summary = LogSummary::default();
        let mut left = self.log_end.min(self.log_buf_len);
        if since_clear && let Some(logged) = self.logged_chars {
            left = left.min(logged);
        }
        // The newest part, if the memory has no room for all: page tables may show one page all
        // over the buffer.
        let room = u32::try_from(memory.size_up_to(u64::from(left))).unwrap_or(left);
        if room < left {
            summary.cut(format!(
                "it claims {left} bytes of text, more than the memory's {room}"
            ));
            left = room;
        }
        let mut buf = [0; READ_SIZE as usize];
        while left > 0 {
            let at = self.log_end.wrapping_sub(left) & (self.log_buf_len - 1);
            let address = fields::element(self.log_buf, u64::from(at), 1);
            // Up to the end of a page, so that a lost page costs only itself.
            let in_page = READ_SIZE - (address.0 % u64::from(READ_SIZE)) as u32;
            let len = left.min(self.log_buf_len - at).min(in_page);
            let piece = &mut buf[..len as usize];
            match memory.read("log_buf", address, piece) {
                Ok(()) => write(piece)?,
                Err(error) if !summary.lose(&error) => break,
                Err(_) => {}
            }
            left -= len;
        }
        Ok(summary)
    }

    /// Passes all lines on as records.
    pub(super) fn for_each(
        &self,
        memory: &dyn KernelMemory,
        since_clear: bool,
        visit: &mut Visit<'_>,
    ) -> Result<LogSummary, LogError> {
        let mut line = Vec::new();
        let mut records = 0;
        let mut end_line = |line: &mut Vec<u8>| {
            records += 1;
            let result = visit(&record(line));
            line.clear();
            result
        };
        let mut summary = self.copy(memory, since_clear, &mut |piece| {
            for part in piece.split_inclusive(|byte| *byte == b'\n') {
                let (text, ended) = match part.split_last() {
                    Some((b'\n', text)) => (text, true),
                    _ => (part, false),
                };
                line.extend_from_slice(text);
                if ended || line.len() >= MAX_LINE {
                    end_line(&mut line)?;
                }
            }
            Ok(())
        })?;
        if !line.is_empty() {
            end_line(&mut line)?;
        }
        summary.records = records;
        Ok(summary)
    }
}

/// Parses a line; parts without the expected form belong to the text.
fn record(line: &[u8]) -> Record<'_> {
    let (priority, rest) = match bracketed(line, b'<', b'>') {
        Some((inner, rest)) => match number(inner) {
            Some(priority) if priority < 1 << 10 => (Some(priority as u16), rest),
            _ => (None, line),
        },
        None => (None, line),
    };
    let (ts_nsec, text) = match bracketed(rest, b'[', b']') {
        Some((inner, text)) => match timestamp(inner) {
            Some(ts_nsec) => (Some(ts_nsec), text.strip_prefix(b" ").unwrap_or(text)),
            None => (None, rest),
        },
        None => (None, rest),
    };
    Record {
        seq: None,
        ts_nsec,
        level: priority.map(|priority| (priority & 7) as u8),
        facility: priority.map(|priority| (priority >> 3) as u8),
        caller: None,
        device: None,
        text: RecordText::Bytes(text),
    }
}

/// Splits the text between `open` at the start and the next `close` from the rest.
fn bracketed(text: &[u8], open: u8, close: u8) -> Option<(&[u8], &[u8])> {
    let inside = text.strip_prefix(&[open])?;
    let end = inside.iter().position(|byte| *byte == close)?;
    Some((&inside[..end], &inside[end + 1..]))
}

/// Parses `    0.000000` to nanoseconds.
fn timestamp(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|byte| *byte == b'.')?;
    let (seconds, micros) = (&text[..point], &text[point + 1..]);
    if micros.len() != 6 {
        return None;
    }
    number(seconds.trim_ascii_start())?
        .checked_mul(1_000_000_000)?
        .checked_add(number(micros)? * 1000)
}

fn number(digits: &[u8]) -> Option<u64> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
