//! Excludes page frames of a Xen host by their owner.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;

use super::dom0::Dom0Pages;
use super::result::SectionResult;
use crate::error::KernelError;
use crate::source::PageReader;
use crate::xen::{Host, Owner, Owners};

/// Decides by owner which page frames are kept.
pub(super) struct OwnerFilter<'a, 's> {
    host: &'a Host<'s>,
    dom0: Option<Dom0Pages>,
    owners: Owners,
    /// Free memory is excluded, whatever `owners` says.
    excludes_free: bool,
}

impl<'a, 's> OwnerFilter<'a, 's> {
    /// Creates a filter that keeps the page frames of `owners`, with or without free memory.
    pub(super) fn new(
        host: &'a Host<'s>,
        dom0: Option<Dom0Pages>,
        owners: Owners,
        excludes_free: bool,
    ) -> Self {
        Self {
            host,
            dom0,
            owners,
            excludes_free,
        }
    }

    /// What the filter of dom0's kernel keeps.
    pub(super) fn dom0(&self) -> Option<&Dom0Pages> {
        self.dom0.as_ref()
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
        let mut of_dom0 = Vec::new();
        let unreadable = self.host.see_owners(reader, first, &mut |frames, owner| {
            scanned += frames.len();
            free += if owner == Owner::Free {
                frames.len()
            } else {
                0
            };
            if owner == Owner::Dom0 && self.dom0.is_some() {
                of_dom0.push(frames);
            }
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
        if let Some(dom0) = &self.dom0 {
            let source = self.host.memory().source();
            dom0.exclude(source, first, &of_dom0, kept, result)?;
        }
        Ok(())
    }
}
