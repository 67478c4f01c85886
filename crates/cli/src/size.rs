//! Parses and formats sizes.

pub use bigiron_helpers::{format_size as format, group_digits as group, parse_size as parse};

/// Parses a size that may be 0.
#[cfg(feature = "inspect")]
pub fn parse_or_zero(text: &str) -> Result<u64, String> {
    match text.trim() {
        "0" => Ok(0),
        size => parse(size),
    }
}

/// Parses the chunk size of a vmdump.
pub fn chunk(text: &str) -> Result<u32, String> {
    let bytes = parse(text)?;
    let fits = (64 << 10..=4 << 20).contains(&bytes) && bytes.is_power_of_two();
    u32::try_from(bytes)
        .ok()
        .filter(|_| fits)
        .ok_or_else(|| format!("invalid chunk size {text:?}: not a power of two from 64K to 4M"))
}
