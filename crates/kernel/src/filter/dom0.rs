//! Excludes page frames of a Xen host by the classes of dom0's kernel.
//!
//! dom0's struct pages are in the order of dom0's page frames, the host's memory in that of the
//! machine. So the kernel's filter goes over dom0 first and leaves a bit for each page frame; then
//! the host's memory is filtered, where m2p leads from each page frame of dom0 to its bit.

use std::sync::OnceLock;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, PageFrameRange};

use super::result::SectionResult;
use crate::error::KernelError;
use crate::source::{IoMethod, MemorySource, SECTION_FRAMES};
use crate::xen::DomainFrames;
use crate::xen::domain_frames::Lookup;

/// Bytes of the bits of a section.
const SECTION_BYTES: usize = SECTION_FRAMES as usize / 8;

/// What the filter of dom0's kernel keeps.
pub(super) struct Dom0Pages {
    frames: DomainFrames,
    /// Bits of the page frames to keep, by section of dom0.
    kept: Vec<OnceLock<Box<[u8]>>>,
}

impl Dom0Pages {
    /// Creates it for the page frames of dom0, all of which are kept until [`Self::set`].
    pub(super) fn new(frames: DomainFrames) -> Self {
        let sections = frames.end().div_ceil(SECTION_FRAMES);
        Self {
            frames,
            kept: (0..sections).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Sets the bits of the section of dom0 at `first`.
    pub(super) fn set(&self, first: PageFrame, kept: &Bitmap) {
        if let Some(section) = self.kept.get((first.0 / SECTION_FRAMES) as usize) {
            let _ = section.set(kept.as_bytes()[..SECTION_BYTES].into());
        }
    }

    /// Clears the bits of excluded page frames of dom0 among `runs` of the host's page frames, in
    /// the section at `first`.
    pub(super) fn exclude(
        &self,
        host: &dyn MemorySource,
        first: PageFrame,
        runs: &[PageFrameRange],
        kept: &mut Bitmap,
        result: &mut SectionResult,
    ) -> Result<(), KernelError> {
        let mut lookup = Lookup::new(&self.frames, host, IoMethod::Auto);
        for machine in runs.iter().flat_map(|run| run.numbers()) {
            let bit = (machine - first.0) as usize;
            if !kept.get(bit) {
                continue;
            }
            match lookup.frame_of(machine) {
                Ok(Some(frame)) if !self.keeps(frame) => {
                    result.excluded.dom0 += kept.clear_range(bit, bit + 1);
                }
                Ok(_) => {}
                Err(error) if error.is_one_page() => result.unreadable += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn keeps(&self, frame: u64) -> bool {
        let section = self.kept.get((frame / SECTION_FRAMES) as usize);
        let bits = section.and_then(OnceLock::get);
        let bit = (frame % SECTION_FRAMES) as usize;
        bits.is_none_or(|bits| {
            bits.get(bit / 8)
                .is_none_or(|byte| byte >> (bit % 8) & 1 == 1)
        })
    }
}
