//! A process that takes over the last reference to memory, and with it the time that freeing
//! the memory takes.
//!
//! The kernel frees the pages of a segment or a file on one processor, within the call that
//! drops the last reference. A process that holds another reference during the caller's call,
//! and drops it afterwards, takes over that work. Between these two moments the segment is in
//! the same state as between two plain calls; when [`Finishing::wait_until_gone`] returns, it
//! no longer exists.
//!
//! The reaper is a separate program with a small address space, and is not a child of any
//! process that could notice it. If it dies, the kernel drops its references.

mod client;
mod judge;
mod launch;
mod serve;
mod socket;

use std::ffi::CStr;
use std::os::fd::RawFd;

pub use client::{Finishing, Reaper};
pub use judge::{MIN_BYTES, is_advisable, is_possible};
pub use serve::{requested, serve};

use crate::c_string_buf::CStringBuf;

/// Environment variable with the absolute path of the reaper's program, for the preload
/// library.
pub const PROGRAM_VARIABLE: &str = "BIGIRON_MEM_PROGRAM";

/// Maximum number of objects that one reaper holds.
pub const MAX_HELD: usize = 64;

/// An object to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A System V segment, by its id; the reaper attaches it.
    SystemV(i32),
    /// A file or shared memory, by a descriptor of the caller; the reaper inherits it.
    Descriptor(RawFd),
}

/// Arguments before the [`ArgumentText`]s.
const COMMAND: [&CStr; 2] = [c"mem", c"reap"];

/// An argument: `s` for the socket, `v` for a segment, or `d` for a descriptor, followed by a
/// number.
type ArgumentText = CStringBuf<16>;

impl Held {
    fn word(self) -> Option<ArgumentText> {
        match self {
            Self::SystemV(id) => CStringBuf::format(format_args!("v{id}")),
            Self::Descriptor(descriptor) => CStringBuf::format(format_args!("d{descriptor}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_numbers() {
        let is = |held: Held, text| assert_eq!(held.word().unwrap().as_c_str(), text);
        is(Held::SystemV(0), c"v0");
        is(Held::SystemV(i32::MAX), c"v2147483647");
        is(Held::Descriptor(1230), c"d1230");
    }
}
