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
/// Maximum length of a name; the hypervisor's own have up to 127 bytes (KSYM_NAME_LEN).
const MAX_NAME: usize = 128;
/// Types of functions, as nm(1) has them.
#[cfg(feature = "stacks")]
const FUNCTIONS: [u8; 4] = [b't', b'T', b'w', b'W'];
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

/// The symbols of the hypervisor, in the order of their addresses.
pub(super) struct Symbols {
    entries: Vec<Entry>,
    /// All names, one behind the other.
    names: String,
}

struct Entry {
    /// Offset from the start of the image's address range.
    offset: u64,
    /// Type, as nm(1) has it.
    #[cfg_attr(
        not(feature = "stacks"),
        expect(dead_code, reason = "only stacks need it")
    )]
    kind: u8,
    /// Where its name ends.
    end: usize,
}

/// The symbol that an address is in.
#[cfg(feature = "stacks")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found<'s> {
    /// Its name; that of a local one follows the file's: `common/kexec.c#kexec_crash`.
    pub(super) name: &'s str,
    /// Bytes from its start.
    pub(super) offset: u64,
    /// Bytes to the next symbol; `None` for the last one.
    pub(super) size: Option<u64>,
    /// True for a function.
    pub(super) is_function: bool,
}

impl Symbols {
    /// Reads the table in the bytes of the image; `None` if there is none.
    pub(super) fn read(image: &[u8]) -> Option<Self> {
        let last = image.len().checked_sub(2 * TOKENS)?;
        let positions = (0..=last).step_by(2).filter(|at| is_positions(image, *at));
        let mut tables = positions
            .take(MAX_CANDIDATES)
            .filter_map(|at| Table::at(image, at));
        tables.next()?.symbols()
    }

    /// Returns the offset of the symbol `name`, which may be local to any file.
    pub(super) fn find(&self, name: &str) -> Option<u64> {
        let mut indices = 0..self.entries.len();
        let found = indices.find(|index| {
            let rest = self.name(*index).strip_suffix(name);
            rest.is_some_and(|file| file.is_empty() || file.ends_with('#'))
        });
        Some(self.entries.get(found?)?.offset)
    }

    /// Returns the symbol that an offset is in.
    #[cfg(feature = "stacks")]
    pub(super) fn at(&self, offset: u64) -> Option<Found<'_>> {
        let behind = self.entries.partition_point(|entry| entry.offset <= offset);
        let index = behind.checked_sub(1)?;
        let entry = self.entries.get(index)?;
        let next = self.entries.get(behind).map(|next| next.offset);
        Some(Found {
            name: self.name(index),
            offset: offset - entry.offset,
            size: next.map(|next| next - entry.offset),
            is_function: FUNCTIONS.contains(&entry.kind),
        })
    }

    fn name(&self, index: usize) -> &str {
        let end_of = |index: usize| self.entries.get(index).map(|entry| entry.end);
        let start = index.checked_sub(1).and_then(end_of).unwrap_or(0);
        let range = end_of(index).map(|end| start..end);
        range
            .and_then(|range| self.names.get(range))
            .unwrap_or_default()
    }
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

    fn symbols(&self) -> Option<Symbols> {
        let mut found = Symbols {
            entries: Vec::with_capacity(self.count),
            names: String::new(),
        };
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
                if text.len() > MAX_NAME {
                    text.truncate(MAX_NAME);
                    break;
                }
            }
            // The first character is the type.
            let (kind, name) = text.split_first()?;
            found.names += &String::from_utf8_lossy(name);
            found.entries.push(Entry {
                offset: u32_at(self.image, self.offsets + 4 * index)? as u64,
                kind: *kind,
                end: found.names.len(),
            });
        }
        Some(found)
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
