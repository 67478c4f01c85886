//! A table of a few regions, which threads share without locks.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::region::Region;

/// Maximum number of regions.
pub(super) const CAPACITY: usize = 64;

/// Regions, each with a number. Regions that do not fit are not recorded.
#[derive(Debug)]
pub(super) struct RegionTable([Slot; CAPACITY]);

#[derive(Debug)]
struct Slot {
    /// Start address; 0 for an empty entry, [`BUSY`] while the entry changes.
    start: AtomicUsize,
    length: AtomicUsize,
    number: AtomicU32,
}

const BUSY: usize = 1;

impl RegionTable {
    pub(super) const fn new() -> Self {
        Self(
            [const {
                Slot {
                    start: AtomicUsize::new(0),
                    length: AtomicUsize::new(0),
                    number: AtomicU32::new(0),
                }
            }; CAPACITY],
        )
    }

    /// Records a region. An earlier region with the same start no longer exists and is
    /// replaced.
    pub(super) fn note(&self, region: Region, number: u32) {
        while self.take(region.start()).is_some() {}
        for slot in &self.0 {
            let free = slot
                .start
                .compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed);
            if free.is_ok() {
                slot.number.store(number, Ordering::Relaxed);
                slot.length.store(region.length(), Ordering::Relaxed);
                slot.start.store(region.start(), Ordering::Release);
                return;
            }
        }
    }

    /// Removes and returns the region that begins at an address.
    pub(super) fn take(&self, start: usize) -> Option<(Region, u32)> {
        if start <= BUSY {
            return None;
        }
        self.0.iter().find_map(|slot| slot.take(start))
    }

    /// Removes all regions that overlap `region`.
    pub(super) fn forget(&self, region: Region) {
        for slot in &self.0 {
            if let Some((noted, _)) = slot.get()
                && !noted.intersection(region).is_empty()
            {
                slot.take(noted.start());
            }
        }
    }

    /// Returns all recorded regions.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Region, u32)> {
        self.0.iter().filter_map(Slot::get)
    }
}

impl Slot {
    fn take(&self, start: usize) -> Option<(Region, u32)> {
        // Most entries have another start: reading is cheaper than trying to change them.
        if self.start.load(Ordering::Relaxed) != start {
            return None;
        }
        self.start
            .compare_exchange(start, BUSY, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        let found = self.read(start);
        self.start.store(0, Ordering::Release);
        found
    }

    fn get(&self) -> Option<(Region, u32)> {
        let start = self.start.load(Ordering::Acquire);
        let found = self.read(start)?;
        let same = self.start.load(Ordering::Acquire) == start;
        (start > BUSY && same).then_some(found)
    }

    fn read(&self, start: usize) -> Option<(Region, u32)> {
        let region = Region::new(start, self.length.load(Ordering::Relaxed))?;
        Some((region, self.number.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(at: usize) -> Region {
        Region::between(at << 20, (at + 1) << 20)
    }

    #[test]
    fn regions_are_taken_once() {
        let table = RegionTable::new();
        for at in 1..=CAPACITY + 1 {
            table.note(region(at), at as u32);
        }
        // The last region did not fit.
        assert_eq!(table.take((CAPACITY + 1) << 20), None);
        assert_eq!(table.iter().count(), CAPACITY);
        assert_eq!(table.take(7 << 20), Some((region(7), 7)));
        assert_eq!(table.take(7 << 20), None);
        assert_eq!(table.take(0), None);
        table.note(region(8), 1);
        assert_eq!(table.take(8 << 20), Some((region(8), 1)));
        assert_eq!(table.take(8 << 20), None);
    }

    #[test]
    fn overlapping_regions_are_forgotten() {
        let table = RegionTable::new();
        (1..=4).for_each(|at| table.note(region(at), 0));
        table.forget(Region::between((2 << 20) + 1, (3 << 20) + 1));
        let left: Vec<_> = table.iter().map(|(region, _)| region).collect();
        assert_eq!(left, [region(1), region(4)]);
    }

    #[test]
    fn threads_find_the_regions_they_noted() {
        let table = RegionTable::new();
        std::thread::scope(|scope| {
            for thread in 1..=8 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..1000 {
                        let region = region(thread);
                        table.note(region, round);
                        assert_eq!(table.take(region.start()), Some((region, round)));
                    }
                });
            }
        });
        assert_eq!(table.iter().count(), 0);
    }
}
