//! Reads the kernel log from memory.
//!
//! Three formats, distinguished by VMCOREINFO keys only, as in makedumpfile:
//!
//! | key | format | kernels |
//! |---|---|---|
//! | `SYMBOL(prb)` | `lockless` ring buffer | since 5.10 (896fbe20b4e2) |
//! | `SYMBOL(log_first_idx)` | `records` of variable length | 3.5 to 5.9 (7ff9554bb578) |
//! | `SYMBOL(log_end)` | plain `text` | before 3.5 |
//!
//! A dump may be damaged or hostile: every walk is bounded by the ring's own size and by that
//! of the dump's memory, no allocation is sized by an unchecked field, and what cannot be read is counted
//! and reported in [`LogSummary::warnings`].

mod fields;
mod format;
mod lockless;
mod record;
mod records;
mod text;

use std::io;

use bigiron_format::VirtAddr;

use crate::error::KernelError;
use crate::kernel_memory::KernelMemory;

pub use format::{Escape, TextStyle, facility_name, level_name};
pub use record::{Caller, Device, LogError, LogSummary, Record, RecordText, Visit};

/// The kernel log of a dump.
pub struct Log<'k> {
    memory: &'k dyn KernelMemory,
    form: Form,
}

enum Form {
    Lockless(lockless::Ring),
    Records(records::Buffer),
    Text(text::Buffer),
}

impl<'k> Log<'k> {
    /// Finds the log in a kernel's memory.
    pub fn open(memory: &'k dyn KernelMemory) -> Result<Self, KernelError> {
        let info = memory.info();
        let form = if info.symbol("prb").is_some() {
            Form::Lockless(lockless::Ring::find(memory)?)
        } else if info.symbol("log_end").is_some() {
            Form::Text(text::Buffer::find(memory)?)
        } else if info.symbol("log_first_idx").is_some() {
            Form::Records(records::Buffer::find(memory)?)
        } else {
            return Err(KernelError::missing(
                "SYMBOL(prb), SYMBOL(log_first_idx) or SYMBOL(log_end)",
                "find the kernel log",
            ));
        };
        Ok(Self { memory, form })
    }

    /// The memory of the log: address and number of bytes of each area.
    pub fn areas(&self) -> Vec<(VirtAddr, u64)> {
        match &self.form {
            Form::Lockless(ring) => ring.areas(),
            Form::Records(buffer) => vec![buffer.area()],
            Form::Text(buffer) => vec![buffer.area()],
        }
    }

    /// Passes every record to `visit`, oldest first; with `since_clear`, only those after the
    /// last `dmesg --clear`, if the kernel records it.
    pub fn for_each(
        &self,
        since_clear: bool,
        visit: &mut Visit<'_>,
    ) -> Result<LogSummary, LogError> {
        match &self.form {
            Form::Lockless(ring) => ring.for_each(self.memory, since_clear, visit),
            Form::Records(buffer) => buffer.for_each(self.memory, since_clear, visit),
            Form::Text(buffer) => buffer.for_each(self.memory, since_clear, visit),
        }
    }

    /// Writes the log as text, byte for byte as `makedumpfile --dump-dmesg` does; with
    /// `since_clear`, as `--partial-dmesg` is specified.
    pub fn write_text(
        &self,
        out: &mut dyn io::Write,
        since_clear: bool,
    ) -> Result<LogSummary, LogError> {
        self.write_styled(out, since_clear, TextStyle::MAKEDUMPFILE)
    }

    /// Writes the log as text in a given style. A plain-text log has its own format, of which
    /// only [`TextStyle::level_names`] and [`TextStyle::exact`] change anything.
    pub fn write_styled(
        &self,
        out: &mut dyn io::Write,
        since_clear: bool,
        style: TextStyle,
    ) -> Result<LogSummary, LogError> {
        match &self.form {
            Form::Text(buffer) if !style.level_names => {
                buffer.copy(self.memory, since_clear, &mut |bytes| {
                    style.write_plain(out, bytes)
                })
            }
            _ => self.for_each(since_clear, &mut |record| style.write(out, record)),
        }
    }
}
