//! A process that takes the last reference to memory, so that it and not the
//! caller pays for giving it back.
//!
//! The kernel frees the pages of a segment or a file with one processor, within the call
//! that drops the last reference. Somebody who holds one more reference when the caller's
//! call is made, and drops it then, takes that work over. Between those two moments
//! the segment is as it is between two calls of the plain kind; when
//! [`Finishing::wait_until_gone`] returns it is gone for all who look.
//!
//! The reaper is a program of its own with a small address space, and no child of
//! anybody who would notice. If it dies at any moment, the kernel drops what it holds.

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

/// The environment variable with the program that is the reaper, for the preload library:
/// its path, absolute.
pub const PROGRAM_VARIABLE: &str = "BIGIRON_MEM_PROGRAM";

/// The most things that one reaper holds.
pub const MAX_HELD: usize = 64;

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A System V segment, by its id: attached.
    SystemV(i32),
    /// A file or shared memory, by a descriptor of the caller: inherited.
    Descriptor(RawFd),
}

/// What stands before the [`ArgumentText`]s among the arguments.
const COMMAND: [&CStr; 2] = [c"mem", c"reap"];

/// `s` for the socket, `v` for a segment, `d` for a descriptor, and a number.
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
