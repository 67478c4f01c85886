//! A stack trace and its frames.

use std::collections::HashSet;

use bigiron_format::VirtAddr;
use bigiron_kernel::arch::stacks::{End, Position, Walk};
use serde::Serialize;

use crate::json::hexadecimal;
use crate::program::Program;

/// Maximum number of frames: kernel stacks have 16 KiB, and a frame at least 8 bytes.
const MAX_FRAMES: usize = 4096;

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
    /// True if the architecture's usual way leads to it, such as unwind tables; otherwise one
    /// that is unreliable did.
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

impl Trace {
    /// A trace without frames.
    pub(super) fn none(reason: String) -> Self {
        Self {
            frames: Vec::new(),
            cut: Some(reason),
        }
    }
}

/// Returns all frames of a walk.
pub(super) fn all<'a>(program: &Program, mut walk: Box<dyn Walk + 'a>) -> Trace {
    let mut trace = Trace::default();
    let mut seen = HashSet::new();
    while trace.frames.len() < MAX_FRAMES {
        let Some(position) = walk.position() else {
            trace.cut = Some("it was not in the kernel".into());
            return trace;
        };
        if !seen.insert((position.ip, position.sp)) {
            trace.cut = Some(format!("the stack is cyclic at {:#x}", position.sp));
            return trace;
        }
        trace.frames.push(frame(program, &position));
        match walk.step() {
            Ok(()) => {}
            Err(End::Reached) => return trace,
            Err(End::Cut(reason)) => {
                trace.cut = Some(reason);
                return trace;
            }
        }
    }
    trace.cut = Some(format!("more than {MAX_FRAMES} frames"));
    trace
}

/// Describes a frame.
fn frame(program: &Program, position: &Position) -> Frame {
    let back = position.ip.wrapping_sub(position.code);
    let found = program.symbol_at(VirtAddr(position.code));
    Frame {
        address: VirtAddr(position.ip),
        symbol: found.map(|found| found.symbol.name.to_owned()),
        offset: found.map(|found| found.offset.saturating_add(back)),
        size: found.and_then(|found| found.size),
        module: found.and_then(|found| found.module).map(str::to_owned),
        sp: VirtAddr(position.sp),
        interrupted: position.interrupted,
        sure: position.sure,
    }
}
