//! Collects the regions of a call.

use rustix::io::Errno;
use rustix::param::page_size;

use crate::engine::{Outcome, Settings};
use crate::huge::huge_page_size;
use crate::mapping::Mapping;
use crate::operation::{Access, populate, unmap_pages};
use crate::policy::Policy;
use crate::region::{JobRegion, Region};

/// Maximum number of regions in one job, which is on the caller's stack; more regions are
/// several jobs.
const MAX_REGIONS: usize = 64;

/// Number of pages sampled in a region.
const SAMPLES: usize = 5;

/// Regions for one kind of work, which is done whenever the list is full, and at the end.
pub(super) struct RegionList<'a, W> {
    regions: [JobRegion; MAX_REGIONS],
    count: usize,
    settings: &'a Settings,
    work: W,
    outcome: Option<Outcome>,
}

impl<'a, W: Fn(&mut [JobRegion], &Settings) -> Outcome> RegionList<'a, W> {
    pub(super) fn new(settings: &'a Settings, work: W) -> Self {
        Self {
            regions: [JobRegion::default(); MAX_REGIONS],
            count: 0,
            settings,
            work,
            outcome: None,
        }
    }

    /// Adds a region; does the work if the list is then full.
    pub(super) fn add(&mut self, region: Region) {
        if region.is_empty() {
            return;
        }
        if let Some(place) = self.regions.get_mut(self.count) {
            *place = JobRegion::from(region);
            self.count += 1;
        }
        if self.count == MAX_REGIONS {
            self.work();
        }
    }

    fn work(&mut self) {
        let Some(regions) = self.regions.get_mut(..self.count) else {
            return;
        };
        if regions.is_empty() || interrupted(self.outcome) {
            return;
        }
        let outcome = (self.work)(regions, self.settings);
        self.outcome = Some(add(self.outcome, outcome));
        self.count = 0;
    }

    /// Does the remaining work and returns the total outcome.
    pub(super) fn finish(mut self) -> Option<Outcome> {
        self.work();
        self.outcome
    }
}

/// True if a signal ended the work early.
fn interrupted(outcome: Option<Outcome>) -> bool {
    outcome.is_some_and(|outcome| outcome.error == Some(Errno::INTR))
}

/// Combines the outcomes of two regions.
pub(super) fn add(one: Option<Outcome>, other: Outcome) -> Outcome {
    let Some(one) = one else {
        return other;
    };
    Outcome {
        bytes: one.bytes.saturating_add(other.bytes),
        wanted: one.wanted.saturating_add(other.wanted),
        ..one.then(other)
    }
}

/// Combines two outcomes, each of which may be missing.
pub(super) fn add_some(one: Option<Outcome>, other: Option<Outcome>) -> Option<Outcome> {
    other.map_or(one, |other| Some(add(one, other)))
}

/// Returns the work of populating regions.
pub(super) fn populating(access: Access) -> impl Fn(&mut [JobRegion], &Settings) -> Outcome {
    move |regions, settings| populate(regions, access, settings)
}

/// Returns the work of removing pages from this process.
pub(super) fn dropping() -> impl Fn(&mut [JobRegion], &Settings) -> Outcome {
    |regions, settings| unmap_pages(regions, settings)
}

/// Returns the access for which the kernel populates a mapping that it locks or populates
/// (populate_vma_page_range of mm/gup.c); `None` if that is left to the kernel, or if the
/// mapping is not populated.
pub(super) fn access(mapping: &Mapping) -> Option<Access> {
    if mapping.of_device || mapping.special || !(mapping.readable || mapping.writable) {
        None
    } else {
        Some(Access::of(mapping))
    }
}

/// Returns the number of sampled pages of a region that are resident, and the number of
/// samples.
pub(super) fn sample(region: Region) -> (usize, usize) {
    let page = page_size();
    let step = (region.length() / SAMPLES).max(page) & !(page - 1);
    let places = (region.start()..region.end()).step_by(step);
    let mut looked = 0;
    let there = places
        .take(SAMPLES)
        .inspect(|_| looked += 1)
        .filter(|start| {
            let mut resident = 0_u8;
            let arguments = [*start, page, (&raw mut resident).addr()];
            super::system::call(libc::SYS_mincore, arguments).is_ok() && resident & 1 == 1
        })
        .count();
    (there, looked)
}

/// True if freeing a region is worth starting helpers. Freeing takes a tenth of the time of
/// populating, and almost none if few pages are resident, which is estimated from samples.
pub(super) fn is_worth_dropping(policy: &Policy, region: Region) -> bool {
    const TIMES: usize = 8;
    let least = policy.settings.straight_below.saturating_mul(TIMES);
    if !policy.enabled || region.length() < least {
        return false;
    }
    let (there, looked) = sample(region);
    there * 2 > looked
}

/// Regions whose pages are removed from this process. The caller does the first part alone:
/// with huge pages the kernel's own call returns before helpers have started.
pub(super) struct DropList<'a, W> {
    regions: RegionList<'a, W>,
    first: Option<Outcome>,
    is_quick: bool,
}

/// Size of the first part in bytes, if no huge page is larger.
const ALONE: usize = 8 << 20;
/// Rate in bytes per nanosecond above which the rest is left to the kernel's own call: pages of
/// 4 KiB are freed at a third of this rate, huge pages at four times this rate.
const QUICK: u128 = 64;

pub(super) fn drop_list(
    settings: &Settings,
) -> DropList<'_, impl Fn(&mut [JobRegion], &Settings) -> Outcome> {
    DropList {
        regions: RegionList::new(settings, dropping()),
        first: None,
        is_quick: false,
    }
}

impl<W: Fn(&mut [JobRegion], &Settings) -> Outcome> DropList<'_, W> {
    pub(super) fn add(&mut self, region: Region) {
        if self.is_quick || region.is_empty() {
            return;
        }
        if self.first.is_some() {
            return self.regions.add(region);
        }
        // The part before the first huge page is skipped if enough memory follows.
        // A part of a huge page would be split from it.
        let huge = huge_page_size().max(ALONE);
        let begin = region.start().next_multiple_of(huge_page_size());
        let (begin, length) = match region.end().saturating_sub(begin) {
            left if left < huge => (region.start(), ALONE),
            _ => (begin, huge),
        };
        let middle = region.end().min(begin.saturating_add(length));
        let alone = Settings {
            helpers: 1,
            ..*self.regions.settings
        };
        let mut first = [Region::between(begin, middle).into()];
        let outcome = unmap_pages(&mut first, &alone);
        self.is_quick =
            outcome.bytes >= ALONE && outcome.bytes as u128 > QUICK * outcome.elapsed.as_nanos();
        self.first = Some(outcome);
        self.add(Region::between(region.start(), begin));
        self.add(Region::between(middle, region.end()));
    }

    /// Does the remaining work and returns the total outcome; `None` if the work was too small
    /// for helpers.
    pub(super) fn finish(self) -> Option<Outcome> {
        if self.is_quick {
            return None;
        }
        add_some(self.first, self.regions.finish())
    }
}

/// True if all sampled pages are resident.
pub(super) fn is_resident(region: Region) -> bool {
    let (there, looked) = sample(region);
    there == looked
}
