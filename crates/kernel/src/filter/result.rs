//! The counts that filtering returns.

use bigiron_format::PageFrameRange;

use crate::guard::GuardedUse;
use crate::page::PageClass;

/// Numbers of excluded page frames, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExcludedCounts {
    /// Page cache without private data.
    pub cache: u64,
    /// Page cache with private data.
    pub cache_private: u64,
    /// User memory.
    pub user: u64,
    /// Free memory.
    pub free: u64,
    /// Memory that a confidential guest has not accepted.
    pub unaccepted: u64,
    /// Poisoned memory (PG_hwpoison).
    pub hw_poison: u64,
    /// Offline memory.
    pub offline: u64,
    /// RAM whose contents the source does not have: excluded earlier, or lost.
    pub absent: u64,
    /// Memory behind the last struct page: device memory, not the kernel's.
    pub device: u64,
    /// Memory of a Xen host whose owner is not in the dump.
    pub owner: u64,
    /// Memory of a Xen host that is dom0's, and of an excluded class for dom0's kernel.
    pub dom0: u64,
    /// Struct pages of excluded page frames.
    pub struct_pages: u64,
    /// Pages that a rule drops, and that no class excludes.
    pub rules: u64,
}

impl ExcludedCounts {
    /// Adds the counts of another section.
    pub fn add(&mut self, other: &Self) {
        self.cache += other.cache;
        self.cache_private += other.cache_private;
        self.user += other.user;
        self.free += other.free;
        self.unaccepted += other.unaccepted;
        self.hw_poison += other.hw_poison;
        self.offline += other.offline;
        self.absent += other.absent;
        self.device += other.device;
        self.owner += other.owner;
        self.dom0 += other.dom0;
        self.struct_pages += other.struct_pages;
        self.rules += other.rules;
    }

    /// The sum of all counts.
    pub fn total(&self) -> u64 {
        let known = self.cache + self.cache_private + self.user + self.free;
        let others = self.offline + self.absent + self.device + self.owner + self.dom0;
        known + self.unaccepted + self.hw_poison + self.struct_pages + self.rules + others
    }

    pub(super) fn of(&mut self, class: PageClass) -> &mut u64 {
        match class {
            PageClass::Cache => &mut self.cache,
            PageClass::CachePrivate => &mut self.cache_private,
            PageClass::User => &mut self.user,
            PageClass::Free => &mut self.free,
            PageClass::Unaccepted => &mut self.unaccepted,
            PageClass::HwPoison => &mut self.hw_poison,
            PageClass::Offline => &mut self.offline,
        }
    }
}

/// Numbers of page frames that were kept although their class is excluded, by what the kernel uses
/// them for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardedCounts([u64; GuardedUse::ALL.len()]);

impl GuardedCounts {
    /// Adds the counts of another section.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// Iterates over the uses that have any, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (GuardedUse, u64)> {
        let all = GuardedUse::ALL.into_iter().zip(self.0);
        all.filter(|(_, count)| *count > 0)
    }

    pub(super) fn of(&mut self, used_for: GuardedUse) -> &mut u64 {
        &mut self.0[used_for as usize]
    }
}

/// Maximum number of runs of poisoned page frames in a section. A machine has few broken pages;
/// a damaged dump may have any number.
const MAX_POISONED_RUNS: usize = 64;

/// The result for one section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SectionResult {
    /// Page frames of RAM in the section.
    pub ram: u64,
    /// Page frames kept.
    pub kept: u64,
    /// Struct pages read, or covered by the verdict on another one.
    pub scanned: u64,
    /// Excluded page frames.
    pub excluded: ExcludedCounts,
    /// Poisoned page frames, which must not even be read. Of a section with very many runs of
    /// them, the last run reaches over the other pages up to the last poisoned one.
    pub poisoned: Vec<PageFrameRange>,
    /// Struct pages that could not be read; their page frames are kept.
    pub unreadable: u64,
    /// Page frames that are free for the hypervisor of a Xen host, excluded or not.
    pub hypervisor_free: u64,
    /// Page frames that are kept although the level excludes their class.
    pub guarded: GuardedCounts,
    /// Page frames that are kept because of a rule.
    pub kept_by_rules: u64,
    /// Page frames that are kept without their contents because of a rule.
    pub blanked_by_rules: u64,
    /// Page frames of RAM whose struct pages are not read, because the dump has too little memory
    /// to hold them. They are kept.
    pub undescribed: u64,
}

impl SectionResult {
    /// Adds poisoned page frames that begin behind those added before.
    pub(super) fn poison(&mut self, start: u64, end: u64) {
        let is_full = self.poisoned.len() == MAX_POISONED_RUNS;
        match self.poisoned.last_mut() {
            Some(last) if is_full || last.end.0 >= start => last.end.0 = last.end.0.max(end),
            _ => self.poisoned.push(PageFrameRange::new(start, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poisoned_pages_take_little_memory_and_none_is_forgotten() {
        let mut result = SectionResult::default();
        result.poison(0, 2);
        result.poison(2, 3);
        assert_eq!(result.poisoned, [PageFrameRange::new(0, 3)]);
        for frame in 0..16_000 {
            result.poison(10 + 2 * frame, 11 + 2 * frame);
        }
        assert_eq!(result.poisoned.len(), MAX_POISONED_RUNS);
        let mut end = 3;
        for (index, run) in result.poisoned.iter().enumerate().skip(1) {
            assert_eq!(run.start.0, 10 + 2 * (index as u64 - 1));
            assert!(run.start.0 > end);
            end = run.end.0;
        }
        assert_eq!(end, 10 + 2 * 15_999 + 1);
    }
}
