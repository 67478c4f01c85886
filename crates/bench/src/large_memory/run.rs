//! One trial: memory is created, locked, looked at and destroyed.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bigiron_helpers::{WorkCursor, run_bare};
use bigiron_memory::engine::MAX_HELPERS;
use bigiron_memory::operation::{Access, advise, forget, populate, unmap_pages, want_huge_pages};
use bigiron_memory::reaper::{Held as Kept, Reaper};
use bigiron_memory::{Outcome, Region, Settings, huge};
use rustix::mm::Advice;
use serde::Serialize;

use super::check;
use super::held::{Held, Segment};
use super::settings::Setting;
use super::way::{Destroy, Lock, Make, Memory, Needs, Way};

/// The most time that a reaper is waited for.
const REAPED: Duration = Duration::from_secs(60);

/// What one trial took, in milliseconds for each GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// From nothing to memory that is there and locked.
    pub create: f64,
    /// From there to nothing, as the caller waits for it.
    pub destroy: f64,
    /// Of `destroy`, what came before the last reference to the memory was dropped.
    pub unmap: f64,
    /// From there until the last page is free, if somebody else frees it.
    pub complete: Option<f64>,
    /// The part of the memory that was huge pages, 0 to 1.
    pub huge: f64,
    /// The most helpers that worked.
    pub helpers: usize,
}

impl Sample {
    /// Create, lock and destroy.
    pub fn total(&self) -> f64 {
        self.create + self.destroy
    }
}

/// What trials have in common.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    /// Bytes of memory; a multiple of 8 MiB.
    pub size: usize,
    /// Whether settings of the kernel may be changed for a moment.
    pub allow_huge: bool,
    /// The program that reaps; without it there is no reaper.
    pub reaper: Option<CString>,
}

impl Bench {
    /// Runs one way, from nothing to nothing.
    pub fn run(&self, way: &Way) -> anyhow::Result<Sample> {
        self.warm_up();
        let _setting = self.setting(way.needs)?;
        let mut sample = Sample::default();
        let begin = Instant::now();
        let mut held = Held::open(way.memory, self.size, way.wants_huge())?;
        if way.advise_huge {
            want_huge_pages(held.region);
        }
        match way.lock {
            Lock::Shm => held.shm_lock()?,
            Lock::OnFault => held.mlock_on_fault()?,
            Lock::No | Lock::Mlock => {}
        }
        sample.helpers = make(&held, way)?;
        if matches!(way.lock, Lock::Mlock | Lock::OnFault) {
            held.mlock()?;
        }
        sample.create = self.per_gib(begin.elapsed());
        sample.huge = check::is_there(&held, way)?;
        let ids: Vec<i32> = held.segments.iter().map(|segment| segment.id).collect();
        let region = held.region;
        self.destroy(way, &mut held, &mut sample)?;
        check::is_gone(region, &ids)?;
        Ok(sample)
    }

    /// Uses as much memory as the trial will. A virtual machine's host may have to find memory
    /// first that was not in use for some seconds (page_reporting of the Linux kernel), which
    /// takes longer than all else. The kernel takes what became free last.
    fn warm_up(&self) {
        let Ok(held) = Held::open(Memory::Anonymous, self.size + self.size / 16, true) else {
            return;
        };
        want_huge_pages(held.region);
        // Without it the trial is only slower.
        let _ = populate(&mut [held.region.into()], Access::Write, &with(MAX_HELPERS));
    }

    fn setting(&self, needs: Needs) -> anyhow::Result<Option<Setting>> {
        match needs {
            Needs::ShmemAdvise if self.allow_huge => Ok(Some(Setting::shmem_advise()?)),
            Needs::Pool if self.allow_huge => Ok(Some(Setting::hugetlb_pool(self.size)?)),
            _ => Ok(None),
        }
    }

    fn per_gib(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e3 * f64::from(1 << 30) / self.size as f64
    }

    fn destroy(&self, way: &Way, held: &mut Held, sample: &mut Sample) -> anyhow::Result<()> {
        let begin = Instant::now();
        match way.destroy {
            Destroy::Plain => {
                if matches!(way.lock, Lock::Mlock | Lock::OnFault) {
                    held.munlock()?;
                }
                held.destroy()?;
            }
            Destroy::Helpers(helpers) => {
                let outcome = take_down(held, way.memory, &with(helpers))?;
                sample.helpers = sample.helpers.max(outcome.helpers);
                sample.unmap = self.per_gib(begin.elapsed());
                held.detach()?;
                remove_together(&held.segments, outcome.helpers)?;
                held.destroy()?;
            }
            Destroy::Reaper(helpers) => {
                return self.destroy_by_reaper(helpers, way, held, sample);
            }
        }
        sample.destroy = self.per_gib(begin.elapsed());
        Ok(())
    }

    /// A reaper is there before the caller gives its own references up.
    fn destroy_by_reaper(
        &self,
        helpers: usize,
        way: &Way,
        held: &mut Held,
        sample: &mut Sample,
    ) -> anyhow::Result<()> {
        let program = self.reaper.as_deref().context("there is no reaper")?;
        let mut kept: Vec<Kept> = held
            .segments
            .iter()
            .map(|own| Kept::SystemV(own.id))
            .collect();
        kept.extend(held.descriptor().map(Kept::Descriptor));
        let ids: Vec<i32> = held.segments.iter().map(|own| own.id).collect();
        let begin = Instant::now();
        let reaper = Reaper::start(program, &kept, None).context("the reaper did not start")?;
        take_down(held, way.memory, &with(helpers))?;
        sample.unmap = self.per_gib(begin.elapsed());
        held.destroy()?;
        let reaping = reaper.go();
        for id in ids {
            ensure!(reaping.wait_until_gone(id), "segment {id} did not go");
        }
        sample.destroy = self.per_gib(begin.elapsed());
        // Nothing comes where it had finished before the ids were looked for.
        reaping.wait(REAPED);
        let all = begin.elapsed();
        ensure!(all < REAPED, "the reaper did not come to its end");
        sample.complete = Some(self.per_gib(all));
        Ok(())
    }
}

/// As many helpers, and otherwise as programs get it.
pub(super) fn with(helpers: usize) -> Settings {
    Settings {
        helpers,
        ..Settings::default()
    }
}

/// Makes all pages; the helpers that worked.
fn make(held: &Held, way: &Way) -> anyhow::Result<usize> {
    let pieces = &mut [held.region.into()];
    let access = if way.memory.is_shared() {
        Access::Read
    } else {
        Access::Write
    };
    let outcome = match way.make {
        Make::ByLock => Outcome::default(),
        Make::Touch => {
            let huge = way.memory == Memory::Hugetlb;
            held.touch(if huge {
                huge::HUGE_PAGE
            } else {
                rustix::param::page_size()
            });
            Outcome::default()
        }
        Make::OneCall => {
            advise(held.region, Advice::LinuxPopulateRead).context("MADV_POPULATE_READ")?;
            Outcome::default()
        }
        Make::Helpers(helpers) => populate(pieces, access, &with(helpers)),
        Make::HugeHelpers(helpers) => huge::populate(pieces, access, &with(helpers)),
    };
    let outcome = outcome.result().context("pages could not be made")?;
    Ok(outcome.helpers.max(1))
}

/// Takes the page tables down.
fn take_down(held: &Held, memory: Memory, settings: &Settings) -> anyhow::Result<Outcome> {
    let pieces = &mut [held.region.into()];
    let outcome = if memory.is_shared() {
        unmap_pages(pieces, settings)
    } else {
        forget(pieces, settings)
    };
    outcome
        .result()
        .context("page tables could not be taken down")
}

/// Removes segments that nobody has attached any more, several at a time.
fn remove_together(segments: &[Segment], helpers: usize) -> anyhow::Result<()> {
    let cursor = WorkCursor::new(segments.len() as u64);
    let failed = AtomicBool::new(false);
    run_bare(helpers.min(segments.len()), |_, _| {}, &|_| {
        while let Some(number) = cursor.next() {
            let segment = segments.get(number as usize);
            let done = segment.is_some_and(|segment| segment.remove().is_ok());
            failed.fetch_or(!done, Ordering::Relaxed);
        }
    });
    ensure!(!failed.into_inner(), "a segment could not be removed");
    Ok(())
}

/// Memory of `size` bytes for another measurement: see [`super::small`].
pub(super) fn plain_segment(size: usize) -> anyhow::Result<(Held, Region)> {
    let held = Held::open(Memory::Segment, size, false)?;
    let region = held.region;
    Ok((held, region))
}
