//! LZO1X, implemented from the description of its stream in the kernel's
//! `Documentation/staging/lzo.rst`.
//!
//! A stream is a sequence of instructions, selected by the first byte `b`. `S` is
//! the number of literals (0 to 3) that follow the instruction, `D` and `H` (the
//! following byte) make up the distance, `L` the length. A length whose field is 0
//! continues in the next bytes: 255 for each zero byte, plus the first byte that is
//! not zero.
//!
//! | `b`         | meaning                                                       |
//! |-------------|---------------------------------------------------------------|
//! | `0000_LLLL` | after a match without literals: `L + 3` literals (15 if 0)    |
//! | `0000_DDSS` | after 1 to 3 literals: 2 bytes from `(H << 2) + D + 1`        |
//! | `0000_DDSS` | after a run of 4 or more: 3 bytes from `(H << 2) + D + 2049`  |
//! | `0001_HLLL` | `L + 2` bytes (7 if 0) from `16384 + (H << 14) + D`           |
//! | `001L_LLLL` | `L + 2` bytes (31 if 0) from `D + 1`                          |
//! | `LLLD_DDSS` | `L + 1` bytes (`L` is 2 to 7) from `(H << 3) + D + 1`         |
//!
//! In the fourth and fifth kind two bytes, least significant first, hold
//! `D << 2 | S`; the fourth with distance 16384 ends the stream. A first byte of
//! the stream above 17 means `b - 17` literals.
//!
//! Verified against liblzo2 2.10, both ways, over all non-zero pages of a real dump
//! and over random and structured blocks of 0 to 200,000 bytes; some of its streams
//! are part of the tests.

mod decode;
mod encode;
mod stream;

pub use decode::{Error, decode};
pub use encode::Encoder;

/// Memory of an encoder, in bytes.
pub const ENCODER_BYTES: usize = encode::MEMORY;

#[cfg(test)]
mod tests;
