//! The kernel's log, out of its memory.
//!
//! Three forms, told apart by VMCOREINFO's keys alone, as makedumpfile does:
//!
//! | key | form | kernels |
//! |---|---|---|
//! | `SYMBOL(prb)` | `lockless` ring buffer | 5.10 on (896fbe20b4e2) |
//! | `SYMBOL(log_first_idx)` | `records` of variable length | 3.5 to 5.9 (7ff9554bb578) |
//! | `SYMBOL(log_end)` | plain `text` | before 3.5 |
//!
//! A dump may be damaged or made to harm: what is walked is bounded by the
//! ring's own size, nothing is allocated by a number from the dump, and what
//! cannot be read is counted and named in [`LogSummary::warnings`].

mod fields;
mod format;
mod lockless;
mod record;
mod records;
mod text;

use std::io;

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use crate::error::KernelError;
use crate::kernel::Kernel;

pub use format::{Escape, TextStyle, facility_name, level_name};
pub use record::{Caller, Device, LogSummary, Record, RecordText};

/// The memory that a log is read from.
pub trait KernelMemory {
    /// What the kernel says of itself.
    fn info(&self) -> &Vmcoreinfo;

    /// Its byte order.
    fn endian(&self) -> Endian;

    /// Fills `buf` with kernel memory; `what` is for messages.
    fn read(
        &self,
        what: &'static str,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError>;
}

impl KernelMemory for Kernel<'_> {
    fn info(&self) -> &Vmcoreinfo {
        Kernel::info(self)
    }

    fn endian(&self) -> Endian {
        self.source().endian()
    }

    fn read(
        &self,
        what: &'static str,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError> {
        Kernel::read(self, what, address, buf)
    }
}

/// Why a log could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It is not in the dump, or makes no sense.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// What was read could not be written.
    #[error("cannot write the kernel log: {0}")]
    Write(#[from] io::Error),
}

/// What is called for each record, oldest first.
pub type Visit<'v> = dyn FnMut(&Record<'_>) -> io::Result<()> + 'v;

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

    /// Passes every record to `visit`, oldest first; with `since_clear` only
    /// those behind the last `dmesg --clear`, as far as the kernel says where
    /// that is.
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

    /// Writes the log as text, byte by byte as `makedumpfile --dump-dmesg`
    /// does; with `since_clear` as `--partial-dmesg` is meant to.
    pub fn write_text(
        &self,
        out: &mut dyn io::Write,
        since_clear: bool,
    ) -> Result<LogSummary, LogError> {
        self.write_styled(out, since_clear, TextStyle::MAKEDUMPFILE)
    }

    /// Writes the log as text of a style. A log of plain text has a form of
    /// its own, which no style changes but [`TextStyle::level_names`].
    pub fn write_styled(
        &self,
        out: &mut dyn io::Write,
        since_clear: bool,
        style: TextStyle,
    ) -> Result<LogSummary, LogError> {
        match &self.form {
            Form::Text(buffer) if !style.level_names => {
                buffer.copy(self.memory, since_clear, &mut |bytes| out.write_all(bytes))
            }
            _ => self.for_each(since_clear, &mut |record| style.write(out, record)),
        }
    }
}
