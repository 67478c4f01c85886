//! A trial: memory is created, locked, checked and destroyed.

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
use super::method::{Destroy, Lock, Make, Memory, Method, Needs};
use super::settings::Setting;

/// Maximum time to wait for a reaper.
const REAPED: Duration = Duration::from_secs(60);

/// Times of a trial, in milliseconds per GiB, and the kind of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Time until the memory is present and locked.
    pub create: f64,
    /// Time from there until the caller has released the memory.
    pub destroy: f64,
    /// Part of `destroy` before the last reference to the memory is dropped.
    pub unmap: f64,
    /// Time from there until the last page is free, if another process frees it.
    pub complete: Option<f64>,
    /// Fraction of the memory that was in huge pages, 0 to 1.
    pub huge: f64,
    /// Maximum number of helpers that worked.
    pub helpers: usize,
}

impl Sample {
    /// Returns the time of create, lock and destroy together.
    pub fn total(&self) -> f64 {
        self.create + self.destroy
    }
}

/// Properties common to all trials.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    /// Size of the memory in bytes; a multiple of 8 MiB.
    pub size: usize,
    /// True if kernel settings may be changed temporarily.
    pub allow_huge: bool,
    /// Path of the reaper program; `None` for no reaper.
    pub reaper: Option<CString>,
}

impl Bench {
    /// Runs one method, from creation to destruction.
    pub fn run(&self, method: &Method) -> anyhow::Result<Sample> {
        self.warm_up();
        let _setting = self.setting(method.needs)?;
        let mut sample = Sample::default();
        let begin = Instant::now();
        let mut held = Held::open(method.memory, self.size, method.wants_huge())?;
        if method.advise_huge {
            want_huge_pages(held.region);
        }
        match method.lock {
            Lock::Shm => held.shm_lock()?,
            Lock::OnFault => held.mlock_on_fault()?,
            Lock::No | Lock::Mlock => {}
        }
        sample.helpers = make(&held, method)?;
        if matches!(method.lock, Lock::Mlock | Lock::OnFault) {
            held.mlock()?;
        }
        sample.create = self.per_gib(begin.elapsed());
        sample.huge = check::is_there(&held, method)?;
        let ids: Vec<i32> = held.segments.iter().map(|segment| segment.id).collect();
        let region = held.region;
        self.destroy(method, &mut held, &mut sample)?;
        check::is_gone(region, &ids)?;
        Ok(sample)
    }

    /// Uses as much memory as the trial will. The host of a virtual machine may first have to
    /// allocate memory that was unused for some seconds (page_reporting of the Linux kernel),
    /// which takes longer than everything else. The kernel reuses the most recently freed
    /// memory.
    fn warm_up(&self) {
        let Ok(held) = Held::open(Memory::Anonymous, self.size + self.size / 16, true) else {
            return;
        };
        want_huge_pages(held.region);
        // Failure only makes the trial slower.
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

    fn destroy(&self, method: &Method, held: &mut Held, sample: &mut Sample) -> anyhow::Result<()> {
        let begin = Instant::now();
        match method.destroy {
            Destroy::Plain => {
                if matches!(method.lock, Lock::Mlock | Lock::OnFault) {
                    held.munlock()?;
                }
                held.destroy()?;
            }
            Destroy::Helpers(helpers) => {
                let outcome = take_down(held, method.memory, &with(helpers))?;
                sample.helpers = sample.helpers.max(outcome.helpers);
                sample.unmap = self.per_gib(begin.elapsed());
                held.detach()?;
                remove_together(&held.segments, outcome.helpers)?;
                held.destroy()?;
            }
            Destroy::Reaper(helpers) => {
                return self.destroy_by_reaper(helpers, method, held, sample);
            }
        }
        sample.destroy = self.per_gib(begin.elapsed());
        Ok(())
    }

    /// Destroys the memory by a reaper, which starts before the caller drops its references.
    fn destroy_by_reaper(
        &self,
        helpers: usize,
        method: &Method,
        held: &mut Held,
        sample: &mut Sample,
    ) -> anyhow::Result<()> {
        let program = self.reaper.as_deref().context("no reaper program")?;
        let mut kept: Vec<Kept> = held
            .segments
            .iter()
            .map(|own| Kept::SystemV(own.id))
            .collect();
        kept.extend(held.descriptor().map(Kept::Descriptor));
        let ids: Vec<i32> = held.segments.iter().map(|own| own.id).collect();
        let begin = Instant::now();
        let reaper = Reaper::start(program, &kept, None).context("the reaper did not start")?;
        take_down(held, method.memory, &with(helpers))?;
        sample.unmap = self.per_gib(begin.elapsed());
        held.destroy()?;
        let reaping = reaper.go();
        for id in ids {
            ensure!(reaping.wait_until_gone(id), "segment {id} was not removed");
        }
        sample.destroy = self.per_gib(begin.elapsed());
        // No message arrives if the reaper had finished before the ids were checked.
        reaping.wait(REAPED);
        let all = begin.elapsed();
        ensure!(all < REAPED, "the reaper did not finish");
        sample.complete = Some(self.per_gib(all));
        Ok(())
    }
}

/// Returns the default settings with this number of helpers.
pub(super) fn with(helpers: usize) -> Settings {
    Settings {
        helpers,
        ..Settings::default()
    }
}

/// Populates the memory; returns the number of helpers that worked.
fn make(held: &Held, method: &Method) -> anyhow::Result<usize> {
    let pieces = &mut [held.region.into()];
    let access = if method.memory.is_shared() {
        Access::Read
    } else {
        Access::Write
    };
    let outcome = match method.make {
        Make::ByLock => Outcome::default(),
        Make::Touch => {
            let huge = method.memory == Memory::Hugetlb;
            held.touch(if huge {
                huge::huge_page_size()
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
    let outcome = outcome.result().context("cannot populate the memory")?;
    Ok(outcome.helpers.max(1))
}

/// Removes the page tables.
fn take_down(held: &Held, memory: Memory, settings: &Settings) -> anyhow::Result<Outcome> {
    let pieces = &mut [held.region.into()];
    let outcome = if memory.is_shared() {
        unmap_pages(pieces, settings)
    } else {
        forget(pieces, settings)
    };
    outcome.result().context("cannot remove the page tables")
}

/// Removes segments that are no longer attached, several concurrently.
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
    ensure!(!failed.into_inner(), "cannot remove a segment");
    Ok(())
}

/// Returns a segment of `size` bytes for [`super::small`].
pub(super) fn plain_segment(size: usize) -> anyhow::Result<(Held, Region)> {
    let held = Held::open(Memory::Segment, size, false)?;
    let region = held.region;
    Ok((held, region))
}
