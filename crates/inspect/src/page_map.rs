//! Memory by what it is used for, along the physical addresses.

use std::collections::HashMap;

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_helpers::{Stop, WorkCursor, processor_count, run};
use bigiron_kernel::page::{KindBits, PageClass, PageKind};
use bigiron_kernel::struct_pages::StructPages;
use bigiron_kernel::{CHUNK_FRAMES, IoMethod, Kernel};
use serde::Serialize;

use crate::error::InspectError;
use crate::file_use::FileCounts;
use crate::page_class::{self, CLASSES, UNKNOWN};
use crate::page_runs::PageClasses;

/// Bins of a map, whatever the machine's size.
pub const MOST_BINS: usize = 4096;
/// Chunks of RAM that are gone through: 128 TiB.
const MOST_CHUNKS: usize = 1 << 20;
/// Helpers: each has bins of its own.
const MOST_HELPERS: usize = 16;

/// Where which memory is.
#[derive(Clone, Debug)]
pub struct PageMap {
    /// Bytes of a page.
    pub page_size: u64,
    /// Page frames that a bin stands for, RAM or not: a power of two.
    pub bin_frames: u64,
    /// Bins that have RAM, by address. What is between them is no RAM.
    pub bins: Vec<Bin>,
    /// All of them together; its address means nothing.
    pub total: Bin,
    /// Whether [`Bin::stored`] is known: the dump is of a compressed format.
    pub has_stored: bool,
    /// Pages of the page cache, by file.
    pub files: FileCounts,
    /// What is not known.
    pub warnings: Vec<String>,
}

/// A piece of physical memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// Where it begins.
    pub address: u64,
    /// Page frames of RAM in it.
    pub ram: u64,
    /// Of them those that the dump has data of.
    pub present: u64,
    /// Page frames of RAM by class, as [`page_class::ALL`] has them.
    pub counts: [u64; CLASSES],
    /// Bytes that hold the data in the dump.
    pub stored: u64,
}

impl Bin {
    fn add(&mut self, other: &Self) {
        self.ram += other.ram;
        self.present += other.present;
        self.stored = self.stored.saturating_add(other.stored);
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
    }
}

/// Where bins are: the number of each in its order, and how wide they are.
struct Bins {
    /// log2 of their page frames.
    shift: u32,
    /// Frame numbers, shifted, of the bins with RAM in order.
    keys: Vec<u64>,
}

impl Bins {
    /// The narrowest bins for these chunks of RAM.
    fn new(chunks: &[PageFrame]) -> Self {
        let chunk_shift = CHUNK_FRAMES.trailing_zeros();
        let mut shift = 0;
        loop {
            let in_chunk = 1_u64 << chunk_shift.saturating_sub(shift);
            let mut keys: Vec<u64> = chunks.iter().map(|first| first.0 >> shift).collect();
            keys.dedup();
            if (keys.len() as u64).saturating_mul(in_chunk) <= MOST_BINS as u64 || shift == 63 {
                let each = keys
                    .iter()
                    .flat_map(|key| *key..key.saturating_add(in_chunk));
                return Self {
                    shift,
                    keys: each.take(MOST_BINS).collect(),
                };
            }
            shift += 1;
        }
    }

    /// The bin of a chunk's first page frame.
    fn first_of(&self, chunk: PageFrame) -> usize {
        self.keys
            .partition_point(|key| *key < chunk.0 >> self.shift)
    }
}

/// What one helper found.
struct Part {
    bins: Vec<Bin>,
    files: FileCounts,
    has_stored: bool,
}

impl PageMap {
    /// Looks at all struct pages of `kernel`. `bits` is what types tell of them:
    /// see [`page_class::kind_bits`].
    pub fn of(kernel: &Kernel, bits: KindBits, io: IoMethod) -> Result<Self, InspectError> {
        let source = kernel.source();
        let mut warnings = Vec::new();
        let mut chunks: Vec<PageFrame> = source.chunks().take(MOST_CHUNKS + 1).collect();
        if chunks.len() > MOST_CHUNKS {
            chunks.truncate(MOST_CHUNKS);
            warnings.push("only the first 128 TiB of memory are looked at".into());
        }
        let known = match PageClasses::of(kernel, bits) {
            Ok(known) => Some(known),
            Err(error) => {
                warnings.push(format!("no page's use is known: {error}"));
                None
            }
        };
        if known.is_some() {
            for (bit, what) in [
                (bits.reserved.is_none(), "reserved memory"),
                (bits.page_table.is_none(), "page tables"),
            ] {
                if bit {
                    warnings.push(format!("{what} cannot be told from other kernel memory"));
                }
            }
        }
        let bins = Bins::new(&chunks);
        let cursor = WorkCursor::new(chunks.len() as u64);
        let stop = Stop::new();
        let helpers = processor_count().clamp(1, MOST_HELPERS);
        let parts = run(helpers, &stop, |_| -> Result<Part, InspectError> {
            let mut part = Part {
                bins: vec![Bin::default(); bins.keys.len()],
                files: FileCounts::default(),
                has_stored: false,
            };
            let mut pages = known.as_ref().map(|known| known.pages(kernel));
            let mut reader = source.reader(io);
            let mut scratch = Scratch::default();
            while let Some(index) = cursor.take(&stop) {
                let first = chunks[index as usize];
                scratch.chunk(kernel, first, &bins, &mut part)?;
                if let Some(pages) = &mut pages {
                    scratch.classes(reader.as_mut(), pages, first, &bins, &mut part)?;
                }
            }
            Ok(part)
        })?;
        let page_shift = source.page_shift();
        let mut found = Self {
            page_size: 1 << page_shift,
            bin_frames: 1_u64.checked_shl(bins.shift).unwrap_or(u64::MAX),
            bins: vec![Bin::default(); bins.keys.len()],
            total: Bin::default(),
            has_stored: false,
            files: FileCounts::default(),
            warnings,
        };
        for part in parts {
            for (sum, bin) in found.bins.iter_mut().zip(&part.bins) {
                sum.add(bin);
            }
            found.has_stored |= part.has_stored;
            found.files.add(part.files);
        }
        for (bin, key) in found.bins.iter_mut().zip(&bins.keys) {
            bin.address = key << bins.shift << page_shift;
            let told = bin.counts.iter().sum();
            bin.counts[UNKNOWN] = bin.ram.saturating_sub(told);
            found.total.add(bin);
        }
        found.bins.retain(|bin| bin.ram > 0);
        Ok(found)
    }

    /// Page frames of all classes, with the classes' names.
    pub fn classes(&self) -> HashMap<&'static str, u64> {
        let named = page_class::ALL.iter().map(|class| class.name);
        named.zip(self.total.counts).collect()
    }
}

/// What a helper needs for each chunk.
struct Scratch {
    ram: Bitmap,
    present: Bitmap,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            ram: Bitmap::new(CHUNK_FRAMES as usize),
            present: Bitmap::new(CHUNK_FRAMES as usize),
        }
    }
}

impl Scratch {
    /// Counts what the dump says of a chunk.
    fn chunk(
        &mut self,
        kernel: &Kernel,
        first: PageFrame,
        bins: &Bins,
        part: &mut Part,
    ) -> Result<(), InspectError> {
        let source = kernel.source();
        source.ram(first, &mut self.ram)?;
        source.present(first, &mut self.present)?;
        self.present.and(&self.ram);
        let base = bins.first_of(first);
        let step = 1_u64
            .checked_shl(bins.shift)
            .unwrap_or(u64::MAX)
            .min(CHUNK_FRAMES) as usize;
        for (index, start) in (0..CHUNK_FRAMES as usize).step_by(step).enumerate() {
            let Some(bin) = part.bins.get_mut(base + index) else {
                break;
            };
            let count = |bits: &Bitmap| bits.count_before(start + step) - bits.count_before(start);
            bin.ram += count(&self.ram);
            bin.present += count(&self.present);
        }
        let (shift, table) = (bins.shift, &mut part.bins);
        part.has_stored |= source.stored(first, &mut |frame, bytes| {
            let Some(inside) = frame.0.checked_sub(first.0) else {
                return;
            };
            if let Some(bin) = table.get_mut(base + (inside >> shift) as usize) {
                bin.stored = bin.stored.saturating_add(bytes);
            }
        })?;
        Ok(())
    }

    /// Counts what struct pages say of a chunk.
    fn classes(
        &self,
        reader: &mut dyn bigiron_kernel::PageReader,
        pages: &mut StructPages,
        first: PageFrame,
        bins: &Bins,
        part: &mut Part,
    ) -> Result<(), InspectError> {
        let base = bins.first_of(first);
        let kinds = pages.kinds().clone();
        let (table, files) = (&mut part.bins, &mut part.files);
        pages.chunk(reader, first, &mut |frame, frames, kind, page| {
            let class = page_class::index_of(kind);
            let start = frame.0 - first.0;
            let mut all = 0;
            let (mut at, end) = (start, (start + frames).min(CHUNK_FRAMES));
            while at < end {
                let bin_end = ((at >> bins.shift) + 1) << bins.shift;
                let stop = bin_end.min(end);
                let count = match stop - at {
                    1 => u64::from(self.ram.get(at as usize)),
                    _ => self.ram.count_before(stop as usize) - self.ram.count_before(at as usize),
                };
                if let Some(bin) = table.get_mut(base + (at >> bins.shift) as usize) {
                    bin.counts[class] += count;
                }
                all += count;
                at = stop;
            }
            let in_cache = matches!(
                kind,
                PageKind::Class(PageClass::Cache | PageClass::CachePrivate)
            );
            if in_cache && all > 0 {
                files.see(kinds.mapping(page), all);
            }
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(numbers: impl IntoIterator<Item = u64>) -> Vec<PageFrame> {
        let first = |number| PageFrame(number * CHUNK_FRAMES);
        numbers.into_iter().map(first).collect()
    }

    #[test]
    fn there_are_never_more_bins_than_a_map_may_have() {
        for (chunks, shift) in [
            (chunks(0..1), 3),
            (chunks(0..2), 4),
            (chunks(0..4096), 15),
            (chunks(0..100_000), 20),
            // Far apart from each other: a bin has one, and none is given up.
            (chunks((0..4096).map(|number| number << 20)), 15),
            (chunks((0..5000).map(|number| number << 20)), 36),
        ] {
            let bins = Bins::new(&chunks);
            assert_eq!(bins.shift, shift, "{} chunks", chunks.len());
            assert!(bins.keys.len() <= MOST_BINS);
            for chunk in chunks {
                let bin = bins.first_of(chunk);
                assert_eq!(bins.keys[bin], chunk.0 >> bins.shift);
            }
        }
    }
}
