//! Codecs of our own, for pages: LZO1X, and an encoder for zlib streams.
//!
//! They are a crate of their own because they are compiled without overflow checks, which take 5
//! to 25 % more instructions here and none elsewhere. Every load and store checks its bounds, so a
//! sum that wraps is an error or a wrong page that a checksum finds, never a wrong address. Tests
//! and fuzz targets have the checks.

pub mod deflate;
pub mod lzo;
mod matching;
