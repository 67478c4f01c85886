//! The memory map of a raw image: its ranges of physical addresses, as text.

use super::{ADDRESS_LIMIT, ImageRange, ImageRanges, MAX_RANGES, with_cut_page};
use crate::address::PhysAddr;
use crate::error::FormatError;

/// Maximum size of the text.
pub const MAX_MAP_SIZE: usize = 16 << 20;
/// The name of RAM in /proc/iomem.
const RAM: &str = "System RAM";

/// Ranges of physical addresses, in the order in which an image has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMap {
    /// First address and size of each range.
    ranges: Vec<(u64, u64)>,
}

impl MemoryMap {
    /// Parses a memory map, as /proc/iomem writes it: a line for each range, with its first and
    /// last address in hexadecimal, `00100000-7fffffff : System RAM`. Ranges with another name
    /// are not in the image; those without a name are.
    ///
    /// # Errors
    /// A line is not like that, no range is left, or ranges overlap.
    pub fn parse(text: &[u8]) -> Result<Self, FormatError> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let mut offset = 0;
        for line in text.split(|byte| *byte == b'\n') {
            let at = offset;
            offset += line.len() as u64 + 1;
            let wrong = |expected: &str| {
                let found = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
                FormatError::unexpected("a line of the memory map", at, expected, found)
            };
            let Ok(text) = std::str::from_utf8(line) else {
                return Err(wrong("text"));
            };
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let (addresses, name) = match text.split_once(" : ") {
                Some((addresses, name)) => (addresses, Some(name.trim())),
                None => (text, None),
            };
            if name.is_some_and(|name| name != RAM) {
                continue;
            }
            let (start, last) =
                parse_range(addresses).ok_or_else(|| wrong("FIRST-LAST, hexadecimal addresses"))?;
            if (start, last) == (0, 0) {
                return Err(wrong("addresses: root alone sees those of /proc/iomem"));
            }
            if ranges.len() == MAX_RANGES {
                return Err(wrong(&format!("at most {MAX_RANGES} ranges")));
            }
            ranges.push((start, last - start + 1));
        }
        let mut sorted = ranges.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|p| p[0].0 + p[0].1 > p[1].0) {
            return Err(FormatError::unexpected(
                "the memory map",
                0,
                "ranges that do not overlap",
                format!("{:#x} in two of them", pair[1].0),
            ));
        }
        if ranges.is_empty() {
            let expected = format!("ranges without a name or named {RAM}");
            return Err(FormatError::unexpected(
                "the memory map",
                0,
                expected,
                "none",
            ));
        }
        Ok(Self { ranges })
    }

    /// The ranges of an image of `size` bytes.
    ///
    /// # Errors
    /// The image is larger than the map's ranges together.
    pub fn place(&self, size: u64) -> Result<ImageRanges, FormatError> {
        let mut image = ImageRanges::default();
        let mut offset = 0;
        for (start, len) in &self.ranges {
            let present = (*len).min(size - offset);
            if present < *len && image.damage.is_none() {
                image.cut(size);
            }
            if present > 0 {
                image.ranges.push(ImageRange {
                    physical: PhysAddr(*start),
                    size: with_cut_page(present, *len),
                    offset,
                });
            }
            offset += present;
        }
        if offset < size {
            return Err(FormatError::unexpected(
                "the end of the image",
                offset,
                "the end of the last range of the memory map",
                format!("{} more bytes", size - offset),
            ));
        }
        Ok(image)
    }
}

/// Parses `FIRST-LAST`.
fn parse_range(text: &str) -> Option<(u64, u64)> {
    let (start, last) = text.split_once('-')?;
    let address = |text: &str| {
        let text = text.trim();
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    };
    let (start, last) = (address(start)?, address(last)?);
    (start <= last && last < ADDRESS_LIMIT).then_some((start, last))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    #[test]
    fn the_ram_of_iomem_is_placed_in_the_order_of_its_lines() {
        let text = b"00000000-00000fff : Reserved\n00001000-0009ffff : System RAM\n\
                     00100000-001fffff : System RAM\n  00100000-0017ffff : Kernel code\n";
        let image = MemoryMap::parse(text).unwrap().place(0x19_f000).unwrap();
        let found: Vec<_> = image
            .ranges
            .iter()
            .map(|r| (r.physical.0, r.size, r.offset))
            .collect();
        assert_eq!(
            found,
            [(0x1000, 0x9_f000, 0), (0x10_0000, 0x10_0000, 0x9_f000)]
        );
        assert_eq!(image.damage, None);
    }

    #[test]
    fn ranges_without_names_may_come_in_any_order() {
        let text = b"# two banks\n0x80000000-0x800fffff\n0-fffff\n";
        let image = MemoryMap::parse(text).unwrap().place(0x18_0000).unwrap();
        assert_eq!(image.ranges[0].physical.0, 0x8000_0000);
        assert_eq!(
            (image.ranges[1].size, image.ranges[1].offset),
            (0x9_0000, 0x10_0000)
        );
        assert!(image.damage.is_some(), "half of the second bank is missing");
    }

    #[test]
    fn maps_that_cannot_be_right_are_refused() {
        for text in [
            "",
            "0-fff : Reserved",
            "00000000-00000000 : System RAM",
            "0-1fff\n1000-2fff",
            "1000-fff",
            "0-ffffffffffffffff",
            "memory",
        ] {
            assert!(MemoryMap::parse(text.as_bytes()).is_err(), "{text:?}");
        }
        let map = MemoryMap::parse(b"0-fff").unwrap();
        assert!(map.place(0x1001).is_err(), "the image is larger");
    }
}
