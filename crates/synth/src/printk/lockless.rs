//! The ring buffer of kernel/printk/printk_ringbuffer.{h,c} from 5.10 on, for machines
//! of 64 bits.

use std::collections::VecDeque;
use std::fmt::Write;

use super::bytes::Bytes;
use super::log::{KernelLog, LogForm, LogImage, LogRecord, Written};
use crate::order::ByteOrder;

/// Offsets of the parts: the variables `prb` and `clear_seq`, the ring itself, and then
/// descriptors, infos and text.
const PRB: u64 = 0;
const CLEAR_SEQ: u64 = 8;
const RING: u64 = 64;
const DESCRIPTORS: u64 = 256;

const DESCRIPTOR_SIZE: u64 = 24;
const INFO_SIZE: u64 = 88;
const FAILED_LPOS: u64 = 1;
const EMPTY_LINE_LPOS: u64 = 3;
const ID_BITS: u64 = u64::MAX >> 2;
const REUSABLE: u64 = 3;

struct Entry {
    index: usize,
    next: u64,
    has_text: bool,
    /// True if the text was overwritten and the descriptor is still present.
    reusable: bool,
}

struct Writer<'a> {
    log: &'a KernelLog,
    text: Bytes,
    entries: VecDeque<Entry>,
    head_lpos: u64,
    tail_lpos: u64,
}

impl Writer<'_> {
    fn size(&self) -> u64 {
        1 << self.log.text_bits
    }

    /// data_alloc(): allocates a block of text, and pushes out old ones.
    fn block(&mut self, text: &[u8], id: u64) -> (u64, u64) {
        let bytes = (text.len() as u64 + 8).next_multiple_of(8);
        // data_check_size().
        if bytes > self.size() / 2 {
            return (FAILED_LPOS, FAILED_LPOS);
        }
        let begin = self.head_lpos;
        let mut next = begin.wrapping_add(bytes);
        let wrap = |lpos: u64| lpos / self.size();
        let last = match self.log.form {
            LogForm::LocklessToTheEnd => next.wrapping_sub(1),
            _ => next,
        };
        let mut at = begin % self.size();
        if wrap(begin) != wrap(last) {
            let rest = self.size() - at;
            next = begin.wrapping_add(rest).wrapping_add(bytes);
            at = 0;
        }
        while next.wrapping_sub(self.tail_lpos) > self.size() {
            self.overwrite_text();
        }
        self.head_lpos = next;
        self.text.u64(at, id);
        self.text.put(at + 8, text);
        (begin, next)
    }

    /// data_push_tail(): drops the oldest text, with its record.
    fn overwrite_text(&mut self) {
        let has_text = |entry: &&mut Entry| entry.has_text && !entry.reusable;
        if let Some(oldest) = self.entries.iter_mut().find(has_text) {
            oldest.reusable = true;
            self.tail_lpos = oldest.next;
        } else {
            self.tail_lpos = self.head_lpos;
        }
    }

    /// desc_push_tail(): drops the oldest descriptor.
    fn overwrite_descriptor(&mut self) {
        if let Some(entry) = self.entries.pop_front()
            && entry.has_text
            && !entry.reusable
        {
            self.tail_lpos = entry.next;
        }
    }
}

pub(super) fn image(log: &KernelLog, base: u64, order: ByteOrder) -> LogImage {
    let count = 1_u64 << log.descriptor_bits;
    // DESC0_ID and BLK0_LPOS: one step before both counters wrap.
    let first_id = (count + 1).wrapping_neg() & ID_BITS;
    let id_of = |index: usize| (first_id + 1 + index as u64) & ID_BITS;
    let start = (1_u64 << log.text_bits).wrapping_neg();
    let mut writer = Writer {
        log,
        text: Bytes::new(1 << log.text_bits, order),
        entries: VecDeque::new(),
        head_lpos: start,
        tail_lpos: start,
    };
    let infos = DESCRIPTORS + count * DESCRIPTOR_SIZE;
    let text = infos + count * INFO_SIZE;
    let mut bytes = Bytes::new(text as usize, order);
    bytes.u64(
        DESCRIPTORS + (count - 1) * DESCRIPTOR_SIZE,
        REUSABLE << 62 | first_id,
    );
    for (index, record) in log.records.iter().enumerate() {
        if writer.entries.len() as u64 == count {
            writer.overwrite_descriptor();
        }
        let id = id_of(index);
        let (begin, next) = match record.written {
            Written::EmptyLine => (EMPTY_LINE_LPOS, EMPTY_LINE_LPOS),
            Written::NoRoom => (FAILED_LPOS, FAILED_LPOS),
            _ => writer.block(&record.text, id),
        };
        let has_text = begin & 1 == 0;
        debug_assert!(
            has_text || matches!(record.written, Written::EmptyLine | Written::NoRoom),
            "record {index} is too long for the ring"
        );
        writer.entries.push_back(Entry {
            index,
            next,
            has_text,
            reusable: false,
        });
        let state = match record.written {
            Written::Reserved => 0,
            Written::Committed => 1,
            _ => 2,
        };
        let slot = id % count;
        let descriptor = DESCRIPTORS + slot * DESCRIPTOR_SIZE;
        bytes.u64(descriptor, state << 62 | id);
        bytes.u64(descriptor + 8, begin);
        bytes.u64(descriptor + 16, next);
        info(&mut bytes, infos + slot * INFO_SIZE, index, record);
    }
    for entry in writer.entries.iter().filter(|entry| entry.reusable) {
        let id = id_of(entry.index);
        bytes.u64(
            DESCRIPTORS + id % count * DESCRIPTOR_SIZE,
            REUSABLE << 62 | id,
        );
    }
    let head_id = match log.records.len() {
        0 => first_id,
        records => id_of(records - 1),
    };
    let tail_id = writer
        .entries
        .front()
        .map_or(head_id, |entry| id_of(entry.index));

    bytes.u64(PRB, base + RING);
    // struct latched_seq during a write: its first copy must not be used.
    bytes.u32(CLEAR_SEQ, 7);
    bytes.u64(CLEAR_SEQ + 8, 0xdead);
    bytes.u64(CLEAR_SEQ + 16, log.cleared as u64);
    bytes.u32(RING, log.descriptor_bits);
    bytes.u64(RING + 8, base + DESCRIPTORS);
    bytes.u64(RING + 16, base + infos);
    bytes.u64(RING + 24, head_id);
    bytes.u64(RING + 32, tail_id);
    bytes.u32(RING + 48, log.text_bits);
    bytes.u64(RING + 56, base + text);
    bytes.u64(RING + 64, writer.head_lpos);
    bytes.u64(RING + 72, writer.tail_lpos);
    bytes.put(text, &writer.text.bytes);
    let kept = writer.entries.iter().filter(|entry| !entry.reusable);
    LogImage {
        info: vmcoreinfo(base),
        bytes: bytes.bytes,
        kept: kept.map(|entry| entry.index).collect(),
    }
}

/// `struct printk_info`.
fn info(bytes: &mut Bytes, at: u64, index: usize, record: &LogRecord) {
    bytes.put(at, &[0; INFO_SIZE as usize]);
    bytes.u64(at, index as u64);
    bytes.u64(at + 8, record.ts_nsec);
    let has_text = !matches!(record.written, Written::EmptyLine | Written::NoRoom);
    bytes.u16(
        at + 16,
        if has_text {
            record.text.len() as u16
        } else {
            0
        },
    );
    let flags = bytes.flags_and_level(record.level);
    bytes.put(at + 18, &[record.facility, flags]);
    bytes.u32(at + 20, record.caller);
    if let Some((subsystem, device)) = &record.device {
        bytes.put(at + 24, subsystem.as_bytes());
        bytes.put(at + 40, device.as_bytes());
    }
}

/// log_buf_vmcoreinfo_setup() of kernel/printk/printk.c.
fn vmcoreinfo(base: u64) -> String {
    let mut info = String::new();
    for (name, at) in [
        ("prb", PRB),
        ("printk_rb_static", RING),
        ("clear_seq", CLEAR_SEQ),
    ] {
        let _ = writeln!(info, "SYMBOL({name})={:x}", base + at);
    }
    info.push_str(
        "SIZE(printk_ringbuffer)=88\nOFFSET(printk_ringbuffer.desc_ring)=0\n\
         OFFSET(printk_ringbuffer.text_data_ring)=48\nOFFSET(printk_ringbuffer.fail)=80\n\
         SIZE(prb_desc_ring)=48\nOFFSET(prb_desc_ring.count_bits)=0\n\
         OFFSET(prb_desc_ring.descs)=8\nOFFSET(prb_desc_ring.infos)=16\n\
         OFFSET(prb_desc_ring.head_id)=24\nOFFSET(prb_desc_ring.tail_id)=32\n\
         SIZE(prb_desc)=24\nOFFSET(prb_desc.state_var)=0\nOFFSET(prb_desc.text_blk_lpos)=8\n\
         SIZE(prb_data_blk_lpos)=16\nOFFSET(prb_data_blk_lpos.begin)=0\n\
         OFFSET(prb_data_blk_lpos.next)=8\nSIZE(printk_info)=88\nOFFSET(printk_info.seq)=0\n\
         OFFSET(printk_info.ts_nsec)=8\nOFFSET(printk_info.text_len)=16\n\
         OFFSET(printk_info.caller_id)=20\nOFFSET(printk_info.dev_info)=24\n\
         SIZE(dev_printk_info)=64\nOFFSET(dev_printk_info.subsystem)=0\n\
         LENGTH(printk_info_subsystem)=16\nOFFSET(dev_printk_info.device)=16\n\
         LENGTH(printk_info_device)=48\nSIZE(prb_data_ring)=32\n\
         OFFSET(prb_data_ring.size_bits)=0\nOFFSET(prb_data_ring.data)=8\n\
         OFFSET(prb_data_ring.head_lpos)=16\nOFFSET(prb_data_ring.tail_lpos)=24\n\
         SIZE(atomic_long_t)=8\nOFFSET(atomic_long_t.counter)=0\n\
         SIZE(latched_seq)=24\nOFFSET(latched_seq.val)=8\n",
    );
    info
}
