//! The records of variable length of Linux 3.5 to 5.9.
//!
//! `struct printk_log` (`struct log` up to 3.10), followed by text and dictionary, from
//! log_first_idx to log_next_idx of log_buf. A record of length 0 means that the next one is at
//! the start. Source: kernel/printk.c, kernel/printk/printk.c.

use bigiron_format::VirtAddr;

use super::fields;
use super::record::{Caller, LogError, LogSummary, Record, RecordText, Visit};
use crate::error::KernelError;
use crate::kernel_memory::KernelMemory;

pub(super) struct Buffer {
    log_buf: VirtAddr,
    log_buf_len: u32,
    first: u32,
    next: u32,
    layout: Layout,
}

/// Size of a record's header, and offsets in it.
struct Layout {
    size: usize,
    ts_nsec: usize,
    len: usize,
    text_len: usize,
    caller: Option<usize>,
    level: Option<usize>,
}

/// The fields of a record's header.
struct Header {
    bytes: Vec<u8>,
    len: u32,
}

impl Buffer {
    pub(super) fn find(memory: &dyn KernelMemory) -> Result<Self, KernelError> {
        let layout = Layout::find(memory)?;
        let (log_buf, log_buf_len) = fields::log_buf(memory)?;
        let index = |name: &'static str| -> Result<u32, KernelError> {
            let index = fields::read_u32(memory, name, fields::symbol(memory, name)?)?;
            if index > log_buf_len {
                return Err(KernelError::Implausible {
                    what: name.into(),
                    found: index.to_string(),
                    expected: "an offset below log_buf_len",
                });
            }
            Ok(index)
        };
        Ok(Self {
            log_buf,
            log_buf_len,
            first: index("log_first_idx")?,
            next: index("log_next_idx")?,
            layout,
        })
    }

    /// Address and number of bytes.
    pub(super) fn area(&self) -> (VirtAddr, u64) {
        (self.log_buf, u64::from(self.log_buf_len))
    }

    /// Returns the index of the first record after the last clear; `None` if unknown. clear_idx
    /// is stale after the buffer wrapped, and clear_seq, which shows that, is not in
    /// VMCOREINFO. So it counts only if a record starts there, or would.
    fn cleared(&self, memory: &dyn KernelMemory) -> Result<Option<u32>, LogError> {
        let Some(address) = memory.info().symbol("clear_idx") else {
            return Ok(None);
        };
        let clear = fields::read_u32(memory, "clear_idx", address)?;
        let mut is_there = clear == self.next;
        self.walk(memory, &mut |index, _, _| {
            is_there |= index == clear;
            Ok(())
        })?;
        Ok(is_there.then_some(clear))
    }

    pub(super) fn for_each(
        &self,
        memory: &dyn KernelMemory,
        since_clear: bool,
        visit: &mut Visit<'_>,
    ) -> Result<LogSummary, LogError> {
        let mut from = match since_clear {
            true => self.cleared(memory)?,
            false => None,
        };
        if from == Some(self.next) {
            return Ok(LogSummary::default());
        }
        let mut records = 0;
        let mut text = Vec::new();
        let mut lost = LogSummary::default();
        let mut summary = self.walk(memory, &mut |index, header, room| {
            if from.is_some_and(|from| from != index) {
                return Ok(());
            }
            from = None;
            let endian = memory.endian();
            let layout = &self.layout;
            let len = endian.u16(&header.bytes, layout.text_len).unwrap_or(0);
            text.resize(usize::from(len).min(room as usize), 0);
            let at = fields::element(self.log_buf, u64::from(index) + layout.size as u64, 1);
            if lost.cut.is_some() {
                return Ok(());
            }
            if let Err(error) = memory.read("text of the log", at, &mut text) {
                lost.lose(&error);
                return Ok(());
            }
            let levels = layout
                .level
                .and_then(|at| fields::level_and_facility(memory, &header.bytes, at));
            let caller = layout.caller.and_then(|at| endian.u32(&header.bytes, at));
            records += 1;
            visit(&Record {
                seq: None,
                ts_nsec: endian.u64(&header.bytes, layout.ts_nsec),
                level: levels.map(|(level, _)| level),
                facility: levels.map(|(_, facility)| facility),
                caller: caller.map(Caller),
                device: None,
                text: RecordText::Bytes(&text),
            })
        })?;
        summary.records = records;
        summary.unreadable += lost.unreadable;
        summary.first_unreadable = lost.first_unreadable.or(summary.first_unreadable);
        summary.cut = lost.cut.or(summary.cut);
        Ok(summary)
    }

    /// Walks the records: index, header, bytes after the header.
    fn walk(
        &self,
        memory: &dyn KernelMemory,
        each: &mut dyn FnMut(u32, &Header, u32) -> std::io::Result<()>,
    ) -> Result<LogSummary, LogError> {
        let mut summary = LogSummary::default();
        let mut header = Header {
            bytes: vec![0; self.layout.size],
            len: 0,
        };
        let size = self.layout.size as u32;
        // Records do not overlap, so together they have at most the size of the buffer, and of
        // the memory, of which page tables may show one page all over the buffer.
        let most = memory.size_up_to(u64::from(self.log_buf_len));
        let mut left = u32::try_from(most).unwrap_or(self.log_buf_len);
        let mut at = self.first;
        while at != self.next {
            if self.log_buf_len.saturating_sub(at) < size {
                summary.cut(format!("offset {at} has no room for a record"));
                break;
            }
            let address = fields::element(self.log_buf, u64::from(at), 1);
            // Without its length the next record cannot be found.
            if let Err(error) = memory.read("printk_log", address, &mut header.bytes) {
                summary.lose(&error);
                summary.cut(format!("the record at offset {at} cannot be read"));
                break;
            }
            let len = memory.endian().u16(&header.bytes, self.layout.len);
            header.len = u32::from(len.unwrap_or(0));
            if header.len == 0 && at != 0 && self.next <= at {
                left -= left.min(size);
                at = 0;
                continue;
            }
            if header.len < size || header.len > self.log_buf_len - at || header.len > left {
                summary.cut(format!(
                    "the record at offset {at} claims {} bytes",
                    header.len
                ));
                break;
            }
            left -= header.len;
            each(at, &header, header.len - size)?;
            at += header.len;
        }
        Ok(summary)
    }
}

impl Layout {
    fn find(memory: &dyn KernelMemory) -> Result<Self, KernelError> {
        // Renamed by 62e32ac3505a.
        let name = match memory.info().size("printk_log") {
            Some(_) => "printk_log",
            None => "log",
        };
        let size = fields::size(memory, name)?;
        let offset =
            |member: &str, width| fields::offset(memory, &format!("{name}.{member}"), width, size);
        let optional = |member: &str, width| {
            fields::optional_offset(memory, &format!("{name}.{member}"), width, size)
        };
        // `u8 facility; u8 flags:5; u8 level:3;` after dict_len; no key locates it, and `struct
        // log` of 3.5 had other fields there.
        let level = optional("dict_len", 4)?.map(|at| at + 2);
        Ok(Self {
            size,
            ts_nsec: offset("ts_nsec", 8)?,
            len: offset("len", 2)?,
            text_len: offset("text_len", 2)?,
            caller: optional("caller_id", 4)?,
            level: level.filter(|_| name == "printk_log"),
        })
    }
}
