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
pub use judge::{LEAST_BYTES, is_advisable, is_possible};
pub use serve::{requested, serve};

/// The environment variable with the program that is the reaper, for the preload library:
/// its path, absolute.
pub const PROGRAM_VARIABLE: &str = "BIGIRON_MEM_PROGRAM";

/// The most things that one reaper holds.
pub const MOST_HELD: usize = 64;

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A System V segment, by its id: attached.
    SystemV(i32),
    /// A file or shared memory, by a descriptor of the caller: inherited.
    Descriptor(RawFd),
}

/// What stands before the [`Word`]s among the arguments.
const COMMAND: [&CStr; 2] = [c"mem", c"reap"];

/// Room for an argument and the NUL behind it.
const WORD: usize = 16;

/// `s` for the socket, `v` for a segment, `d` for a descriptor, and a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Word([u8; WORD]);

impl Word {
    fn new(kind: u8, number: i32) -> Self {
        let mut digits = [0_u8; WORD];
        let (mut left, mut count) = (number.unsigned_abs(), 0);
        loop {
            if let Some(digit) = digits.get_mut(count) {
                *digit = b'0' + (left % 10) as u8;
            }
            count += 1;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        let mut word = [0; WORD];
        let text = word.iter_mut().zip(
            std::iter::once(kind).chain(
                digits
                    .get(..count)
                    .unwrap_or_default()
                    .iter()
                    .rev()
                    .copied(),
            ),
        );
        text.for_each(|(place, byte)| *place = byte);
        Self(word)
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

impl From<Held> for Word {
    fn from(held: Held) -> Self {
        match held {
            Held::SystemV(id) => Self::new(b'v', id),
            Held::Descriptor(descriptor) => Self::new(b'd', descriptor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_numbers() {
        assert_eq!(Word::from(Held::SystemV(0)).as_c_str(), c"v0");
        assert_eq!(
            Word::from(Held::SystemV(i32::MAX)).as_c_str(),
            c"v2147483647"
        );
        assert_eq!(Word::from(Held::Descriptor(1230)).as_c_str(), c"d1230");
    }
}
