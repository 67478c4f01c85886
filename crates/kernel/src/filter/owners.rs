//! Excludes page frames of a Xen host by their owner.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;

use super::result::SectionResult;
use crate::error::KernelError;
use crate::source::PageReader;
use crate::xen::{Host, Owner, Owners};

/// Decides by owner which page frames are kept.
pub(super) struct OwnerFilter<'a, 's> {
    host: &'a Host<'s>,
    owners: Owners,
    /// Free memory is excluded, whatever `owners` says.
    excludes_free: bool,
}

impl<'a, 's> OwnerFilter<'a, 's> {
    /// Creates a filter that keeps the page frames of `owners`, with or without free memory.
    pub(super) fn new(host: &'a Host<'s>, owners: Owners, excludes_free: bool) -> Self {
        Self {
            host,
            owners,
            excludes_free,
        }
    }

    /// Clears the bits of excluded page frames in the section at `first`.
    pub(super) fn scan(
        &self,
        reader: &mut dyn PageReader,
        first: PageFrame,
        kept: &mut Bitmap,
        result: &mut SectionResult,
    ) -> Result<(), KernelError> {
        let (mut scanned, mut free) = (0, 0);
        let unreadable = self.host.see_owners(reader, first, &mut |frames, owner| {
            scanned += frames.len();
            free += if owner == Owner::Free {
                frames.len()
            } else {
                0
            };
            if self.owners.keeps(owner) && !(owner == Owner::Free && self.excludes_free) {
                return;
            }
            let (start, end) = (frames.start.0, frames.end.0);
            let cleared = kept.clear_range((start - first.0) as usize, (end - first.0) as usize);
            let excluded = &mut result.excluded;
            match owner {
                Owner::Free => excluded.free += cleared,
                Owner::Offlined => excluded.offline += cleared,
                Owner::Broken => {
                    excluded.hw_poison += cleared;
                    result.poison(start, end);
                }
                _ => excluded.owner += cleared,
            }
        })?;
        result.scanned += scanned;
        result.hypervisor_free += free;
        result.unreadable += unreadable;
        Ok(())
    }
}
