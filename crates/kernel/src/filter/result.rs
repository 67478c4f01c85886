//! The counts that filtering returns.

use bigiron_format::PageFrame;

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
    }

    /// The sum of all counts.
    pub fn total(&self) -> u64 {
        let known = self.cache + self.cache_private + self.user + self.free;
        known + self.unaccepted + self.hw_poison + self.offline + self.absent + self.device
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
    /// Poisoned page frames, which must not even be read.
    pub poisoned: Vec<PageFrame>,
    /// Struct pages that could not be read; their page frames are kept.
    pub unreadable: u64,
    /// Page frames of RAM whose struct pages are not read, because the dump has too little memory
    /// to hold them. They are kept.
    pub undescribed: u64,
}
