//! Selection of the pages that are read.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_kernel::{MemorySource, SECTION_FRAMES};

/// Page frames that are in or out of the working set together: a few chunks of a vmdump, with
/// which they need not be aligned.
const BLOCK: usize = 256;
/// Number of pages read cold.
const COLD_READS: usize = 1000;
/// Bytes read at once in sequential reads.
const LONG: usize = 256 << 10;

/// The pages of a dump.
pub(super) struct Pages {
    pub(super) shift: u32,
    /// All pages, in ascending order.
    pub(super) all: Vec<PageFrame>,
    /// The working set: half of the cache.
    pub(super) hot: Vec<PageFrame>,
}

impl Pages {
    pub(super) fn of(memory: &dyn MemorySource, cache: u64) -> anyhow::Result<Self> {
        let mut present = Bitmap::new(SECTION_FRAMES as usize);
        let (mut all, mut blocks) = (Vec::new(), Vec::new());
        for first in memory.sections() {
            memory.present(first, &mut present)?;
            for start in (0..present.len()).step_by(BLOCK) {
                let bits = (start..start + BLOCK).filter(|bit| present.get(*bit));
                let from = all.len();
                all.extend(bits.map(|bit| PageFrame(first.0 + bit as u64)));
                if all.len() > from {
                    blocks.push(from..all.len());
                }
            }
        }
        anyhow::ensure!(!all.is_empty(), "no page was dumped");
        let most = ((cache / 2) >> memory.page_shift()) as usize / BLOCK;
        let wanted = most.min(blocks.len()).max(1);
        let mut hot = Vec::new();
        for number in 0..wanted {
            let block = blocks.get(spread(number, blocks.len()));
            hot.extend(block.into_iter().flat_map(|block| &all[block.clone()]));
        }
        hot.sort_unstable();
        hot.dedup();
        Ok(Self {
            shift: memory.page_shift(),
            all,
            hot,
        })
    }

    /// Returns pages spread over the whole dump.
    pub(super) fn cold(&self) -> Vec<PageFrame> {
        let count = COLD_READS.min(self.all.len());
        let places = (0..count).map(|number| spread(number, self.all.len()));
        places
            .filter_map(|place| self.all.get(place).copied())
            .collect()
    }

    /// Returns runs of consecutive pages, each at most [`LONG`].
    pub(super) fn runs(&self) -> Vec<(PageFrame, usize)> {
        let mut runs: Vec<(PageFrame, usize)> = Vec::new();
        for frame in &self.all {
            match runs.last_mut() {
                Some((first, count))
                    if first.0 + *count as u64 == frame.0 && *count < LONG >> self.shift =>
                {
                    *count += 1;
                }
                _ => runs.push((*frame, 1)),
            }
        }
        runs
    }
}

/// Returns one of `count` positions, far from that of the previous number: multiples of the
/// golden ratio spread evenly.
fn spread(number: usize, count: usize) -> usize {
    let place = (number as f64 * 0.618_033_988_75).fract();
    ((place * count as f64) as usize).min(count.saturating_sub(1))
}

/// Pseudo-random numbers: xorshift64, by Marsaglia.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}
