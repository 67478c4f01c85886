//! Sizes as users write and read them.

pub use bigiron_helpers::{format_size as format, group_digits as group, parse_size as parse};

/// The same, or 0 for nothing.
#[cfg(feature = "inspect")]
pub fn parse_or_zero(text: &str) -> Result<u64, String> {
    match text.trim() {
        "0" => Ok(0),
        size => parse(size),
    }
}

/// Takes the size of a vmdump's chunks.
pub fn chunk(text: &str) -> Result<u32, String> {
    let bytes = parse(text)?;
    let fits = (64 << 10..=4 << 20).contains(&bytes) && bytes.is_power_of_two();
    u32::try_from(bytes)
        .ok()
        .filter(|_| fits)
        .ok_or_else(|| format!("{text:?} is no power of two from 64K to 4M"))
}
