//! The interface of stacks: what unwinding needs of a kernel, and what each architecture
//! provides.
//!
//! An architecture whose calls put the return address into a link register has a calling
//! convention; the walk over its frames is the same for all. x86-64 has a walk of its own. Names
//! of functions, notes and tasks are neutral, and the business of the caller.

mod chain;
#[cfg(test)]
pub(super) mod fake;
mod frames;
mod nameless;
mod prologue;
mod reader;
mod registers;
mod trampoline;

use std::fmt;

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

pub use reader::{Function, StackReader};

pub(super) use chain::Chain;
pub(super) use frames::{CallingConvention, Frames};
pub(super) use nameless::Nameless;
pub(super) use prologue::{Before, Form, FrameForms};
pub(super) use registers::Registers;
pub(super) use trampoline::check_trampoline;

/// Offset of pr_reg in struct elf_prstatus, the descriptor of NT_PRSTATUS, of all 64-bit
/// architectures (include/linux/elfcore.h).
pub const PRSTATUS_REGISTERS: usize = 112;

/// The reason why a stack, or a part of it, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(pub String);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The stacks of an architecture.
pub trait Stacks: Send + Sync {
    /// Prepares to unwind the stacks of one kernel.
    fn of(&self, kernel: &dyn StackReader) -> Box<dyn Unwind>;
}

/// Unwinds the stacks of one kernel.
pub trait Unwind: Send + Sync {
    /// The reason why frames are found in a less reliable way than the architecture's usual
    /// one; `None` if they are not.
    fn without_tables(&self) -> Option<&str> {
        None
    }

    /// Starts with the registers of a CPU, as in pr_reg of its NT_PRSTATUS in the byte order
    /// `endian`. `None` if they are too short or blank.
    fn of_cpu<'a>(
        &'a self,
        kernel: &'a dyn StackReader,
        registers: &[u8],
        endian: Endian,
    ) -> Option<Box<dyn Walk + 'a>>;

    /// Starts where the sleeping task with the task_struct at `task` continues.
    fn of_sleeper<'a>(
        &'a self,
        kernel: &'a dyn StackReader,
        task: VirtAddr,
    ) -> Result<Box<dyn Walk + 'a>, Reason>;
}

/// A position on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Address at which the function continues.
    pub ip: u64,
    /// Address of an instruction of the function. After a call it is before `ip`, which may
    /// already be in another function after a call that never returns.
    pub code: u64,
    /// Stack pointer, or the frame pointer where only that is known.
    pub sp: u64,
    /// True if the function was interrupted at `ip`; otherwise it called the previous frame.
    pub interrupted: bool,
    /// True if every step so far was reliable.
    pub sure: bool,
}

impl Position {
    /// The position of a function that was interrupted.
    pub(super) fn interrupted(ip: u64, sp: u64) -> Self {
        Self {
            ip,
            code: ip,
            sp,
            interrupted: true,
            sure: true,
        }
    }

    /// The position of a function that called the previous one.
    pub(super) fn called(ip: u64, sp: u64) -> Self {
        Self {
            ip,
            code: ip.wrapping_sub(1),
            sp,
            interrupted: false,
            sure: true,
        }
    }
}

/// A walk from frame to frame.
pub trait Walk {
    /// The current frame; `None` if the CPU was in user mode.
    fn position(&self) -> Option<Position>;

    /// Moves to the caller.
    fn step(&mut self) -> Result<(), End>;
}

/// Why unwinding ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// There is no caller in the kernel.
    Reached,
    /// The caller cannot be found.
    Cut(String),
}

impl From<Reason> for End {
    fn from(reason: Reason) -> Self {
        Self::Cut(reason.0)
    }
}
