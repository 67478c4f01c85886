//! Sparse physical memory: pages written by the builder are stored, all others are generated
//! from their fill when they are read.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::SynthError;
use crate::order::ByteOrder;
use crate::spec::Fill;

/// Maximum number of bytes of RAM.
const MAX_RAM: u64 = 64 << 20;

#[derive(Debug, Clone)]
pub(crate) struct Memory {
    /// Bytes of a page.
    page_size: u64,
    /// Order of the words that the builder and [`Fill::Stamp`] write.
    order: ByteOrder,
    /// Sorted and not overlapping.
    ram: Vec<Range<u64>>,
    written: BTreeMap<u64, Box<[u8]>>,
    fills: BTreeMap<u64, Fill>,
}

impl Memory {
    pub(crate) fn new(
        ram: &[Range<u64>],
        page_size: u64,
        order: ByteOrder,
    ) -> Result<Self, SynthError> {
        let mut ram = ram.to_vec();
        ram.sort_by_key(|range| range.start);
        if ram.is_empty() {
            return Err(SynthError::layout("no `ram`"));
        }
        if let Some(pair) = ram.windows(2).find(|pair| pair[1].start < pair[0].end) {
            return Err(SynthError::layout(format!(
                "RAM overlaps at page frame {:#x}",
                pair[1].start
            )));
        }
        let frames: u64 = ram.iter().map(|range| range.end - range.start).sum();
        if frames.saturating_mul(page_size) > MAX_RAM {
            return Err(SynthError::layout("more than 64 MiB of RAM"));
        }
        Ok(Self {
            page_size,
            order,
            ram,
            written: BTreeMap::new(),
            fills: BTreeMap::new(),
        })
    }

    pub(crate) fn ram(&self) -> &[Range<u64>] {
        &self.ram
    }

    pub(crate) fn is_ram(&self, pfn: u64) -> bool {
        self.ram.iter().any(|range| range.contains(&pfn))
    }

    pub(crate) fn max_pfn(&self) -> u64 {
        self.ram.last().map_or(0, |range| range.end)
    }

    pub(crate) fn set_fill(&mut self, pfn: u64, fill: Fill) {
        self.fills.insert(pfn, fill);
    }

    /// Gives a page to the builder; it is filled with zeros.
    pub(crate) fn own(&mut self, pfn: u64) {
        self.written
            .insert(pfn, vec![0; self.page_size as usize].into());
    }

    pub(crate) fn page(&self, pfn: u64) -> Option<Vec<u8>> {
        if let Some(page) = self.written.get(&pfn) {
            return Some(page.to_vec());
        }
        if !self.is_ram(pfn) {
            return None;
        }
        match self.fills.get(&pfn).copied().unwrap_or(Fill::Stamp) {
            Fill::Same(other) => match self.fills.get(&other) {
                // Only one step is followed, so that cycles are impossible.
                Some(Fill::Same(_)) => Some(vec![0; self.page_size as usize]),
                _ => self.page(other),
            },
            fill => Some(self.content(pfn, fill)),
        }
    }

    /// Returns the page frames that were written, in order.
    pub(crate) fn written_frames(&self) -> impl Iterator<Item = u64> {
        self.written.keys().copied()
    }

    /// Writes bytes, which may cross pages but not leave RAM.
    pub(crate) fn write(&mut self, paddr: u64, bytes: &[u8]) -> Result<(), SynthError> {
        let mut at = paddr;
        let mut rest = bytes;
        while !rest.is_empty() {
            let pfn = at / self.page_size;
            let offset = (at % self.page_size) as usize;
            let take = rest.len().min(self.page_size as usize - offset);
            if !self.written.contains_key(&pfn) {
                let page = self.page(pfn).ok_or_else(|| {
                    SynthError::layout(format!("physical address {at:#x} is not RAM"))
                })?;
                self.written.insert(pfn, page.into());
            }
            if let Some(page) = self.written.get_mut(&pfn) {
                page[offset..offset + take].copy_from_slice(&rest[..take]);
            }
            at += take as u64;
            rest = &rest[take..];
        }
        Ok(())
    }

    pub(crate) fn write_u64(&mut self, paddr: u64, value: u64) -> Result<(), SynthError> {
        self.write(paddr, &self.order.u64(value))
    }

    pub(crate) fn write_u32(&mut self, paddr: u64, value: u32) -> Result<(), SynthError> {
        self.write(paddr, &self.order.u32(value))
    }

    pub(crate) fn read(&self, paddr: u64, len: usize) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(len);
        let mut at = paddr;
        while out.len() < len {
            let pfn = at / self.page_size;
            let offset = (at % self.page_size) as usize;
            let take = (len - out.len()).min(self.page_size as usize - offset);
            // Most reads are of tables, which are stored and need no copy.
            match self.written.get(&pfn) {
                Some(page) => out.extend_from_slice(&page[offset..offset + take]),
                None => out.extend_from_slice(&self.page(pfn)?[offset..offset + take]),
            }
            at += take as u64;
        }
        Some(out)
    }

    pub(crate) fn read_u64(&self, paddr: u64) -> Option<u64> {
        let bytes = self.read(paddr, 8)?;
        Some(self.order.read_u64(bytes.try_into().ok()?))
    }

    fn content(&self, pfn: u64, fill: Fill) -> Vec<u8> {
        let mut page = vec![0; self.page_size as usize];
        match fill {
            Fill::Zero | Fill::Same(_) => {}
            Fill::Const(byte) => page.fill(byte),
            Fill::Stamp => {
                for (index, word) in page.chunks_exact_mut(8).enumerate() {
                    let paddr = pfn * self.page_size + index as u64 * 8;
                    word.copy_from_slice(&self.order.u64(paddr));
                }
            }
            Fill::Random(seed) => {
                let mut state = SplitMix::new(seed ^ pfn.rotate_left(32));
                for word in page.chunks_exact_mut(8) {
                    word.copy_from_slice(&state.next().to_le_bytes());
                }
            }
        }
        page
    }
}

/// Steele, Lea and Flood's SplitMix64: small, and equal on all platforms.
#[derive(Debug, Clone)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// Allocates the page frames that the text does not name.
#[derive(Debug)]
pub(crate) struct Frames {
    /// Free page frames, sorted.
    free: Vec<Range<u64>>,
}

impl Frames {
    /// Returns an allocator for RAM without the frames named in the text. `named` is sorted.
    pub(crate) fn new(ram: &[Range<u64>], named: &[Range<u64>]) -> Self {
        let mut frames = Self { free: ram.to_vec() };
        for range in named {
            frames.take(range);
        }
        frames
    }

    fn take(&mut self, taken: &Range<u64>) {
        let mut left = Vec::with_capacity(self.free.len() + 1);
        for range in self.free.drain(..) {
            let before = range.start..range.end.min(taken.start);
            let after = range.start.max(taken.end)..range.end;
            left.extend([before, after].into_iter().filter(|part| !part.is_empty()));
        }
        self.free = left;
    }

    /// Allocates the lowest run of `count` frames at a multiple of `align`.
    pub(crate) fn alloc(&mut self, count: u64, align: u64) -> Result<u64, SynthError> {
        let start = self.free.iter().find_map(|range| {
            let start = range.start.next_multiple_of(align);
            (start + count <= range.end).then_some(start)
        });
        self.grant(start, count, align)
    }

    /// Allocates the highest single frame.
    pub(crate) fn alloc_top(&mut self) -> Result<u64, SynthError> {
        let start = self.free.last().map(|range| range.end - 1);
        self.grant(start, 1, 1)
    }

    /// Allocates exactly these frames; an error if any of them is in use.
    pub(crate) fn alloc_at(&mut self, start: u64, count: u64) -> Result<u64, SynthError> {
        let whole = |range: &Range<u64>| range.start <= start && start + count <= range.end;
        if !self.free.iter().any(whole) {
            return Err(SynthError::layout(format!(
                "page frames {start:#x}-{:#x} are required for the kernel's image, but are not \
                 RAM or are named",
                start + count - 1
            )));
        }
        self.take(&(start..start + count));
        Ok(start)
    }

    fn grant(&mut self, start: Option<u64>, count: u64, align: u64) -> Result<u64, SynthError> {
        let start = start.ok_or_else(|| {
            SynthError::layout(format!(
                "not enough unnamed RAM: {count} page frames aligned to {align} are required"
            ))
        })?;
        self.take(&(start..start + count));
        Ok(start)
    }
}
