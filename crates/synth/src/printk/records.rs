//! The log of kernel/printk/printk.c from 3.5 to 5.9, for machines of 64 bits:
//! log_store(), log_make_free_space().

use std::collections::VecDeque;
use std::fmt::Write;

use super::bytes::Bytes;
use super::log::{KernelLog, LogImage};
use crate::order::ByteOrder;

/// Offsets of the variables.
const LOG_BUF: u64 = 0;
const LOG_BUF_LEN: u64 = 8;
const FIRST_IDX: u64 = 12;
const CLEAR_IDX: u64 = 16;
const NEXT_IDX: u64 = 20;
const BUFFER: u64 = 64;
/// `struct printk_log` without CONFIG_PRINTK_CALLER.
const HEADER: u64 = 16;

pub(super) fn image(log: &KernelLog, base: u64, order: ByteOrder, name: &str) -> LogImage {
    let size = 1_u64 << log.text_bits;
    let mut buffer = Bytes::new(size as usize, order);
    let (mut next, mut clear) = (0, 0);
    // Offsets and indices of the records that are still present.
    let mut kept: VecDeque<(u64, usize)> = VecDeque::new();
    for (index, record) in log.records.iter().enumerate() {
        if index == log.cleared {
            clear = next;
        }
        let dictionary = record.device.as_ref().map(|(subsystem, device)| {
            format!("SUBSYSTEM={subsystem}\0DEVICE={device}").into_bytes()
        });
        let dictionary = dictionary.unwrap_or_default();
        let used = HEADER + (record.text.len() + dictionary.len()) as u64;
        // LOG_ALIGN is the alignment of a u64.
        let bytes = used.next_multiple_of(8);
        let free = |first: Option<&(u64, usize)>| match first {
            Some((first, _)) if next > *first => (size - next).max(*first),
            Some((first, _)) => first - next,
            None => (size - next).max(next),
        };
        // Another header must fit, for the mark at the end of the data.
        while free(kept.front()) < bytes + HEADER && kept.pop_front().is_some() {}
        if next + bytes + HEADER > size {
            buffer.put(next, &[0; HEADER as usize]);
            next = 0;
        }
        buffer.u64(next, record.ts_nsec);
        buffer.u16(next + 8, bytes as u16);
        buffer.u16(next + 10, record.text.len() as u16);
        buffer.u16(next + 12, dictionary.len() as u16);
        let flags = buffer.flags_and_level(record.level);
        buffer.put(next + 14, &[record.facility, flags]);
        buffer.put(next + HEADER, &record.text);
        buffer.put(next + HEADER + record.text.len() as u64, &dictionary);
        kept.push_back((next, index));
        next += bytes;
    }
    if log.cleared >= log.records.len() {
        clear = next;
    }
    let first = kept.front().map_or(next, |(first, _)| *first);
    let mut bytes = Bytes::new(0, order);
    bytes.u64(LOG_BUF, base + BUFFER);
    bytes.u32(LOG_BUF_LEN, size as u32);
    bytes.u32(FIRST_IDX, first as u32);
    bytes.u32(CLEAR_IDX, clear as u32);
    bytes.u32(NEXT_IDX, next as u32);
    bytes.put(BUFFER, &buffer.bytes);
    LogImage {
        info: vmcoreinfo(base, name),
        bytes: bytes.bytes,
        kept: kept.into_iter().map(|(_, index)| index).collect(),
    }
}

/// log_buf_vmcoreinfo_setup().
fn vmcoreinfo(base: u64, name: &str) -> String {
    let mut info = String::new();
    for (name, at) in [
        ("log_buf", LOG_BUF),
        ("log_buf_len", LOG_BUF_LEN),
        ("log_first_idx", FIRST_IDX),
        ("clear_idx", CLEAR_IDX),
        ("log_next_idx", NEXT_IDX),
    ] {
        let _ = writeln!(info, "SYMBOL({name})={:x}", base + at);
    }
    let _ = writeln!(info, "SIZE({name})={HEADER}");
    for (member, at) in [
        ("ts_nsec", 0),
        ("len", 8),
        ("text_len", 10),
        ("dict_len", 12),
    ] {
        let _ = writeln!(info, "OFFSET({name}.{member})={at}");
    }
    info
}
