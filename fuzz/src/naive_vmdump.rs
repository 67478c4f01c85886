//! A simple reader of vmdumps with zstd frames: it looks for chunk headers at every offset, and
//! keeps all pages in memory. Written from docs/formats/vmdump.md; it shares only the codec and
//! the checksum with the project's reader.

use std::collections::HashMap;
use std::ops::Range;

use bigiron_format::codec::{Codec, decompressor};
use bigiron_format::vmdump::codec::checksum;

/// Size of a page.
pub const PAGE: usize = 4096;
/// Bytes of a record's skippable frame around its payload: magic, size, tag, dump number.
const HEAD: usize = 24;

/// A page as a chunk has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The bytes of the file that the chunk takes, from its header to the end of its frame.
    pub extent: Range<u64>,
    /// The page; `None` if it is marked as lost.
    pub bytes: Option<Vec<u8>>,
}

/// What a vmdump contains.
#[derive(Debug, Default)]
pub struct NaiveVmdump {
    /// Dumped pages, by their position in the core; more than one if chunks overlap.
    pub pages: HashMap<u64, Vec<Copy>>,
    /// PT_LOADs: physical address, position and length.
    pub segments: Vec<(u64, u64, u64)>,
    /// The file's header, and the chunks of the core's headers.
    pub headers: Range<u64>,
}

fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    let bytes = bytes.get(at..at + width).unwrap_or_default();
    bytes
        .iter()
        .rev()
        .fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// Returns the payload of a record with a valid checksum, and the length of its frame.
fn record<'a>(file: &'a [u8], at: usize, tag: &[u8; 8], dump: u64) -> Option<(&'a [u8], usize)> {
    let head = file.get(at..at + HEAD)?;
    if number(head, 0, 4) & 0xffff_fff0 != 0x184d_2a50 || &head[8..16] != tag {
        return None;
    }
    let len = 8 + number(head, 4, 4) as usize;
    let frame = file.get(at..at.checked_add(len)?)?;
    let (body, sum) = frame[8..].split_last_chunk::<8>()?;
    let sound = u64::from_le_bytes(*sum) == checksum(body) && number(body, 8, 8) == dump;
    sound.then_some((body.get(16..)?, len))
}

impl NaiveVmdump {
    /// Reads a vmdump; `None` if its header is not sound.
    pub fn read(file: &[u8]) -> Option<Self> {
        let dump = number(file, 16, 8);
        let (header, header_len) = record(file, 0, b"VMDUMP\r\n", dump)?;
        let memory = number(header, 24, 8);
        let mut found = Self {
            headers: 0..header_len as u64,
            ..Self::default()
        };
        let mut core = Vec::new();
        for at in 0..file.len() {
            let Some((chunk, len)) = record(file, at, b"VMDchunk", dump) else {
                continue;
            };
            let (position, size) = (number(chunk, 16, 8), number(chunk, 24, 8));
            let frame = at + len;
            let end = frame + number(chunk, 4, 4) as usize;
            if chunk.is_empty() {
                continue;
            }
            let Some(packed) = file.get(frame..end) else {
                continue;
            };
            if checksum(packed) != number(chunk, 32, 8) || size > 16 << 20 {
                continue;
            }
            let mut bytes = vec![0; size as usize];
            let Ok(mut zstd) = decompressor(Codec::Zstd) else {
                continue;
            };
            if zstd.decompress(packed, &mut bytes).ok() != Some(bytes.len()) {
                continue;
            }
            let extent = at as u64..end as u64;
            match chunk[0] {
                1 if position == core.len() as u64 && position + size <= memory => {
                    core.extend(bytes);
                    found.headers.end = found.headers.end.max(extent.end);
                }
                2 if position >= memory => found.add(chunk, position, &bytes, &extent),
                _ => {}
            }
        }
        found.read_segments(&core);
        Some(found)
    }

    fn add(&mut self, chunk: &[u8], position: u64, bytes: &[u8], extent: &Range<u64>) {
        let pages = bytes.len() / PAGE;
        let bitmap = pages.div_ceil(64) * 8;
        let dumped = chunk.get(40..40 + bitmap).unwrap_or_default();
        let lost = match chunk[1] & 1 {
            1 => chunk.get(40 + bitmap..40 + 2 * bitmap).unwrap_or_default(),
            _ => &[],
        };
        let set = |bits: &[u8], page: usize| {
            bits.get(page / 8)
                .is_some_and(|byte| byte >> (page % 8) & 1 == 1)
        };
        for (page, bytes) in bytes.chunks_exact(PAGE).enumerate() {
            if set(dumped, page) {
                let bytes = (!set(lost, page)).then(|| bytes.to_vec());
                let extent = extent.clone();
                let copies = self
                    .pages
                    .entry(position.wrapping_add((page * PAGE) as u64))
                    .or_default();
                copies.push(Copy { extent, bytes });
            }
        }
    }

    fn read_segments(&mut self, core: &[u8]) {
        let (table, count) = (number(core, 32, 8) as usize, number(core, 56, 2) as usize);
        for index in 0..count.min(1 << 16) {
            let Some(header) = table
                .checked_add(56 * index)
                .and_then(|at| core.get(at..)?.get(..56))
            else {
                return;
            };
            if number(header, 0, 4) == 1 {
                let (position, physical) = (number(header, 8, 8), number(header, 24, 8));
                self.segments
                    .push((physical, position, number(header, 32, 8)));
            }
        }
    }

    /// Returns the copies of a page frame.
    pub fn copies(&self, frame: u64) -> impl Iterator<Item = &Copy> {
        let physical = frame * PAGE as u64;
        let positions = self
            .segments
            .iter()
            .filter_map(move |(first, position, len)| {
                let inside = physical.checked_sub(*first).filter(|inside| inside < len)?;
                Some(position.wrapping_add(inside))
            });
        positions.flat_map(|position| self.pages.get(&position).into_iter().flatten())
    }
}
