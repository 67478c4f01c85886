//! The hypervisor's own table of symbols, which it has for its stack traces (xen/tools/symbols.c,
//! xen/common/symbols.c). Nothing in the notes leads to it, so it is found by its form: behind
//! each other lie the offsets of all symbols, their number, their names made of tokens, a marker
//! for every 256th name, the tokens, and the position of each token.

use bigiron_format::bytes::Endian;

/// Number of tokens.
const TOKENS: usize = 256;
/// Maximum length of a token and of the padding between two arrays.
const MAX_TOKEN: usize = 64;
/// Symbols between two markers.
const MARKED: usize = 256;
/// Maximum number of symbols.
const MAX_SYMBOLS: usize = 1 << 18;
/// Bytes that the 256 names behind the last marker have at most.
const MAX_LAST_NAMES: usize = MARKED * 256;
/// Positions that look like the positions of tokens.
const MAX_CANDIDATES: usize = 8;

/// The table, as positions in the bytes of the image.
struct Table<'i> {
    image: &'i [u8],
    tokens: usize,
    positions: usize,
    names: usize,
    count: usize,
    offsets: usize,
}

/// Returns the offset from the start of the image's address range of the symbol `name`, which may
/// be local to any file; `None` if the image has no such table or symbol.
pub(super) fn find(image: &[u8], name: &str) -> Option<u64> {
    let last = image.len().checked_sub(2 * TOKENS)?;
    let positions = (0..=last).step_by(2).filter(|at| is_positions(image, *at));
    let mut tables = positions
        .take(MAX_CANDIDATES)
        .filter_map(|at| Table::at(image, at));
    tables.next()?.offset_of(name)
}

fn u16_at(image: &[u8], at: usize) -> Option<usize> {
    Endian::Little.u16(image, at).map(usize::from)
}

fn u32_at(image: &[u8], at: usize) -> Option<usize> {
    Endian::Little.u32(image, at).map(|value| value as usize)
}

/// Returns true if the numbers at `at` ascend from 0 in the steps of short tokens.
fn is_positions(image: &[u8], at: usize) -> bool {
    let mut before = 0;
    (0..TOKENS).all(|index| {
        let Some(position) = u16_at(image, at + 2 * index) else {
            return false;
        };
        let step = position.wrapping_sub(before);
        before = position;
        match index {
            0 => position == 0,
            _ => (1..=MAX_TOKEN).contains(&step),
        }
    })
}

impl<'i> Table<'i> {
    fn at(image: &'i [u8], positions: usize) -> Option<Self> {
        let last = u16_at(image, positions + 2 * (TOKENS - 1))?;
        // Each token but the last one is known to end before the next one.
        let is_tokens = |at: &usize| {
            let start = |index: usize| Some(at + u16_at(image, positions + 2 * index)?);
            at.is_multiple_of(4)
                && (1..TOKENS).all(|index| {
                    start(index).is_some_and(|at| image.get(at.wrapping_sub(1)) == Some(&0))
                })
        };
        let near = positions.checked_sub(last + 1)?;
        let tokens = (near.saturating_sub(MAX_TOKEN)..=near)
            .rev()
            .find(is_tokens)?;
        // The markers may be padded to eight bytes.
        [tokens, tokens.checked_sub(4)?]
            .into_iter()
            .find_map(|end| {
                let markers = markers_before(image, end)?;
                Self::with_names(image, positions, tokens, markers, end)
            })
    }

    /// Finds the names, whose markers are at `markers` to `end`.
    fn with_names(
        image: &'i [u8],
        positions: usize,
        tokens: usize,
        markers: usize,
        end: usize,
    ) -> Option<Self> {
        let marked = (end - markers) / 4;
        let last = u32_at(image, end - 4)?;
        let latest = markers.checked_sub(last)? / 4 * 4;
        let earliest = latest.saturating_sub(MAX_LAST_NAMES);
        (earliest..=latest).rev().step_by(4).find_map(|at| {
            let count = u32_at(image, at)?;
            let fits = count > (marked - 1) * MARKED && count <= marked * MARKED;
            let names = [at + 4, at + 8]
                .into_iter()
                .find(|names| fits && ends_at(image, *names, count, markers))?;
            let offsets = [at, at.checked_sub(4)?].into_iter().find_map(|end| {
                let offsets = end.checked_sub(4 * count)?;
                is_ascending(image, offsets, count).then_some(offsets)
            })?;
            Some(Self {
                image,
                tokens,
                positions,
                names,
                count,
                offsets,
            })
        })
    }

    fn offset_of(&self, name: &str) -> Option<u64> {
        let mut at = self.names;
        let mut text = Vec::new();
        for index in 0..self.count {
            let len = usize::from(*self.image.get(at)?);
            let encoded = self.image.get(at + 1..at + 1 + len)?;
            at += 1 + len;
            text.clear();
            for token in encoded {
                let start = u16_at(self.image, self.positions + 2 * usize::from(*token))?;
                let token = self
                    .image
                    .get(self.tokens + start..)?
                    .iter()
                    .take(MAX_TOKEN);
                text.extend(token.take_while(|byte| **byte != 0));
            }
            // The first character is the type. A local name follows the file's.
            let found = text
                .get(1..)
                .and_then(|text| text.strip_suffix(name.as_bytes()));
            if found.is_some_and(|file| file.is_empty() || file.ends_with(b"#")) {
                return u32_at(self.image, self.offsets + 4 * index).map(|offset| offset as u64);
            }
        }
        None
    }
}

/// Returns the start of the markers that end at `end`: ascending numbers, the first of which is 0.
fn markers_before(image: &[u8], end: usize) -> Option<usize> {
    let mut at = end.checked_sub(4)?;
    let mut value = u32_at(image, at)?;
    while value != 0 {
        at = at.checked_sub(4)?;
        let before = u32_at(image, at)?;
        if before >= value || end - at > 4 * MAX_SYMBOLS / MARKED {
            return None;
        }
        value = before;
    }
    Some(at)
}

/// Returns true if `count` names from `at` on end at the markers, which agree with them.
fn ends_at(image: &[u8], names: usize, count: usize, markers: usize) -> bool {
    let mut at = names;
    for index in 0..count {
        let marker = u32_at(image, markers + 4 * (index / MARKED));
        if index % MARKED == 0 && marker != Some(at - names) {
            return false;
        }
        match image.get(at) {
            Some(len) if *len > 0 && at < markers => at += 1 + usize::from(*len),
            _ => return false,
        }
    }
    at <= markers && markers - at < 8
}

fn is_ascending(image: &[u8], at: usize, count: usize) -> bool {
    let mut offsets = (0..count).map(|index| u32_at(image, at + 4 * index));
    let mut before = 0;
    offsets.all(|offset| {
        let fits = offset.is_some_and(|offset| offset >= before);
        before = offset.unwrap_or(0);
        fits
    })
}
