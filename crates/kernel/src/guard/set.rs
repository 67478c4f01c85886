//! Sets of guarded page frames.

use bigiron_format::PageFrame;

/// What the kernel uses a guarded page frame for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuardedUse {
    /// The kernel image: its code, constants and variables.
    Image,
    /// Memory in the mapping of the kernel image whose borders no symbol tells. Parts of it may have
    /// been freed when the kernel had started, so that their class is no surprise.
    ImageMapping,
    /// Modules; where they have no addresses of their own, all that is mapped in vmalloc's area.
    Modules,
    /// The variables of each CPU.
    PerCpu,
    /// The kernel's page tables.
    PageTables,
    /// Struct pages, and the tables that lead to them.
    MemMap,
    /// The nodes and zones of memory.
    Nodes,
    /// The kernel log.
    Log,
    /// VMCOREINFO.
    Vmcoreinfo,
    /// Kernel stacks.
    Stacks,
}

impl GuardedUse {
    /// All uses.
    pub const ALL: [Self; 10] = [
        Self::Image,
        Self::ImageMapping,
        Self::Modules,
        Self::PerCpu,
        Self::PageTables,
        Self::MemMap,
        Self::Nodes,
        Self::Log,
        Self::Vmcoreinfo,
        Self::Stacks,
    ];

    /// Name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "the kernel image",
            Self::ImageMapping => "the mapping of the kernel image",
            Self::Modules => "modules",
            Self::PerCpu => "per-CPU variables",
            Self::PageTables => "page tables",
            Self::MemMap => "the memory map",
            Self::Nodes => "the nodes of memory",
            Self::Log => "the kernel log",
            Self::Vmcoreinfo => "VMCOREINFO",
            Self::Stacks => "kernel stacks",
        }
    }

    /// Returns true if struct pages that call such a page frame page cache, user memory or free
    /// memory are wrong.
    pub fn contradicts_class(self) -> bool {
        self != Self::ImageMapping
    }
}

/// Maximum number of runs of page frames, 24 bytes each. A machine with 100 000 tasks has as many
/// stacks of four pages.
const MAX_RUNS: usize = 1 << 19;

/// Consecutive page frames of one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: u64,
    end: u64,
    used_for: GuardedUse,
}

/// Guarded page frames.
#[derive(Clone, Debug, Default)]
pub struct GuardedFrames {
    /// In order and disjoint, once [`Self::finish`] was called.
    runs: Vec<Run>,
}

impl GuardedFrames {
    /// Adds `bytes` bytes of physical memory from `start` on. Beyond half a million separate runs,
    /// nothing is added.
    pub(super) fn add(&mut self, used_for: GuardedUse, start: u64, bytes: u64, page_shift: u32) {
        let Some(last) = start.checked_add(bytes).and_then(|end| end.checked_sub(1)) else {
            return;
        };
        let (start, end) = (start >> page_shift, (last >> page_shift) + 1);
        if bytes == 0 {
            return;
        }
        if let Some(last) = self.runs.last_mut()
            && last.used_for == used_for
            && (last.start..=last.end).contains(&start)
        {
            last.end = last.end.max(end);
        } else if self.runs.len() < MAX_RUNS {
            self.runs.push(Run {
                start,
                end,
                used_for,
            });
        }
    }

    /// Sorts the runs. A page frame of several uses counts for the first one.
    pub(super) fn finish(&mut self) {
        self.runs.sort_by_key(|run| (run.start, run.used_for));
        let mut reached = 0;
        self.runs.retain_mut(|run| {
            run.start = run.start.max(reached);
            reached = reached.max(run.end);
            run.start < run.end
        });
        self.runs.shrink_to_fit();
    }

    /// Iterates over the runs of `count` page frames from `first` on: the first frame and the one
    /// behind the last, counted from `first`.
    pub fn within(
        &self,
        first: PageFrame,
        count: u64,
    ) -> impl Iterator<Item = (usize, usize, GuardedUse)> {
        let end = first.0.saturating_add(count);
        let from = self.runs.partition_point(|run| run.end <= first.0);
        let found = self.runs.get(from..).unwrap_or_default().iter();
        found
            .take_while(move |run| run.start < end)
            .map(move |run| {
                let (start, end) = (run.start.max(first.0), run.end.min(end));
                (
                    (start - first.0) as usize,
                    (end - first.0) as usize,
                    run.used_for,
                )
            })
    }

    /// Number of page frames.
    pub fn len(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Number of page frames of a use.
    pub fn len_of(&self, used_for: GuardedUse) -> u64 {
        let found = self.runs.iter().filter(|run| run.used_for == used_for);
        found.map(|run| run.end - run.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_several_uses_count_once_and_sections_see_their_part() {
        let mut set = GuardedFrames::default();
        set.add(GuardedUse::MemMap, 0x5000, 0x3000, 12);
        set.add(GuardedUse::MemMap, 0x8000, 1, 12);
        set.add(GuardedUse::Image, 0x2fff, 0x3001, 12);
        set.add(GuardedUse::Log, u64::MAX, 2, 12);
        set.add(GuardedUse::Log, 0x4000, 0, 12);
        set.finish();
        assert_eq!(set.len(), 7);
        assert_eq!(set.len_of(GuardedUse::Image), 4);
        let all: Vec<_> = set.within(PageFrame(0), 100).collect();
        let image = (2, 6, GuardedUse::Image);
        assert_eq!(all, [image, (6, 9, GuardedUse::MemMap)]);
        let part: Vec<_> = set.within(PageFrame(4), 4).collect();
        assert_eq!(
            part,
            [(0, 2, GuardedUse::Image), (2, 4, GuardedUse::MemMap)]
        );
        assert_eq!(set.within(PageFrame(9), 100).count(), 0);
    }
}
