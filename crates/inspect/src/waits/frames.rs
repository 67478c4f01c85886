//! The frames of a task that waits: those of waiting, and its own.

use bigiron_format::VirtAddr;

use crate::program::Program;
use crate::stack::{Frame, Trace};

/// Largest part of a stack that is read: no frame of the kernel is larger.
const MAX_FRAME: u64 = 16 << 10;

/// Beginnings of the names of functions that merely wait, or take a lock for their caller.
const WAITING: [&str; 46] = [
    "__schedule",
    "schedule",
    "preempt_schedule",
    "io_schedule",
    "__cond_resched",
    "mutex_",
    "__mutex",
    "__ww_mutex",
    "ww_mutex_",
    "rwsem_",
    "__rwsem",
    "down",
    "__down",
    "___down",
    "up_",
    "percpu_rwsem_wait",
    "__percpu_down",
    "rt_mutex_",
    "__rt_mutex",
    "rtlock_",
    "wait_for_completion",
    "__wait_for_common",
    "wait_for_common",
    "do_wait_for_common",
    "__flush_work",
    "flush_work",
    "wait_on_bit",
    "__wait_on_bit",
    "out_of_line_wait_on_bit",
    "bit_wait",
    "folio_wait",
    "__folio_lock",
    "wait_on_page",
    "__lock_page",
    "msleep",
    "usleep_range",
    "synchronize_rcu",
    "synchronize_srcu",
    "__synchronize_srcu",
    "__wait_rcu_gp",
    "prepare_to_wait",
    "do_nanosleep",
    "hrtimer_nanosleep",
    "context_switch",
    "__switch_to",
    "wait_for_",
];

/// Returns the name of a frame's function without the suffixes of the compiler.
pub fn function(frame: &Frame) -> &str {
    let name = frame.symbol.as_deref().unwrap_or("");
    name.split('.').next().unwrap_or(name)
}

/// Returns the frames of a trace without those that merely wait.
pub(crate) fn own_frames(trace: &Trace) -> impl Iterator<Item = &Frame> {
    let is_waiting = |frame: &&Frame| {
        WAITING
            .iter()
            .any(|known| function(frame).starts_with(known))
    };
    trace.frames.iter().skip_while(is_waiting)
}

/// Formats a frame as `function+0x10 [module]`.
pub fn place(frame: &Frame) -> String {
    let mut text = match (&frame.symbol, frame.offset) {
        (Some(symbol), Some(offset)) => format!("{symbol}+{offset:#x}"),
        _ => frame.address.to_string(),
    };
    if let Some(module) = &frame.module {
        text += &format!(" [{module}]");
    }
    text
}

/// Reads the words of a stack from `start` up to `end`; none if they cannot be read.
pub fn words(program: &Program, start: VirtAddr, end: VirtAddr) -> Vec<u64> {
    let size = end.0.saturating_sub(start.0).min(MAX_FRAME) & !7;
    let mut bytes = vec![0; size as usize];
    if program.read("a stack", start, &mut bytes).is_err() {
        return Vec::new();
    }
    let endian = program.kernel().source().endian();
    (0..bytes.len() / 8)
        .filter_map(|index| endian.u64(&bytes, 8 * index))
        .collect()
}
