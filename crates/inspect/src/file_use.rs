//! Files by their memory in the page cache.

use std::collections::HashMap;

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::file_name::FileName;
use crate::program::Program;

/// Maximum number of files counted at once; beyond it the half with the fewest pages is
/// dropped.
const MAX_FILES: usize = 64 << 10;

/// Page cache pages by struct address_space. Bounded: of very many files some with few pages
/// are dropped, and others may have counts slightly too low.
#[derive(Clone, Debug, Default)]
pub struct FileCounts {
    pages: HashMap<u64, u64>,
    /// Pages without a file: swap cache, or truncated during writeback.
    pub without_file: u64,
    /// Pages of dropped files.
    pub dropped: u64,
}

impl FileCounts {
    /// Counts pages of the file with this mapping.
    pub fn see(&mut self, mapping: Option<u64>, pages: u64) {
        let Some(mapping) = mapping else {
            self.without_file = self.without_file.saturating_add(pages);
            return;
        };
        *self.pages.entry(mapping).or_default() += pages;
        if self.pages.len() > MAX_FILES {
            self.thin_out();
        }
    }

    /// Adds the counts of another helper.
    pub fn add(&mut self, other: Self) {
        self.without_file = self.without_file.saturating_add(other.without_file);
        self.dropped = self.dropped.saturating_add(other.dropped);
        for (mapping, pages) in other.pages {
            self.see(Some(mapping), pages);
        }
    }

    /// Number of files counted.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Returns true if no file was counted.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The mappings with the most pages, with their counts.
    pub fn largest(&self, count: usize) -> Vec<(VirtAddr, u64)> {
        let mut all: Vec<_> = self.pages.iter().map(|(at, pages)| (*pages, *at)).collect();
        all.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        all.truncate(count);
        let found = all.into_iter().map(|(pages, at)| (VirtAddr(at), pages));
        found.collect()
    }

    fn thin_out(&mut self) {
        let mut counts: Vec<u64> = self.pages.values().copied().collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = *median;
        let mut gone = 0_u64;
        // Where most have the same small count, some of these must be dropped as well.
        let mut room = MAX_FILES / 2;
        self.pages.retain(|_, pages| {
            let stays = *pages > median || (*pages == median && room > 0);
            if stays {
                room = room.saturating_sub(1);
            } else {
                gone = gone.saturating_add(*pages);
            }
            stays
        });
        self.dropped = self.dropped.saturating_add(gone);
    }
}

/// A file in the page cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileUse {
    /// Its pages in memory.
    pub pages: u64,
    /// What file it is.
    #[serde(flatten)]
    pub file: FileName,
}

/// Identifies the files with the most pages.
pub fn largest(program: &Program, counts: &FileCounts, most: usize) -> Vec<FileUse> {
    let largest = counts.largest(most).into_iter();
    largest
        .map(|(mapping, pages)| FileUse {
            pages,
            file: FileName::of_mapping(program, mapping),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_beyond_the_maximum_are_dropped() {
        let mut counts = FileCounts::default();
        let files = 3 * MAX_FILES as u64;
        for file in 1..=files {
            counts.see(Some(file << 4), 1);
            counts.see(Some(16), 2);
        }
        assert!(counts.len() <= MAX_FILES);
        assert_eq!(counts.largest(1), [(VirtAddr(16), 2 * files + 1)]);
        let rest: u64 = counts
            .largest(usize::MAX)
            .iter()
            .map(|(_, pages)| pages)
            .sum();
        assert_eq!(rest + counts.dropped, 3 * files);
    }

    #[test]
    fn results_of_helpers_add_up() {
        let (mut one, mut other) = (FileCounts::default(), FileCounts::default());
        one.see(Some(8), 3);
        other.see(Some(8), 4);
        other.see(None, 5);
        one.add(other);
        assert_eq!(one.largest(9), [(VirtAddr(8), 7)]);
        assert_eq!(one.without_file, 5);
    }
}
