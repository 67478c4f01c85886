//! Memory by use, along physical addresses.

use std::collections::HashMap;

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_helpers::{Stop, WorkCursor, processor_count, run};
use bigiron_kernel::page::{KindBits, PageClass, PageKind};
use bigiron_kernel::struct_pages::StructPages;
use bigiron_kernel::{IoMethod, Kernel, SECTION_FRAMES};
use serde::Serialize;

use crate::error::InspectError;
use crate::file_use::FileCounts;
use crate::page_class::{self, CLASSES, UNKNOWN};
use crate::page_runs::PageClasses;

/// Maximum number of bins of a map, whatever the machine's size.
pub const MAX_BINS: usize = 4096;
/// Maximum number of sections of RAM: 128 TiB.
const MAX_SECTIONS: usize = 1 << 20;
/// Maximum number of helpers; each has its own bins.
const MAX_HELPERS: usize = 16;

/// A map of memory by use.
#[derive(Clone, Debug)]
pub struct PageMap {
    /// Page size, in bytes.
    pub page_size: u64,
    /// Page frames per bin, RAM or not: a power of two.
    pub bin_frames: u64,
    /// Bins with RAM, by address. Addresses in between are not RAM.
    pub bins: Vec<Bin>,
    /// The sum of all bins; its address is meaningless.
    pub total: Bin,
    /// True if [`Bin::stored`] is known: the dump's format is compressed.
    pub has_stored: bool,
    /// Page cache pages, by file.
    pub files: FileCounts,
    /// Facts that are unknown.
    pub warnings: Vec<String>,
}

/// A range of physical memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// Start address.
    pub address: u64,
    /// Page frames of RAM.
    pub ram: u64,
    /// Page frames whose data the dump has.
    pub present: u64,
    /// Page frames of RAM by class, in the order of [`page_class::ALL`].
    pub counts: [u64; CLASSES],
    /// Size of the data in the dump, in bytes.
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

/// The bins: their order and width.
struct Bins {
    /// log2 of the page frames per bin.
    shift: u32,
    /// Shifted frame numbers of the bins with RAM, in order.
    keys: Vec<u64>,
}

impl Bins {
    /// Chooses the narrowest bins for these sections of RAM.
    fn new(chunks: &[PageFrame]) -> Self {
        let chunk_shift = SECTION_FRAMES.trailing_zeros();
        let mut shift = 0;
        loop {
            let in_chunk = 1_u64 << chunk_shift.saturating_sub(shift);
            let mut keys: Vec<u64> = chunks.iter().map(|first| first.0 >> shift).collect();
            keys.dedup();
            if (keys.len() as u64).saturating_mul(in_chunk) <= MAX_BINS as u64 || shift == 63 {
                let each = keys
                    .iter()
                    .flat_map(|key| *key..key.saturating_add(in_chunk));
                return Self {
                    shift,
                    keys: each.take(MAX_BINS).collect(),
                };
            }
            shift += 1;
        }
    }

    /// Bin of a section's first page frame.
    fn first_of(&self, chunk: PageFrame) -> usize {
        self.keys
            .partition_point(|key| *key < chunk.0 >> self.shift)
    }
}

/// The results of one helper.
struct HelperCounts {
    bins: Vec<Bin>,
    files: FileCounts,
    has_stored: bool,
}

impl PageMap {
    /// Reads all struct pages of `kernel`. `bits` are the facts from types: see
    /// [`page_class::kind_bits`].
    pub fn of(kernel: &Kernel, bits: KindBits, io: IoMethod) -> Result<Self, InspectError> {
        let source = kernel.source();
        let mut warnings = Vec::new();
        let mut chunks: Vec<PageFrame> = source.sections().take(MAX_SECTIONS + 1).collect();
        if chunks.len() > MAX_SECTIONS {
            chunks.truncate(MAX_SECTIONS);
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
        let described_end = known.as_ref().and_then(|known| known.described_end(kernel));
        let stop = Stop::new();
        let helpers = processor_count().clamp(1, MAX_HELPERS);
        let parts = run(helpers, &stop, |_| -> Result<HelperCounts, InspectError> {
            let mut part = HelperCounts {
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
                let is_described = described_end.is_none_or(|end| first < end);
                if let Some(pages) = pages.as_mut().filter(|_| is_described) {
                    scratch.classes(reader.as_mut(), pages, first, &bins, &mut part)?;
                }
            }
            Ok(part)
        })?;
        if described_end.is_some() {
            warnings.push(
                "not the whole memory is looked at: the dump has too few pages to hold the struct \
                 pages of all"
                    .into(),
            );
        }
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

    /// Page frames of all classes, by class name.
    pub fn classes(&self) -> HashMap<&'static str, u64> {
        let named = page_class::ALL.iter().map(|class| class.name);
        named.zip(self.total.counts).collect()
    }
}

/// Working memory of a helper.
struct Scratch {
    ram: Bitmap,
    present: Bitmap,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            ram: Bitmap::new(SECTION_FRAMES as usize),
            present: Bitmap::new(SECTION_FRAMES as usize),
        }
    }
}

impl Scratch {
    /// Counts what the dump stores of a section.
    fn chunk(
        &mut self,
        kernel: &Kernel,
        first: PageFrame,
        bins: &Bins,
        part: &mut HelperCounts,
    ) -> Result<(), InspectError> {
        let source = kernel.source();
        source.ram(first, &mut self.ram)?;
        source.present(first, &mut self.present)?;
        self.present.and(&self.ram);
        let base = bins.first_of(first);
        let step = 1_u64
            .checked_shl(bins.shift)
            .unwrap_or(u64::MAX)
            .min(SECTION_FRAMES) as usize;
        for (index, start) in (0..SECTION_FRAMES as usize).step_by(step).enumerate() {
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

    /// Counts the struct pages of a section by class.
    fn classes(
        &self,
        reader: &mut dyn bigiron_kernel::PageReader,
        pages: &mut StructPages,
        first: PageFrame,
        bins: &Bins,
        part: &mut HelperCounts,
    ) -> Result<(), InspectError> {
        let base = bins.first_of(first);
        let kinds = pages.kinds().clone();
        let (table, files) = (&mut part.bins, &mut part.files);
        pages.visit_section(reader, first, &mut |frame, frames, kind, page| {
            let class = page_class::index_of(kind);
            let start = frame.0 - first.0;
            let mut all = 0;
            let (mut at, end) = (start, (start + frames).min(SECTION_FRAMES));
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
        let first = |number| PageFrame(number * SECTION_FRAMES);
        numbers.into_iter().map(first).collect()
    }

    #[test]
    fn number_of_bins_is_bounded() {
        for (chunks, shift) in [
            (chunks(0..1), 3),
            (chunks(0..2), 4),
            (chunks(0..4096), 15),
            (chunks(0..100_000), 20),
            // Sparse RAM: each section has its own bin, and none is omitted.
            (chunks((0..4096).map(|number| number << 20)), 15),
            (chunks((0..5000).map(|number| number << 20)), 36),
        ] {
            let bins = Bins::new(&chunks);
            assert_eq!(bins.shift, shift, "{} chunks", chunks.len());
            assert!(bins.keys.len() <= MAX_BINS);
            for chunk in chunks {
                let bin = bins.first_of(chunk);
                assert_eq!(bins.keys[bin], chunk.0 >> bins.shift);
            }
        }
    }
}
