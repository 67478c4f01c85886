//! Reconstructs the index from the records of a vmdump without a directory.

use super::chunk::{Chunk, ChunkHeader};
use super::extent::{ChunkGroup, Extent, GROUP_CHUNKS, Gap};
use crate::error::FormatError;

/// Maximum number of gaps stored; a truncated file has few.
const MAX_GAPS: usize = 64;

/// The result of a scan.
#[derive(Default)]
pub(super) struct Scan {
    pub(super) groups: Vec<ChunkGroup>,
    pub(super) gaps: Vec<Gap>,
    pub(super) damage: Option<FormatError>,
    /// The core is known up to here.
    pub(super) covered: u64,
    /// The unfinished range of chunks, their number, and what was known before it.
    open: Option<(ChunkGroup, u32, usize, u64)>,
}

impl Scan {
    pub(super) fn gap(&mut self, start: u64, end: u64) {
        if start < end && self.gaps.len() < MAX_GAPS {
            self.gaps.push(Gap { start, end });
        }
    }

    pub(super) fn chunk(&mut self, header: &ChunkHeader) {
        let chunk = &header.chunk;
        if chunk.position < self.covered {
            return;
        }
        let (gaps, covered) = (self.gaps.len(), self.covered);
        self.gap(covered, chunk.position);
        self.covered = chunk.end();
        let end = chunk.offset + ChunkHeader::size(chunk) as u64 + u64::from(chunk.packed);
        let (group, count, ..) = self.open.get_or_insert_with(|| {
            let group = ChunkGroup {
                position: chunk.position,
                chunks: Extent {
                    offset: chunk.offset,
                    size: 0,
                },
                record: None,
            };
            (group, 0, gaps, covered)
        });
        group.chunks.size = end - group.chunks.offset;
        *count += 1;
        // An index record normally comes a little before this.
        if *count >= 2 * GROUP_CHUNKS {
            self.close(None);
        }
    }

    /// An index record also lists chunks whose headers are damaged.
    pub(super) fn index(&mut self, extent: Extent, chunks: &[Chunk]) {
        let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else {
            return;
        };
        let (gaps, covered) = match &self.open {
            Some((_, _, gaps, covered)) => (*gaps, *covered),
            None => (self.gaps.len(), self.covered),
        };
        if first.position < covered || last.end() < self.covered {
            return;
        }
        self.gaps.truncate(gaps);
        self.covered = covered;
        for chunk in chunks {
            let known = self.covered;
            self.gap(known, chunk.position);
            self.covered = chunk.end();
        }
        let group = ChunkGroup {
            position: first.position,
            chunks: Extent {
                offset: first.offset,
                size: extent.offset.saturating_sub(first.offset),
            },
            record: None,
        };
        self.open = Some((group, 0, gaps, covered));
        self.close(Some(extent));
    }

    pub(super) fn close(&mut self, record: Option<Extent>) {
        if let Some((mut group, ..)) = self.open.take() {
            group.record = record;
            self.groups.push(group);
        }
    }
}
