//! Parts of uploads: what a server says of them, and how large they are.

use crate::answer::Answer;
use crate::location::Location;
use crate::xml::Element;

/// Maximum number of parts (Amazon S3 user guide, "Amazon S3 multipart upload limits").
pub const MAX_PARTS: u32 = 10_000;
/// Minimum size of all parts but the last one, in bytes.
pub const MIN_PART: u64 = 5 << 20;
/// Maximum size of a part in bytes: Azure's limit for a block. S3's is 5 GiB.
const MAX_PART: u64 = 4000 << 20;
/// Size of the first parts in bytes.
const FIRST_PART: u64 = 16 << 20;
/// Number of parts after which the size doubles.
const DOUBLED_AFTER: u32 = 1000;

/// Attempts beyond those of other requests: a server may restart meanwhile.
pub const MORE_ATTEMPTS: u32 = 4;

/// Status: there is no such object.
pub const NOT_FOUND: u16 = 404;
/// Status: there is such an object, which the request says is not to be overwritten.
pub const EXISTS: u16 = 412;
/// An upload that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The object that it will be.
    pub location: Location,
    /// Its mark.
    pub id: String,
    /// When it began, as the server says; empty for one that this process began.
    pub begun: String,
}

/// A part that the server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 1 on.
    pub number: u32,
    /// Its mark.
    pub etag: String,
    /// Its size in bytes.
    pub size: u64,
}

/// Size of a part in bytes. It doubles every [`DOUBLED_AFTER`] parts: small dumps are uploaded in
/// small pieces, of which few bytes are lost with the process, and 10,000 parts have 12.6 TB.
pub fn part_size(number: u32) -> u64 {
    let doubled = number.saturating_sub(1) / DOUBLED_AFTER;
    FIRST_PART
        .checked_shl(doubled)
        .unwrap_or(MAX_PART)
        .min(MAX_PART)
}

/// The first of `parts` that follow each other from number 1 on, as far as all but the last are
/// large enough. What comes behind a missing part has no place.
pub fn contiguous(parts: &[Part]) -> &[Part] {
    let mut count = 0;
    for (part, number) in parts.iter().zip(1..) {
        if part.number != number {
            break;
        }
        count += 1;
        if part.size < MIN_PART {
            break;
        }
    }
    &parts[..count]
}

/// The root of an answer, which has one of these names; the reason why there is none.
pub fn root_of(answer: &Answer, names: &[&str]) -> Result<Element, String> {
    let root = Element::parse(&answer.body).ok_or("the answer is no XML")?;
    match root.name() {
        found if names.contains(&found) => Ok(root),
        "Error" => Err(format!("{}: {}", root.text("Code"), root.text("Message"))),
        found => Err(format!(
            "the answer is a {found}, expected a {}",
            names.join(" or a ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_parts_have_more_than_ten_terabytes() {
        let sizes: Vec<u64> = (1..=MAX_PARTS).map(part_size).collect();
        assert_eq!(
            (sizes[0], sizes[999], sizes[1000]),
            (16 << 20, 16 << 20, 32 << 20)
        );
        assert!(
            sizes
                .iter()
                .all(|size| (MIN_PART..=MAX_PART).contains(size))
        );
        assert!(sizes.iter().sum::<u64>() > 12_600_000_000_000);
    }

    #[test]
    fn parts_behind_a_gap_have_no_place() {
        let part = |number, size| Part {
            number,
            etag: String::new(),
            size,
        };
        let parts = |numbers: &[u32]| -> Vec<Part> {
            numbers
                .iter()
                .map(|number| part(*number, MIN_PART))
                .collect()
        };
        assert_eq!(contiguous(&parts(&[1, 2, 4])).len(), 2);
        assert_eq!(contiguous(&parts(&[2, 3])).len(), 0);
        assert_eq!(contiguous(&[]).len(), 0);
        let last_is_small = [part(1, MIN_PART), part(2, 10), part(3, MIN_PART)];
        assert_eq!(contiguous(&last_is_small).len(), 2);
    }
}
