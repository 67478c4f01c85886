//! Counts the set bits in all sections before a given one.

use crate::source::SECTION_FRAMES;

/// Sections per group; a group shares one full sum.
const GROUP: usize = 64;

/// Counts of set bits per section, in little more than two bytes each: a full sum per group,
/// and the 16-bit count of every section. A machine of 32 TiB has 262144 sections of 4 KiB
/// pages.
#[derive(Clone, Debug, Default)]
pub struct SectionRanks {
    counts: Vec<u16>,
    /// Set bits before the first section of the group.
    sums: Vec<u64>,
    total: u64,
}

const _: () = assert!(SECTION_FRAMES <= u16::MAX as u64, "a section's count fits");

impl SectionRanks {
    /// Creates the table from the count of each section.
    pub fn new(counts: Vec<u16>) -> Self {
        let mut total = 0;
        let sums = counts.chunks(GROUP).map(|group| {
            let before = total;
            total += sum(group);
            before
        });
        let sums = sums.collect();
        Self {
            counts,
            sums,
            total,
        }
    }

    /// Set bits in one section; 0 behind the last one.
    pub fn count(&self, section: usize) -> u64 {
        self.counts
            .get(section)
            .map_or(0, |count| u64::from(*count))
    }

    /// Set bits in all sections before one.
    pub fn before(&self, section: usize) -> u64 {
        let group = section / GROUP;
        match (
            self.sums.get(group),
            self.counts.get(group * GROUP..section),
        ) {
            (Some(before), Some(counts)) => before + sum(counts),
            _ => self.total,
        }
    }

    /// Set bits in all sections.
    pub fn total(&self) -> u64 {
        self.total
    }
}

fn sum(counts: &[u16]) -> u64 {
    counts.iter().map(|count| u64::from(*count)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_sums_of_the_preceding_counts() {
        for len in [0, 1, 63, 64, 65, 1000] {
            let counts: Vec<u16> = (0..len).map(|n| (n * 331 % 32769) as u16).collect();
            let ranks = SectionRanks::new(counts.clone());
            let mut expected = 0;
            for (section, count) in counts.iter().enumerate() {
                assert_eq!(ranks.before(section), expected, "{section} of {len}");
                assert_eq!(ranks.count(section), u64::from(*count));
                expected += u64::from(*count);
            }
            for behind in [len as usize, len as usize + 1, 1 << 40] {
                assert_eq!(ranks.before(behind), expected, "{behind} of {len}");
            }
            assert_eq!(ranks.total(), expected);
            assert_eq!(ranks.count(len as usize), 0);
        }
    }
}
