//! arm64.

#[cfg(feature = "stacks")]
mod registers;
#[cfg(feature = "stacks")]
pub mod unwind;
