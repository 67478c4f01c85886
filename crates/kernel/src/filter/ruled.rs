//! What rules keep, drop and blank.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;

use super::Filter;
use crate::guard::GuardedUse;
use crate::rules::SectionRules;
use crate::source::SECTION_FRAMES;

impl Filter<'_, '_> {
    /// Returns what the rules say about the section at `first`; `None` if that is nothing.
    pub(super) fn rules_of(&self, first: PageFrame) -> Option<SectionRules> {
        let rules = self.rules.filter(|rules| !rules.is_empty())?;
        Some(rules.section(first, SECTION_FRAMES as usize))
    }

    /// Excludes the page frames of the section at `first` that are in `bits`, but for those of guarded
    /// uses that `guards`. Returns the number.
    pub(super) fn exclude(
        &self,
        first: PageFrame,
        mut bits: Bitmap,
        kept: &mut Bitmap,
        guards: impl Fn(GuardedUse) -> bool,
    ) -> u64 {
        for (start, end, used_for) in self.guarded.within(first, SECTION_FRAMES) {
            if guards(used_for) {
                bits.clear_range(start, end);
            }
        }
        let before = kept.count();
        kept.and_not(&bits);
        before - kept.count()
    }
}
