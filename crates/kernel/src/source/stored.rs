//! Stored sizes of pages in a dump.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::kdump::{DESCRIPTOR_SIZE, PageDescriptor};
use bigiron_format::vmdump::{Chunk, ChunkKind};

use super::kdump::KdumpSource;
use super::run_length::RunLength;
use super::vmdump::VmdumpSource;
use super::{MemorySource, SECTION_FRAMES, SeeStored, StoredSizes};
use crate::error::SourceError;

/// Maximum number of page descriptors read at once.
const DESCRIPTORS: usize = 4096;

impl StoredSizes for KdumpSource {
    fn stored(&self, first: PageFrame, see: &mut SeeStored<'_>) -> Result<(), SourceError> {
        let mut bits = Bitmap::new(SECTION_FRAMES as usize);
        let rank = self.dumped_in_section(first, &mut bits)?;
        let mut bytes = Vec::new();
        let mut run_length = RunLength::default();
        let mut from = 0;
        while let Some((start, len)) = bits.next_run(from, bits.len(), DESCRIPTORS) {
            from = start + 1;
            let frame = PageFrame(first.0 + start as u64);
            let Some(part) = self.part_of(frame) else {
                continue;
            };
            let len = len.min((part.frames.end.0 - frame.0) as usize);
            let index = (rank + bits.count_before(start)).saturating_sub(part.first_index);
            let offset = part.headers.layout.descriptor(index);
            let whole = part.bytes.size().saturating_sub(offset) / DESCRIPTOR_SIZE as u64;
            let len = len.min(whole as usize);
            if len == 0 {
                continue;
            }
            let unknown = &part.lost_bits.unknown;
            if unknown.contains(&index) {
                continue;
            }
            let known = unknown.start.checked_sub(index);
            let len = len.min(
                known
                    .map_or(len, |known| usize::try_from(known).unwrap_or(len))
                    .max(1),
            );
            let read = run_length.read(len, |len| {
                bytes.resize(len * DESCRIPTOR_SIZE, 0);
                part.bytes
                    .read_exact_at("page descriptors", offset, &mut bytes)
            });
            let Ok((len, ())) = read else {
                // Only this page's size is unknown.
                continue;
            };
            let page_size = u64::from(part.headers.block_size);
            for (page, descriptor) in bytes.chunks_exact(DESCRIPTOR_SIZE).enumerate() {
                let found = PageDescriptor::decode(descriptor, part.headers.endian);
                let found = found.unwrap_or_default();
                if !found.is_lost() {
                    // A page is never larger than the page size; other sizes are damage.
                    let size = u64::from(found.size).min(page_size);
                    see(PageFrame(frame.0 + page as u64), size);
                }
            }
            from = start + len;
        }
        Ok(())
    }
}

impl StoredSizes for VmdumpSource {
    fn stored(&self, first: PageFrame, see: &mut SeeStored<'_>) -> Result<(), SourceError> {
        let shift = self.page_shift();
        for (start, offset, pages) in self.elf().file_ranges(first) {
            let end = offset + (pages << shift);
            let mut position = offset;
            while position < end {
                let Some(found) = self.files().chunk_at(position)? else {
                    position = self.files().next_position(position)?;
                    continue;
                };
                let chunk = found.chunk();
                let stop = chunk.end().min(end).max(position + 1);
                if chunk.kind == ChunkKind::Pages {
                    let frame = first.0 + start as u64 + ((position - offset) >> shift);
                    share(chunk, position, stop, shift, &mut |page, bytes| {
                        see(PageFrame(frame + page), bytes);
                    });
                }
                position = stop;
            }
        }
        Ok(())
    }
}

/// Passes the dumped pages between two positions of a chunk, counted from the first, to `see`:
/// each has an equal share of the chunk's compressed bytes.
fn share(chunk: &Chunk, from: u64, to: u64, shift: u32, see: &mut dyn FnMut(u64, u64)) {
    let all = chunk.dumped.iter().map(|byte| byte.count_ones());
    let all = u64::from(all.sum::<u32>()).max(1);
    let packed = u64::from(chunk.packed);
    let first = (from - chunk.position) >> shift;
    let behind = (to - chunk.position).div_ceil(1 << shift);
    let mut rank = 0;
    for page in 0..behind {
        if !Chunk::bit(&chunk.dumped, page) {
            continue;
        }
        // Distribute the rounding remainder.
        let bytes = packed * (rank + 1) / all - packed * rank / all;
        rank += 1;
        if page >= first {
            see(page - first, bytes);
        }
    }
}
