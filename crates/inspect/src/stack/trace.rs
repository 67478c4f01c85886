//! A stack trace and its frames.

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::json::hexadecimal;
use crate::program::Program;

/// Maximum number of frames: kernel stacks have 16 KiB, and a frame at least 8 bytes.
pub(super) const MAX_FRAMES: usize = 4096;

/// A stack frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// The address at which the function continues.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// The function; `None` if the address is in no known function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// Offset from the start of the function, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Size of the function, up to the next symbol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Its module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Stack pointer.
    #[serde(serialize_with = "hexadecimal")]
    pub sp: VirtAddr,
    /// True if it was interrupted there; otherwise it called the previous frame.
    pub interrupted: bool,
    /// True if the unwind tables lead to it; otherwise a frame pointer did, which is
    /// unreliable.
    pub sure: bool,
}

/// The stack trace of a task, innermost function first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// The frames.
    pub frames: Vec<Frame>,
    /// The reason why the trace may be incomplete; `None` if it ends at a kernel entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// Describes a frame. For a call, the address of the call instruction is looked up: the return
/// address may already be in another function after a call that never returns.
pub(super) fn frame(
    program: &Program,
    address: VirtAddr,
    sp: VirtAddr,
    interrupted: bool,
) -> Frame {
    let back = u64::from(!interrupted);
    let found = program.symbol_at(VirtAddr(address.0.wrapping_sub(back)));
    Frame {
        address,
        symbol: found.map(|found| found.symbol.name.to_owned()),
        offset: found.map(|found| found.offset.saturating_add(back)),
        size: found.and_then(|found| found.size),
        module: found.and_then(|found| found.module).map(str::to_owned),
        sp,
        interrupted,
        sure: true,
    }
}
