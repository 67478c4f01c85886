//! The lockless ring buffer of Linux 5.10 and later.
//!
//! A ring of descriptors (`prb_desc`) holds the state of each record and the position of its
//! text in a second ring; a third ring (`printk_info`) holds the rest. Source:
//! kernel/printk/printk_ringbuffer.{h,c}.

use bigiron_format::VirtAddr;

use super::fields;
use super::record::{Caller, Device, LogError, LogSummary, Record, RecordText, Visit};
use crate::error::KernelError;
use crate::kernel_memory::KernelMemory;

/// Size of an unsigned long; a text block starts with one, the record's id.
const WORD: usize = 8;
/// The upper two bits of a descriptor's state_var are the state, the others the id of its
/// record.
const STATE_SHIFT: u32 = 62;
const ID_MASK: u64 = (1 << STATE_SHIFT) - 1;
const COMMITTED: u64 = 1;
const FINALIZED: u64 = 2;
/// Positions with bit 0 set mean no data; this one is an empty line.
const NO_DATA: u64 = 1;
const EMPTY_LINE: u64 = 3;

/// LOG_BUF_LEN_MAX is 2 GiB (kernel/printk/printk.c).
const MAX_TEXT_BITS: u32 = 31;
/// The kernel allocates one descriptor per 32 bytes of text (PRB_AVGBITS); one bit more than
/// for the largest ring.
const MAX_DESCRIPTOR_BITS: u32 = 27;
/// Maximum length of a device's names; PRINTK_INFO_DEVICE_LEN is 48.
const MAX_DEVICE_NAME: usize = 64;
/// Descriptors read at once.
const BATCH: u64 = 128;

pub(super) struct Ring {
    layout: Layout,
    /// Address and size of struct printk_ringbuffer.
    place: (VirtAddr, u64),
    descriptors: VirtAddr,
    infos: VirtAddr,
    count: u64,
    tail: u64,
    head: u64,
    text: VirtAddr,
    text_size: u64,
}

/// Sizes of the elements, and offsets in them.
struct Layout {
    descriptor_size: usize,
    state: usize,
    begin: usize,
    next: usize,
    info_size: usize,
    seq: usize,
    ts_nsec: usize,
    text_len: usize,
    caller: Option<usize>,
    level: Option<usize>,
    device: Option<DeviceLayout>,
}

/// Offset and length of the two names in a printk_info.
struct DeviceLayout {
    subsystem: (usize, usize),
    device: (usize, usize),
}

impl Ring {
    pub(super) fn find(memory: &dyn KernelMemory) -> Result<Self, KernelError> {
        let layout = Layout::find(memory)?;
        let size = fields::size(memory, "printk_ringbuffer")?;
        let desc_ring_size = fields::size(memory, "prb_desc_ring")?;
        let data_ring_size = fields::size(memory, "prb_data_ring")?;
        let offset = |name, width, size| fields::offset(memory, name, width, size);
        let desc_ring = offset("printk_ringbuffer.desc_ring", desc_ring_size, size)?;
        let data_ring = offset("printk_ringbuffer.text_data_ring", data_ring_size, size)?;
        let counter = counter(memory)?;

        let prb = fields::symbol(memory, "prb")?;
        let prb = VirtAddr(fields::read_u64(memory, "prb", prb)?);
        let mut ring = vec![0; size];
        memory.read("printk_ringbuffer", prb, &mut ring)?;
        let endian = memory.endian();
        let in_descs = |name, width| -> Result<usize, KernelError> {
            Ok(desc_ring + offset(name, width, desc_ring_size)?)
        };
        let word = |at| endian.u64(&ring, at).unwrap_or(0);
        let count_bits = endian.u32(&ring, in_descs("prb_desc_ring.count_bits", 4)?);
        let count_bits = bits("prb_desc_ring.count_bits", count_bits, MAX_DESCRIPTOR_BITS)?;
        let size_bits = data_ring + offset("prb_data_ring.size_bits", 4, data_ring_size)?;
        let size_bits = endian.u32(&ring, size_bits);
        let size_bits = bits("prb_data_ring.size_bits", size_bits, MAX_TEXT_BITS)?;
        let data = data_ring + offset("prb_data_ring.data", WORD, data_ring_size)?;
        Ok(Self {
            layout,
            place: (prb, size as u64),
            descriptors: VirtAddr(word(in_descs("prb_desc_ring.descs", WORD)?)),
            infos: VirtAddr(word(in_descs("prb_desc_ring.infos", WORD)?)),
            count: 1 << count_bits,
            tail: word(in_descs("prb_desc_ring.tail_id", counter + WORD)? + counter) & ID_MASK,
            head: word(in_descs("prb_desc_ring.head_id", counter + WORD)? + counter) & ID_MASK,
            text: VirtAddr(word(data)),
            text_size: 1 << size_bits,
        })
    }

    /// Address and number of bytes of the rings, and of what describes them.
    pub(super) fn areas(&self) -> Vec<(VirtAddr, u64)> {
        let size = |of: usize| self.count.saturating_mul(of as u64);
        vec![
            self.place,
            (self.descriptors, size(self.layout.descriptor_size)),
            (self.infos, size(self.layout.info_size)),
            (self.text, self.text_size),
        ]
    }

    pub(super) fn for_each(
        &self,
        memory: &dyn KernelMemory,
        since_clear: bool,
        visit: &mut Visit<'_>,
    ) -> Result<LogSummary, LogError> {
        let mut walk = Walk {
            ring: self,
            memory,
            from_seq: if since_clear { clear_seq(memory)? } else { 0 },
            text_left: memory.size_up_to(self.text_size),
            text: Vec::new(),
            info: vec![0; self.layout.info_size],
            summary: LogSummary::default(),
        };
        let mut left = (self.head.wrapping_sub(self.tail) & ID_MASK) + 1;
        if left > self.count {
            walk.summary.cut(format!(
                "its ring says {left} records but has room for {}",
                self.count
            ));
            left = self.count;
        }
        let size = self.layout.descriptor_size;
        let room = memory.size_up_to(left.saturating_mul(size as u64)) / size as u64;
        if left > room {
            walk.summary.cut(format!(
                "its ring says {left} records but the memory has room for {room}"
            ));
            left = room;
        }
        // The newest ones, if there is no room for all.
        let mut first = self.head.wrapping_sub(left.saturating_sub(1)) & ID_MASK;
        let mut batch = vec![0; size * BATCH as usize];
        while left > 0 {
            // At most up to the end of the ring.
            let index = first % self.count;
            let n = left.min(BATCH).min(self.count - index);
            let bytes = &mut batch[..size * n as usize];
            let at = fields::element(self.descriptors, index, size);
            let whole = memory.read("prb_desc", at, bytes).is_ok();
            for (i, descriptor) in (0..n).zip(bytes.chunks_exact_mut(size)) {
                let id = (first + i) & ID_MASK;
                let at = fields::element(self.descriptors, index + i, size);
                let read = match whole {
                    true => Ok(()),
                    false => memory.read("prb_desc", at, descriptor),
                };
                let go_on = match read {
                    Ok(()) => walk.record(id, descriptor, visit)?,
                    Err(error) => walk.summary.lose(&error),
                };
                if !go_on {
                    return Ok(walk.summary);
                }
            }
            first = (first + n) & ID_MASK;
            left -= n;
        }
        Ok(walk.summary)
    }
}

struct Walk<'w> {
    ring: &'w Ring,
    memory: &'w dyn KernelMemory,
    from_seq: u64,
    /// Text blocks do not overlap, so together they have at most the ring's size. Page tables
    /// may show one page all over the ring, so they also have at most the memory's size.
    text_left: u64,
    text: Vec<u8>,
    info: Vec<u8>,
    summary: LogSummary,
}

impl Walk<'_> {
    /// Passes one record on; `false` ends the walk.
    fn record(
        &mut self,
        id: u64,
        descriptor: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<bool, LogError> {
        let (ring, layout, endian) = (self.ring, &self.ring.layout, self.memory.endian());
        let word = |at| endian.u64(descriptor, at).unwrap_or(0);
        let state = word(layout.state);
        if state & ID_MASK != id {
            return Ok(true);
        }
        if !matches!(state >> STATE_SHIFT, COMMITTED | FINALIZED) {
            self.summary.unfinished += u64::from(state >> STATE_SHIFT == 0);
            return Ok(true);
        }
        let at = fields::element(ring.infos, id % ring.count, layout.info_size);
        if let Err(error) = self.memory.read("printk_info", at, &mut self.info) {
            return Ok(self.summary.lose(&error));
        }
        let seq = endian.u64(&self.info, layout.seq).unwrap_or(0);
        if seq < self.from_seq {
            return Ok(true);
        }
        let location = ring.locate(word(layout.begin), word(layout.next));
        let text = match location {
            TextLocation::Nothing => RecordText::Absent,
            TextLocation::EmptyLine => RecordText::EmptyLine,
            TextLocation::Block { start, room } => {
                let len = endian.u16(&self.info, layout.text_len).unwrap_or(0);
                let len = u64::from(len).min(room);
                let Some(left) = self.text_left.checked_sub(len) else {
                    self.summary
                        .cut("its records claim more text than its ring and the memory hold");
                    return Ok(false);
                };
                self.text_left = left;
                self.text.resize(len as usize, 0);
                let at = fields::element(ring.text, start, 1);
                if let Err(error) = self.memory.read("text of the log", at, &mut self.text) {
                    return Ok(self.summary.lose(&error));
                }
                RecordText::Bytes(&self.text)
            }
        };
        let levels = layout
            .level
            .and_then(|at| fields::level_and_facility(self.memory, &self.info, at));
        let caller = layout.caller.and_then(|at| endian.u32(&self.info, at));
        visit(&Record {
            seq: Some(seq),
            ts_nsec: endian.u64(&self.info, layout.ts_nsec),
            level: levels.map(|(level, _)| level),
            facility: levels.map(|(_, facility)| facility),
            caller: caller.map(Caller),
            device: layout.device.as_ref().and_then(|d| d.names(&self.info)),
            text,
        })?;
        self.summary.records += 1;
        Ok(true)
    }
}

/// Location of a record's text.
#[derive(Debug, PartialEq, Eq)]
enum TextLocation {
    Nothing,
    EmptyLine,
    /// Offset in the ring after the block's id, and number of bytes there.
    Block {
        start: u64,
        room: u64,
    },
}

impl Ring {
    /// Locates a text block, like get_data() of printk_ringbuffer.c.
    fn locate(&self, begin: u64, next: u64) -> TextLocation {
        if begin & next & NO_DATA != 0 {
            return match (begin, next) {
                (EMPTY_LINE, EMPTY_LINE) => TextLocation::EmptyLine,
                _ => TextLocation::Nothing,
            };
        }
        let (begin, next) = (begin % self.text_size, next % self.text_size);
        let (begin, end) = match (begin, next) {
            _ if begin == next => return TextLocation::Nothing,
            (begin, next) if begin < next => (begin, next),
            // A block that ends exactly at the end of the ring. Before 67e1b0052f6b such a
            // block wrapped and had its end after the start, which makedumpfile 1.7.2 assumes.
            (begin, 0) => (begin, self.text_size),
            // A block that does not fit before the end of the ring is stored whole at the
            // start.
            (_, next) => (0, next),
        };
        let start = begin + WORD as u64;
        match end.checked_sub(start) {
            Some(room) => TextLocation::Block { start, room },
            None => TextLocation::Nothing,
        }
    }
}

impl Layout {
    fn find(memory: &dyn KernelMemory) -> Result<Self, KernelError> {
        let descriptor_size = fields::size(memory, "prb_desc")?;
        let block_size = fields::size(memory, "prb_data_blk_lpos")?;
        let info_size = fields::size(memory, "printk_info")?;
        let offset = |name, width, size| fields::offset(memory, name, width, size);
        let counter = counter(memory)?;
        let state = offset("prb_desc.state_var", counter + WORD, descriptor_size)?;
        let block = offset("prb_desc.text_blk_lpos", block_size, descriptor_size)?;
        let text_len = offset("printk_info.text_len", 2, info_size)?;
        let caller = fields::optional_offset(memory, "printk_info.caller_id", 4, info_size)?;
        Ok(Self {
            descriptor_size,
            state: state + counter,
            begin: block + offset("prb_data_blk_lpos.begin", WORD, block_size)?,
            next: block + offset("prb_data_blk_lpos.next", WORD, block_size)?,
            info_size,
            seq: offset("printk_info.seq", 8, info_size)?,
            ts_nsec: offset("printk_info.ts_nsec", 8, info_size)?,
            text_len,
            caller,
            // No key locates facility and level. Since 5.10 they are the two bytes between
            // these two fields.
            level: (caller == Some(text_len + 4)).then_some(text_len + 2),
            device: DeviceLayout::find(memory, info_size),
        })
    }
}

impl DeviceLayout {
    fn find(memory: &dyn KernelMemory, info_size: usize) -> Option<Self> {
        let info = memory.info();
        let dev_info = info.offset("printk_info.dev_info")?;
        let field = |name: &str, length: &str| {
            let offset = dev_info.checked_add(info.offset(&format!("dev_printk_info.{name}"))?)?;
            let length = info.length(length)?.min(MAX_DEVICE_NAME);
            (offset.checked_add(length)? <= info_size).then_some((offset, length))
        };
        Some(Self {
            subsystem: field("subsystem", "printk_info_subsystem")?,
            device: field("device", "printk_info_device")?,
        })
    }

    fn names<'a>(&self, info: &'a [u8]) -> Option<Device<'a>> {
        let text = |(offset, length): (usize, usize)| {
            let field = info.get(offset..offset + length)?;
            field.split(|byte| *byte == 0).next()
        };
        let (subsystem, device) = (text(self.subsystem)?, text(self.device)?);
        (!subsystem.is_empty() || !device.is_empty()).then_some(Device { subsystem, device })
    }
}

/// Offset of an atomic_long_t's value. Its size is that of the kernel's words; this parser
/// supports words of 8 bytes only.
fn counter(memory: &dyn KernelMemory) -> Result<usize, KernelError> {
    let size = fields::size(memory, "atomic_long_t")?;
    if size != WORD {
        return Err(KernelError::Implausible {
            what: "SIZE(atomic_long_t) in VMCOREINFO".into(),
            found: size.to_string(),
            expected: "8, as 64-bit kernels have it",
        });
    }
    fields::offset(memory, "atomic_long_t.counter", WORD, size)
}

fn bits(what: &str, found: Option<u32>, most: u32) -> Result<u32, KernelError> {
    found
        .filter(|bits| (1..=most).contains(bits))
        .ok_or_else(|| KernelError::Implausible {
            what: what.into(),
            found: format!("{}", found.unwrap_or(0)),
            expected: "the logarithm of a ring's size",
        })
}

/// Sequence number of the first record after the last `dmesg --clear`; 0 if unknown.
fn clear_seq(memory: &dyn KernelMemory) -> Result<u64, KernelError> {
    let Some(address) = memory.info().symbol("clear_seq") else {
        return Ok(0);
    };
    let Some(values) = memory.info().offset("latched_seq.val") else {
        // A plain u64 up to 5.12.
        return fields::read_u64(memory, "clear_seq", address);
    };
    // Two copies; a sequence count selects the one that is not being written (7d7a23a91c91,
    // latched_seq_read_nolock()).
    let sequence = fields::read_u32(memory, "clear_seq", address)?;
    let copy = values as u64 + 8 * u64::from(sequence & 1);
    fields::read_u64(memory, "clear_seq", VirtAddr(address.0.wrapping_add(copy)))
}
