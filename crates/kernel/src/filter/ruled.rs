//! What rules keep and drop.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;

use super::Filter;
use crate::guard::GuardedUse;
use crate::source::SECTION_FRAMES;

/// The page frames of a section that rules keep and that they drop.
pub(super) struct SectionRules {
    pub(super) keep: Bitmap,
    drop: Bitmap,
}

impl Filter<'_, '_> {
    /// Returns what the rules say about the section at `first`; `None` if that is nothing.
    pub(super) fn rules_of(&self, first: PageFrame) -> Option<SectionRules> {
        if self.rules.is_empty() {
            return None;
        }
        let mut rules = SectionRules {
            keep: Bitmap::new(SECTION_FRAMES as usize),
            drop: Bitmap::new(SECTION_FRAMES as usize),
        };
        self.rules.mark(first, &mut rules.keep, &mut rules.drop);
        Some(rules)
    }

    /// Excludes what rules drop, but no page frame that the kernel itself uses. Returns the number.
    pub(super) fn drop_by_rules(
        &self,
        first: PageFrame,
        rules: SectionRules,
        kept: &mut Bitmap,
    ) -> u64 {
        self.exclude(first, rules.drop, kept, |_| true)
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
