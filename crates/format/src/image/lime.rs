//! LiME's format: memory ranges, each after a header (LiME's src/disk.c and src/lime.h).

use super::range_header::{HEADER_SIZE, Mark};
use super::{ImageRange, ImageRanges, with_cut_page};
use crate::address::PhysAddr;
use crate::bytes::ReadAt;
use crate::error::FormatError;

const MARK: Mark = Mark {
    name: "LiME",
    magic: 0x4c69_4d45,
    version: 1,
};

/// Returns true if a file with these first bytes is a LiME image.
pub fn is_lime(front: &[u8]) -> bool {
    MARK.is_at(front)
}

/// Reads the headers of a LiME image.
pub fn lime_ranges(file: &(impl ReadAt + ?Sized)) -> Result<ImageRanges, FormatError> {
    let end = file.size();
    let mut image = ImageRanges::default();
    let mut at = 0;
    while at < end {
        let room = end - at;
        if at > 0 && room <= HEADER_SIZE {
            image.cut(end);
            break;
        }
        let (start, size) = MARK.read(file, at, image.ranges.len())?;
        let present = size.min(room.saturating_sub(HEADER_SIZE));
        if present < size {
            image.cut(end);
        }
        let offset = at + HEADER_SIZE;
        if present > 0 {
            image.ranges.push(ImageRange {
                physical: PhysAddr(start),
                size: with_cut_page(present, size),
                offset,
            });
        }
        at = offset + present;
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    fn range(start: u64, last: u64, data: u64) -> Vec<u8> {
        let mut out = b"EMiL\x01\0\0\0".to_vec();
        for value in [start, last, 0] {
            out.extend(value.to_le_bytes());
        }
        out.resize(out.len() + data as usize, 7);
        out
    }

    #[test]
    fn ranges_are_found_after_their_headers() {
        let file = [range(0x1000, 0x1fff, 0x1000), range(0x8000, 0x80ff, 0x100)].concat();
        let image = lime_ranges(&file).unwrap();
        let found = image.ranges.iter();
        let found: Vec<_> = found.map(|r| (r.physical.0, r.size, r.offset)).collect();
        assert_eq!(found, [(0x1000, 0x1000, 32), (0x8000, 0x100, 0x1000 + 64)]);
        assert_eq!(image.damage, None);
    }

    #[test]
    fn a_truncated_image_keeps_what_it_has_and_is_damaged() {
        let file = [range(0x1000, 0x1fff, 0x1000), range(0x8000, 0x8fff, 0x800)].concat();
        let image = lime_ranges(&file).unwrap();
        // The page that is cut is not whole.
        assert_eq!(image.ranges[1].size, 0x1000);
        assert!(image.damage.is_some());
        let image = lime_ranges(&file[..0x1000 + 40].to_vec()).unwrap();
        assert_eq!(image.ranges.len(), 1);
        assert!(image.damage.is_some());
    }

    #[test]
    fn other_bytes_between_ranges_and_impossible_addresses_are_errors() {
        let other = [range(0x1000, 0x1fff, 0x1000), vec![0; 64]].concat();
        let error = lime_ranges(&other).unwrap_err().to_string();
        assert!(error.contains("offset 0x1020"), "{error}");
        assert!(lime_ranges(&range(0x2000, 0x1fff, 0)).is_err());
        assert!(lime_ranges(&range(0, u64::MAX, 64)).is_err());
    }
}
