//! The pages of a paravirtual domain's memory in the machine: its table of frames (p2m,
//! arch/x86/xen/p2m.c of Linux) as it shows it to the hypervisor in three levels of pages
//! (xen_build_mfn_list_list).

use bigiron_format::{PageFrame, PhysAddr};

use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;

/// Entries of a page of any level.
pub(super) const ENTRIES: u64 = 512;
/// FOREIGN_FRAME_BIT: memory of another domain.
const FOREIGN: u64 = 1 << 63;
/// IDENTITY_FRAME_BIT: memory of the machine that is no RAM of the domain.
const IDENTITY: u64 = 1 << 62;
/// No page.
const NONE: u64 = u64::MAX;

/// The lowest level of the table, of which each page describes 512 page frames of the domain.
#[derive(Clone, Debug)]
pub(super) struct P2m {
    /// Machine frames of the pages, [`NONE`] for those without RAM.
    leaves: Vec<u64>,
    /// The page frame behind the last one of RAM.
    end: u64,
}

impl P2m {
    /// Reads the upper levels, whose highest page is `root`.
    ///
    /// # Errors
    /// One of their pages cannot be read.
    pub(super) fn read(root: PageFrame, memory: &PhysicalMemory) -> Result<Self, KernelError> {
        let mut leaves = Vec::new();
        let mut lists = entries(root.0, memory).map_err(|error| unreadable(root.0, error))?;
        drop_repeated(&mut lists);
        for list in lists {
            if list == NONE {
                leaves.resize(leaves.len() + ENTRIES as usize, NONE);
                continue;
            }
            leaves.extend(entries(list, memory).map_err(|error| unreadable(list, error))?);
            leaves.resize(leaves.len().next_multiple_of(ENTRIES as usize), NONE);
        }
        drop_repeated(&mut leaves);
        let kept = leaves.iter().rposition(|leaf| *leaf != NONE);
        leaves.truncate(kept.map_or(0, |last| last + 1));
        leaves.shrink_to_fit();
        let mut found = Self { leaves, end: 0 };
        found.end = found.find_end(memory)?;
        Ok(found)
    }

    /// The page frame behind the last one of RAM.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns true if some of the page frames may be RAM.
    pub(super) fn has_ram(&self, mut frames: std::ops::Range<u64>) -> bool {
        let leaf = |index: u64| self.leaves.get(index as usize);
        frames.end = frames.end.min(self.end);
        let mut leaves = frames.start / ENTRIES..frames.end.div_ceil(ENTRIES);
        leaves.any(|index| leaf(index).is_some_and(|leaf| *leaf != NONE))
    }

    /// Returns the machine frames of the 512 page frames from `512 * index` on, [`NONE`] for
    /// those that are no RAM of the domain; `None` if none is, or the page is not in the source.
    pub(super) fn leaf(
        &self,
        index: u64,
        memory: &PhysicalMemory,
    ) -> Result<Option<Vec<u64>>, SourceError> {
        let leaf = usize::try_from(index).ok();
        let leaf = leaf.and_then(|index| self.leaves.get(index)).copied();
        let Some(leaf) = leaf.filter(|leaf| *leaf != NONE) else {
            return Ok(None);
        };
        let end = memory.source().end_frame().0;
        let mut frames = match page(leaf, memory) {
            Ok(frames) => frames,
            Err(error) if error.is_one_page() => return Ok(None),
            Err(error) => return Err(error),
        };
        for frame in &mut frames {
            if !is_frame(*frame) || *frame >= end {
                *frame = NONE;
            }
        }
        Ok(Some(frames))
    }

    fn find_end(&self, memory: &PhysicalMemory) -> Result<u64, SourceError> {
        for index in (0..self.leaves.len() as u64).rev() {
            let last = self
                .leaf(index, memory)?
                .and_then(|frames| frames.iter().rposition(|frame| *frame != NONE));
            if let Some(last) = last {
                return Ok(index * ENTRIES + last as u64 + 1);
            }
        }
        Ok(0)
    }
}

/// Returns true for the entry of a page frame that is no RAM of the domain.
pub(super) fn is_none(machine: u64) -> bool {
    machine == NONE
}

/// Returns true for an entry that is a frame of RAM, as far as the entry alone tells.
pub(super) fn is_frame(entry: u64) -> bool {
    entry & (FOREIGN | IDENTITY) == 0
}

/// Forgets pages that are there several times: the kernel has one page for all ranges that are
/// missing. A page with RAM is right in one place only, and no damaged table takes more steps
/// than the source has pages.
fn drop_repeated(pages: &mut [u64]) {
    let mut sorted: Vec<u64> = pages.to_vec();
    sorted.sort_unstable();
    let repeated = sorted.windows(2).filter(|pair| pair[0] == pair[1]);
    let mut repeated: Vec<u64> = repeated.map(|pair| pair[0]).collect();
    repeated.dedup();
    for page in pages {
        if repeated.binary_search(page).is_ok() {
            *page = NONE;
        }
    }
}

/// Returns the entries of a page of an upper level, up to the first that is zero.
fn entries(frame: u64, memory: &PhysicalMemory) -> Result<Vec<u64>, SourceError> {
    let mut found = page(frame, memory)?;
    let used = found.iter().position(|entry| *entry == 0);
    found.truncate(used.unwrap_or(found.len()));
    Ok(found)
}

fn page(frame: u64, memory: &PhysicalMemory) -> Result<Vec<u64>, SourceError> {
    let mut bytes = [0; 8 * ENTRIES as usize];
    memory.read(PhysAddr(frame.saturating_mul(4096)), &mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

fn unreadable(frame: u64, error: SourceError) -> KernelError {
    if !error.is_one_page() {
        return error.into();
    }
    KernelError::XenHost {
        reason: format!("dom0's table of page frames (p2m), machine frame {frame:#x}: {error}"),
    }
}
