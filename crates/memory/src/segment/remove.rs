//! Removal of memory from the system.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bigiron_helpers::{Stop, processor_count};
use rustix::fs::{Mode, OFlags, fstat, open, unlink};

use super::backing::Backing;
use super::{Segment, SegmentError, system};
use crate::engine::Settings;
use crate::operation::{forget, unmap_pages};
use crate::reaper::{Finishing, Held, Reaper, is_advisable};

/// Options of a removal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Removal<'a> {
    /// True if only the kernel's call is used.
    pub plain: bool,
    /// Absolute path of the program `bigiron`: as a reaper, it frees the part that a single
    /// processor must free, while the caller continues, if that is safe. Without one the caller
    /// waits.
    pub reaper: Option<&'a CStr>,
    /// Settings of the engine.
    pub settings: Settings,
}

/// Result of a removal.
#[derive(Debug)]
pub struct Removed {
    /// Time that the caller waited. Afterwards the memory no longer exists for any process.
    pub waited: Duration,
    /// Bytes that were resident, as far as the system reports them.
    pub bytes: u64,
    /// Number of other attachments of a System V segment: its memory is freed with the last.
    pub attached: u64,
    /// The reaper that is freeing the memory, if any.
    pub finishing: Option<Finishing>,
}

impl Segment {
    /// Unmaps the segment and removes it from the system.
    pub fn destroy(self, how: &Removal<'_>) -> Result<Removed, SegmentError> {
        destroy(self, how)
    }
}

fn destroy(segment: Segment, how: &Removal<'_>) -> Result<Removed, SegmentError> {
    let began = Instant::now();
    let Segment {
        mapped,
        mut backing,
        what,
        ..
    } = segment;
    let failed = |errno| SegmentError::system(&what, "be unmapped", errno);
    let region = mapped.region();
    let mut regions = [region.into()];
    // The result does not matter: unmapping completes the work.
    let _ = match (how.plain, &backing) {
        (true, _) => Ok(()),
        (false, Backing::Anonymous) => forget(&mut regions, &how.settings).result().map(drop),
        (false, _) => unmap_pages(&mut regions, &how.settings).result().map(drop),
    };
    mapped.end().map_err(failed)?;
    let removed = match &mut backing {
        Backing::SystemV { id, keep } => {
            *keep = true;
            system_v(*id, how)
        }
        Backing::Files { files, paths, .. } => {
            let files = std::mem::take(files);
            self::files(&what, files, paths, how)
        }
        Backing::Anonymous => Ok(Removed {
            waited: Duration::ZERO,
            bytes: region.length() as u64,
            attached: 0,
            finishing: None,
        }),
    };
    removed.map(|removed| Removed {
        waited: began.elapsed(),
        ..removed
    })
}

/// Removes a System V segment.
pub fn system_v(id: i32, how: &Removal<'_>) -> Result<Removed, SegmentError> {
    let began = Instant::now();
    let failed =
        |action| move |errno| SegmentError::system(format!("System V segment {id}"), action, errno);
    let state = system::shm_state(id).map_err(failed("be looked up"))?;
    let all = state.shm_segsz as u64;
    // For pages of a pool, the list counts each small page within one as a whole one
    // (shm_add_rss_swap of ipc/shm.c, since hugetlb folios count as many pages).
    let bytes = resident(id).map_or(all, |bytes| bytes.min(all));
    #[allow(clippy::unnecessary_cast)] // the field's type differs between processors
    let attached = state.shm_nattch as u64;
    let program = how.reaper.filter(|_| !how.plain && attached == 0);
    let reaper = program
        .filter(|_| is_advisable(bytes as usize))
        .and_then(|program| Reaper::start(program, &[Held::SystemV(id)], None).ok());
    system::shmctl(id, libc::IPC_RMID).map_err(failed("be removed"))?;
    let finishing = reaper.map(Reaper::go).inspect(|finishing| {
        finishing.wait_until_gone(id);
    });
    Ok(Removed {
        waited: began.elapsed(),
        bytes,
        attached,
        finishing,
    })
}

/// Returns the resident bytes of a System V segment.
pub fn resident(id: i32) -> Option<u64> {
    let list = std::fs::read_to_string("/proc/sysvipc/shm").ok()?;
    let mut lines = list.lines();
    let mut names = lines.next()?.split_ascii_whitespace();
    let column = names.position(|name| name == "rss")?;
    let id = id.to_string();
    let line = lines.find(|line| line.split_ascii_whitespace().nth(1) == Some(id.as_str()))?;
    line.split_ascii_whitespace().nth(column)?.parse().ok()
}

/// Removes the names of files, and then all references of this process to them.
pub fn files(
    what: &str,
    files: Vec<OwnedFd>,
    paths: &[PathBuf],
    how: &Removal<'_>,
) -> Result<Removed, SegmentError> {
    let began = Instant::now();
    let blocks = |file: &OwnedFd| fstat(file).map_or(0, |state| state.st_blocks.unsigned_abs());
    let bytes: u64 = files.iter().map(|file| blocks(file) * 512).sum();
    let held: Vec<Held> = files
        .iter()
        .map(|file| Held::Descriptor(file.as_raw_fd()))
        .collect();
    let reaper = how
        .reaper
        .filter(|_| !how.plain && is_advisable(bytes as usize))
        .and_then(|program| Reaper::start(program, &held, None).ok());
    for path in paths {
        unlink(path).map_err(|errno| {
            SegmentError::system(path.display().to_string(), "be removed", errno)
        })?;
    }
    if how.plain || reaper.is_some() {
        drop(files);
    } else {
        close_all(what, files, how.settings.helpers)?;
    }
    Ok(Removed {
        waited: began.elapsed(),
        bytes,
        attached: 0,
        finishing: reaper.map(Reaper::go),
    })
}

/// Closes files in several threads; each frees the pages of its files.
fn close_all(what: &str, files: Vec<OwnedFd>, helpers: usize) -> Result<(), SegmentError> {
    let helpers = helpers.min(files.len()).min(processor_count());
    let files = Mutex::new(files);
    let next = || files.lock().map_or(None, |mut files| files.pop());
    let closed = bigiron_helpers::run(helpers.max(1), &Stop::new(), |_| {
        while let Some(file) = next() {
            drop(file);
        }
        Ok::<_, std::io::Error>(())
    });
    closed
        .map(drop)
        .map_err(|_| SegmentError::system(what, "be closed", rustix::io::Errno::AGAIN))
}

/// Opens files by their paths; they exist until the descriptors are closed.
pub fn references(paths: &[PathBuf]) -> Result<Vec<OwnedFd>, SegmentError> {
    let reference = |path: &PathBuf| {
        // Requires no right to read the files.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        open(path, flags, Mode::empty())
            .map_err(|errno| SegmentError::system(path.display().to_string(), "be opened", errno))
    };
    paths.iter().map(reference).collect()
}
