//! The log of kernel/printk.c before 3.5, for machines of 64 bits: emit_log_char().

use std::fmt::Write;

use super::bytes::Bytes;
use super::log::{KernelLog, LogImage};
use crate::order::ByteOrder;

/// Offsets of the variables.
const LOG_BUF: u64 = 0;
const LOG_BUF_LEN: u64 = 8;
const LOG_END: u64 = 12;
const LOGGED_CHARS: u64 = 16;
const BUFFER: u64 = 64;

/// Returns all characters since boot, and their number at the last clear.
fn characters(log: &KernelLog, cleared: usize) -> (Vec<u8>, usize) {
    let (mut all, mut before) = (Vec::new(), 0);
    for (index, record) in log.records.iter().enumerate() {
        for line in record.text.split(|byte| *byte == b'\n') {
            let priority = record.facility << 3 | record.level;
            let seconds = record.ts_nsec / 1_000_000_000;
            let micros = record.ts_nsec / 1000 % 1_000_000;
            all.extend_from_slice(format!("<{priority}>[{seconds:5}.{micros:06}] ").as_bytes());
            all.extend_from_slice(line);
            all.push(b'\n');
        }
        if index + 1 == cleared {
            before = all.len();
        }
    }
    (all, before)
}

pub(super) fn expected(log: &KernelLog, cleared: usize) -> Vec<u8> {
    let (all, before) = characters(log, cleared);
    let there = all.len().saturating_sub(1 << log.text_bits);
    all[there.max(before)..].to_vec()
}

pub(super) fn image(log: &KernelLog, base: u64, order: ByteOrder) -> LogImage {
    let (all, before) = characters(log, log.cleared);
    let size = 1_usize << log.text_bits;
    let mut buffer = vec![0; size];
    for (at, character) in all.iter().enumerate() {
        buffer[at % size] = *character;
    }
    let mut bytes = Bytes::new(0, order);
    bytes.u64(LOG_BUF, base + BUFFER);
    bytes.u32(LOG_BUF_LEN, size as u32);
    bytes.u32(LOG_END, all.len() as u32);
    bytes.u32(LOGGED_CHARS, (all.len() - before).min(size) as u32);
    bytes.put(BUFFER, &buffer);
    let mut info = String::new();
    for (name, at) in [
        ("log_buf", LOG_BUF),
        ("log_end", LOG_END),
        ("log_buf_len", LOG_BUF_LEN),
        ("logged_chars", LOGGED_CHARS),
    ] {
        let _ = writeln!(info, "SYMBOL({name})={:x}", base + at);
    }
    LogImage {
        info,
        bytes: bytes.bytes,
        kept: (0..log.records.len()).collect(),
    }
}
