//! Creation and locking of segments.

use std::ops::ControlFlow;
use std::time::Instant;

use rustix::fs::statfs;
use rustix::io::Errno;
use rustix::param::page_size;

use super::backing::{self, Backing, HUGETLBFS, directory_of};
use super::map::Mapped;
use super::{Huge, Kind, Made, Numa, Progress, Request, Segment, SegmentError, room, system};
use crate::engine::{Outcome, Settings};
use crate::operation::{Access, populate};
use crate::region::{JobRegion, Region};
use crate::{engine, huge};

/// Minimum number of bytes between two progress reports: a fraction of a second of work, and
/// more than all helpers have in progress.
const STEP: usize = 256 << 20;
/// Maximum number of progress reports of one operation: each step waits for its last helper.
const STEPS: usize = 256;

impl Segment {
    /// Creates a segment and maps it.
    ///
    /// A request beyond the system's limits fails before anything is created; a later failure
    /// leaves nothing behind. A name or a file appears when the memory is complete, if the file
    /// system supports that (tmpfs does). A System V segment has its id at once.
    pub fn create(request: &Request, progress: &mut Progress<'_>) -> Result<Self, SegmentError> {
        create(request, progress)
    }

    /// Locks the segment in memory: mlock2(2) locks pages as they are faulted in, and helpers
    /// populate them all. The lock lasts until [`Segment::unlock`], or until this process
    /// unmaps the segment.
    ///
    /// Errors are those of mlock(2): ENOMEM or EPERM for limits.
    pub fn lock(&mut self, progress: &mut Progress<'_>) -> Result<(), SegmentError> {
        lock(self, progress)
    }

    /// Removes the locks of [`Segment::lock`] and SHM_LOCK.
    pub fn unlock(&mut self) -> Result<(), SegmentError> {
        unlock(self)
    }
}

fn create(request: &Request, progress: &mut Progress<'_>) -> Result<Segment, SegmentError> {
    let began = Instant::now();
    let request = &complete(request)?;
    room::check(request)?;
    engine::prepare();
    let backing = Backing::make(request)?;
    let mapped = Mapped::new(&backing, request.bytes, request.huge)
        .map_err(|errno| SegmentError::system(request.what(), "be mapped", errno))?;
    let mut segment = Segment {
        mapped,
        backing,
        what: request.what(),
        settings: request.settings,
        numa: request.numa.clone(),
        page: page_of(request.huge),
        made: Made::default(),
    };
    set_policy(&mut segment)?;
    if request.populate {
        let populating = Instant::now();
        segment.made.helpers = populate_pages(&segment, request.huge, progress)?.helpers;
        segment.made.populating = populating.elapsed();
    }
    if request.lock {
        match segment.backing {
            Backing::SystemV { id, .. } => system::shmctl(id, libc::SHM_LOCK),
            _ if request.populate => system::mlock(segment.region()),
            _ => system::mlock_on_fault(segment.region()),
        }
        .map_err(|errno| SegmentError::system(&segment.what, "be locked", errno))?;
    }
    segment.backing.keep()?;
    segment.made.elapsed = began.elapsed();
    Ok(segment)
}

/// Returns the request with its size in whole pages, after checking it.
fn complete(request: &Request) -> Result<Request, SegmentError> {
    let wrong = |what: &str, expected: &str| {
        Err(SegmentError::Wrong {
            what: format!("{}: {what}", request.what()),
            expected: expected.into(),
        })
    };
    let mut complete = request.clone();
    if request.bytes == 0 {
        return wrong("no bytes", "a size above 0");
    }
    if let Kind::Posix { name } = &request.kind {
        let name = name.trim_start_matches('/');
        if name.is_empty() || name.len() > 255 || name.contains(['/', '\0']) {
            return wrong("its name", "a slash and up to 255 bytes without another");
        }
    }
    if let Some(directory) = directory_of(&request.kind) {
        let on = statfs(&directory).map_err(|errno| {
            SegmentError::system(directory.display().to_string(), "be inspected", errno)
        })?;
        #[allow(clippy::unnecessary_cast)] // the fields' types differ between processors
        let (kind, page) = (on.f_type as u64, on.f_bsize as usize);
        if kind == HUGETLBFS {
            complete.huge = Huge::Pool(page);
        } else if matches!(request.huge, Huge::Pool(_)) {
            let expected = "a file on hugetlbfs, or System V memory, which can use pages of a pool";
            return wrong("pages of a pool", expected);
        }
    }
    if let Huge::Pool(size) = complete.huge {
        let name = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", size >> 10);
        if !size.is_power_of_two() || std::fs::metadata(&name).is_err() {
            let what = format!("huge pages of {} KiB", size >> 10);
            return wrong(&what, "a size listed in /sys/kernel/mm/hugepages");
        }
    }
    if !(1..=crate::reaper::MAX_HELD).contains(&request.stripes) {
        return wrong("its stripes", "1 to 64");
    }
    if request.stripes > 1 {
        match complete.huge {
            Huge::Pool(_) => {
                let expected = "one object, since the kernel frees pages of a pool fast";
                return wrong("stripes of huge pages of a pool", expected);
            }
            Huge::Auto | Huge::Never => {}
        }
        if matches!(request.kind, Kind::SystemV { .. } | Kind::Anonymous) {
            let expected = "POSIX memory, memfd or files, several of which form a segment";
            return wrong("stripes", expected);
        }
    }
    let page = page_of(complete.huge);
    let whole = request.bytes.checked_next_multiple_of(page);
    complete.bytes = match whole.filter(|bytes| isize::try_from(*bytes).is_ok()) {
        Some(bytes) => bytes,
        None => return wrong("its size", "less than the whole address space"),
    };
    complete.settings.spread |= request.numa == Numa::Spread;
    Ok(complete)
}

fn page_of(huge: Huge) -> usize {
    match huge {
        Huge::Pool(size) => size,
        Huge::Auto | Huge::Never => page_size(),
    }
}

fn set_policy(segment: &mut Segment) -> Result<(), SegmentError> {
    let (policy, nodes) = match &segment.numa {
        Numa::Local | Numa::Spread => return Ok(()),
        Numa::Interleave(nodes) => (libc::MPOL_INTERLEAVE, nodes),
        Numa::Bind(nodes) => (libc::MPOL_BIND, nodes),
    };
    system::mbind(segment.region(), policy, nodes).map_err(|errno| {
        let error = SegmentError::system(&segment.what, "be bound to these nodes", errno);
        error.hinted("; nodes with memory: /sys/devices/system/node/has_memory")
    })
}

fn populate_pages(
    segment: &Segment,
    pages: Huge,
    progress: &mut Progress<'_>,
) -> Result<Outcome, SegmentError> {
    let backing = &segment.backing;
    let stripe = match backing {
        Backing::Files { each, files, .. } if files.len() > 1 => Some(*each),
        _ => None,
    };
    let access = access(backing);
    let is_anonymous = matches!(backing, Backing::Anonymous);
    let mut total = Outcome::default();
    let settings = &segment.settings;
    in_steps(
        segment.region(),
        stripe,
        &segment.what,
        progress,
        |regions| {
            let outcome = match pages {
                Huge::Auto if !is_anonymous => huge::populate(regions, access, settings),
                Huge::Auto => {
                    let all = regions.iter().map(JobRegion::region);
                    all.for_each(crate::operation::want_huge_pages);
                    let settings = huge::in_huge_pages(settings, segment.region().length());
                    populate(regions, access, &settings)
                }
                Huge::Never | Huge::Pool(_) => populate(regions, access, settings),
            };
            total = total.then(outcome);
            outcome
        },
    )?;
    Ok(total)
}

/// Returns the access for which new memory is populated. It is written, since pages of shared
/// memory that were only read are clean, and the kernel drops clean pages of zeros
/// (shmem_recalc_inode of mm/shmem.c), by itself and for drop_caches. A file on a disk is only
/// read: otherwise all its pages would be written to the disk.
fn access(backing: &Backing) -> Access {
    match backing {
        Backing::Files { files, .. } => {
            let kind = files.first().and_then(backing::file_system);
            match kind {
                Some(backing::TMPFS | backing::HUGETLBFS) => Access::Write,
                _ => Access::Read,
            }
        }
        Backing::SystemV { .. } | Backing::Anonymous => Access::Write,
    }
}

/// Calls `step` for a region part by part, and reports progress after each part. A part
/// contains some of all stripes of the given size, so that helpers seldom work on the same
/// stripe.
pub fn in_steps(
    region: Region,
    stripe: Option<usize>,
    what: &str,
    progress: &mut Progress<'_>,
    mut step: impl FnMut(&mut [JobRegion]) -> Outcome,
) -> Result<(), SegmentError> {
    let interrupted = || SegmentError::Interrupted { what: what.into() };
    let each = stripe.unwrap_or(region.length());
    let count = region.length().div_ceil(each.max(1));
    let length = (region.length() / STEPS).max(STEP) / count.max(1);
    let length = length.next_multiple_of(huge::huge_page_size());
    let mut done = 0;
    for from in (0..each).step_by(length) {
        let mut regions: Vec<JobRegion> =
            parts(region, each, from, length.min(each - from)).collect();
        let outcome = step(&mut regions);
        match outcome.error {
            None => {}
            Some(Errno::INTR) => return Err(interrupted()),
            Some(errno) => return Err(failure(what, errno)),
        }
        done += outcome.wanted;
        if let ControlFlow::Break(()) = progress(done) {
            return Err(interrupted());
        }
    }
    Ok(())
}

/// Returns `length` bytes of each stripe, from byte `from` on, as small regions that alternate
/// between the stripes.
fn parts(
    region: Region,
    each: usize,
    from: usize,
    length: usize,
) -> impl Iterator<Item = JobRegion> {
    /// Bytes of a stripe before the next stripe follows: more than a slice.
    const TURN: usize = 16 << 20;
    let is_striped = each < region.length();
    let turn = if is_striped { TURN } else { length };
    (from..from + length).step_by(turn).flat_map(move |at| {
        let starts = (region.start()..region.end()).step_by(each.max(1));
        starts.filter_map(move |start| {
            let end = (at + turn).min(from + length).min(each);
            let part = Region::between(start + at, start + end).intersection(region);
            (!part.is_empty()).then(|| part.into())
        })
    })
}

fn failure(what: &str, errno: Errno) -> SegmentError {
    let error = SegmentError::system(what, "be populated", errno);
    match errno {
        // An access would have raised SIGBUS.
        Errno::FAULT => {
            error.hinted("; its file system or pool of huge pages is full, or its file was cut")
        }
        Errno::INVAL => error.hinted("; this needs Linux 5.14"),
        _ => error,
    }
}

fn lock(segment: &mut Segment, progress: &mut Progress<'_>) -> Result<(), SegmentError> {
    let failed = |errno| SegmentError::system(&segment.what, "be locked", errno);
    // Fails before any page is populated if limits do not allow the lock.
    match system::mlock_on_fault(segment.region()) {
        Ok(()) => {}
        // Before Linux 4.4, and in valgrind.
        Err(Errno::NOSYS) => return system::mlock(segment.region()).map_err(failed),
        Err(errno) => return Err(failed(errno)),
    }
    let access = match segment.backing {
        Backing::Anonymous => Access::Write,
        _ => Access::Read,
    };
    let settings: Settings = segment.settings;
    let made = in_steps(segment.region(), None, &segment.what, progress, |regions| {
        populate(regions, access, &settings)
    });
    // Pages faulted into a mapping that is locked on fault are locked, and all pages are now
    // resident: mlock would only walk over all of them again, on one processor (mlock_vma_folio
    // of mm/internal.h).
    made.inspect_err(|_| {
        let _ = system::munlock(segment.region());
    })
}

fn unlock(segment: &mut Segment) -> Result<(), SegmentError> {
    system::munlock(segment.region())
        .and_then(|()| match segment.backing {
            Backing::SystemV { id, .. } => system::shmctl(id, libc::SHM_UNLOCK),
            _ => Ok(()),
        })
        .map_err(|errno| SegmentError::system(&segment.what, "be unlocked", errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_stripes_once() {
        let region = Region::new(1 << 30, (5 << 30) + (6 << 20)).unwrap();
        for stripe in [None, Some(2 << 30), Some(64 << 20)] {
            let mut all: Vec<(usize, usize)> = Vec::new();
            let mut last = 0;
            let mut progress = |done| {
                assert!(done > last);
                last = done;
                ControlFlow::Continue(())
            };
            in_steps(region, stripe, "test", &mut progress, |regions| {
                let done = regions.iter().map(JobRegion::region);
                all.extend(done.map(|region| (region.start(), region.end())));
                Outcome {
                    wanted: regions.iter().map(|region| region.region().length()).sum(),
                    ..Outcome::default()
                }
            })
            .unwrap();
            assert_eq!(last, region.length());
            all.sort_unstable();
            assert_eq!(all.first().unwrap().0, region.start());
            assert!(all.windows(2).all(|two| two[0].1 == two[1].0));
            assert_eq!(all.last().unwrap().1, region.end());
        }
    }

    #[test]
    fn progress_callback_can_stop_the_work() {
        let region = Region::new(1 << 30, 4 << 30).unwrap();
        let mut steps = 0;
        let result = in_steps(region, None, "x", &mut |_| ControlFlow::Break(()), |_| {
            steps += 1;
            Outcome::default()
        });
        assert_eq!(result, Err(SegmentError::Interrupted { what: "x".into() }));
        assert_eq!(steps, 1);
    }
}
