//! Existing memory: segments and files of other programs.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::param::page_size;

use super::backing::{POSIX, stripe};
use super::map::Mapped;
use super::{Huge, Progress, Removal, Removed, SegmentError, is_memory, make, remove, system};
use crate::engine::{self, Outcome, Settings};
use crate::huge;
use crate::operation::{Access, populate};
use crate::region::JobRegion;

/// Bytes of a file mapped at a time.
const WINDOW: u64 = 1 << 30;

/// Existing memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A System V segment, by its id.
    SystemV(i32),
    /// Files: one, or all of a striped segment.
    Files(Vec<PathBuf>),
}

/// Outcome of a prewarm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prewarmed {
    /// Bytes whose pages are now resident.
    pub bytes: u64,
    /// Total time.
    pub elapsed: Duration,
    /// Maximum number of helpers at work, including the caller.
    pub helpers: usize,
}

impl Target {
    /// Finds the object named by a text: the id of a System V segment, or its key as `0x…`; the
    /// name of POSIX shared memory, whole or striped, as `/name` or `name`; or the path of a
    /// file.
    pub fn find(text: &str) -> Result<Self, SegmentError> {
        if let Some(key) = text.strip_prefix("0x") {
            let key = u32::from_str_radix(key, 16).map_err(|_| nothing(text))?;
            let id = system::shmget(key.cast_signed(), 0, 0).map_err(|errno| {
                SegmentError::system(format!("System V key {text}"), "be found", errno)
            })?;
            return Ok(Self::SystemV(id));
        }
        if let Ok(id) = text.parse() {
            system::shm_state(id).map_err(|errno| {
                let error =
                    SegmentError::system(format!("System V segment {id}"), "be found", errno);
                error.hinted("; ipcs -m lists the existing segments")
            })?;
            return Ok(Self::SystemV(id));
        }
        let name = text.trim_start_matches('/');
        let mut places = Vec::new();
        if !name.is_empty() && !name.contains('/') && name != "." && name != ".." {
            places.push(Path::new(POSIX).join(name));
        }
        places.push(PathBuf::from(text));
        let found = places.iter().find_map(|path| files_of(path));
        found.map(Self::Files).ok_or_else(|| nothing(text))
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> Result<u64, SegmentError> {
        match self {
            Self::SystemV(id) => system::shm_state(*id)
                .map(|state| state.shm_segsz as u64)
                .map_err(|errno| SegmentError::system(self.to_string(), "be looked up", errno)),
            Self::Files(paths) => paths
                .iter()
                .map(|path| {
                    rustix::fs::stat(path)
                        .map(|state| state.st_size.unsigned_abs())
                        .map_err(|errno| {
                            SegmentError::system(path.display().to_string(), "be inspected", errno)
                        })
                })
                .sum(),
        }
    }

    /// Populates all of the memory: the missing pages of shared memory, or the page cache of an
    /// ordinary file. Writes nothing.
    pub fn prewarm(
        &self,
        pages: Huge,
        settings: &Settings,
        progress: &mut Progress<'_>,
    ) -> Result<Prewarmed, SegmentError> {
        let began = Instant::now();
        engine::prepare();
        let mut prewarmed = match self {
            Self::SystemV(id) => self.prewarm_segment(*id, pages, settings, progress)?,
            Self::Files(paths) => {
                let mut all = Prewarmed::default();
                for path in paths {
                    prewarm_file(path, pages, settings, &mut all, progress)?;
                }
                all
            }
        };
        prewarmed.elapsed = began.elapsed();
        Ok(prewarmed)
    }

    fn prewarm_segment(
        &self,
        id: i32,
        pages: Huge,
        settings: &Settings,
        progress: &mut Progress<'_>,
    ) -> Result<Prewarmed, SegmentError> {
        let failed = |action| move |errno| SegmentError::system(self.to_string(), action, errno);
        let state = system::shm_state(id).map_err(failed("be looked up"))?;
        let mapped = Mapped::attach(id, state.shm_segsz, pages, libc::SHM_RDONLY)
            .map_err(failed("be attached"))?;
        let mut helpers = 0;
        make::in_steps(
            mapped.region(),
            None,
            &self.to_string(),
            progress,
            |regions| {
                let outcome = read_all(regions, pages, settings);
                helpers = outcome.helpers.max(helpers);
                outcome
            },
        )?;
        Ok(Prewarmed {
            bytes: state.shm_segsz as u64,
            helpers,
            ..Prewarmed::default()
        })
    }

    /// Locks a System V segment for as long as it exists (SHM_LOCK). Other memory can be locked
    /// only by processes that map it.
    pub fn lock(&self) -> Result<(), SegmentError> {
        match self {
            Self::SystemV(id) => system::shmctl(*id, libc::SHM_LOCK)
                .map_err(|errno| SegmentError::system(self.to_string(), "be locked", errno)),
            Self::Files(_) => Err(SegmentError::Wrong {
                what: format!("locking {self}"),
                expected: "a System V segment, which stays locked when this process ends".into(),
            }),
        }
    }

    /// Removes the object. Files are removed only from tmpfs and hugetlbfs: others are not
    /// memory.
    pub fn remove(&self, how: &Removal<'_>) -> Result<Removed, SegmentError> {
        match self {
            Self::SystemV(id) => remove::system_v(*id, how),
            Self::Files(paths) => {
                if let Some(path) = paths.iter().find(|path| !is_memory(path)) {
                    return Err(SegmentError::Wrong {
                        what: path.display().to_string(),
                        expected: "a file of tmpfs or hugetlbfs; others are removed by rm".into(),
                    });
                }
                let files = remove::references(paths)?;
                remove::files(&self.to_string(), files, paths, how)
            }
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SystemV(id) => write!(formatter, "System V segment {id}"),
            Self::Files(paths) => {
                let first = paths.first().map(PathBuf::as_path).unwrap_or(Path::new(""));
                write!(formatter, "{}", first.display())?;
                match paths.len() {
                    0 | 1 => Ok(()),
                    count => write!(formatter, " and {} more stripes", count - 1),
                }
            }
        }
    }
}

fn nothing(text: &str) -> SegmentError {
    SegmentError::Wrong {
        what: format!("`{text}`"),
        expected: "the id of a System V segment or its key as 0x…, the name of POSIX shared \
                   memory, or the path of a file; there is nothing of that name"
            .into(),
    }
}

/// Returns the file at a path, or the stripes of that name.
fn files_of(path: &Path) -> Option<Vec<PathBuf>> {
    if fs::symlink_metadata(path).is_ok() {
        return Some(vec![path.to_owned()]);
    }
    let stripes: Vec<_> = (0..crate::reaper::MAX_HELD)
        .map(|number| stripe(path, number))
        .take_while(|path| fs::symlink_metadata(path).is_ok())
        .collect();
    (stripes.len() > 1).then_some(stripes)
}

fn read_all(regions: &mut [JobRegion], pages: Huge, settings: &Settings) -> Outcome {
    match pages {
        Huge::Auto => huge::populate(regions, Access::Read, settings),
        _ => populate(regions, Access::Read, settings),
    }
}

/// Prewarms a file in windows: it may be larger than the address space limit allows.
fn prewarm_file(
    path: &Path,
    pages: Huge,
    settings: &Settings,
    all: &mut Prewarmed,
    progress: &mut Progress<'_>,
) -> Result<(), SegmentError> {
    let name = path.display().to_string();
    let failed = |action| {
        let name = name.clone();
        move |errno| SegmentError::system(name, action, errno)
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = open(path, flags, Mode::empty()).map_err(failed("be opened"))?;
    let state = fstat(&file).map_err(failed("be inspected"))?;
    if FileType::from_raw_mode(state.st_mode) != FileType::RegularFile {
        return Err(SegmentError::Wrong {
            what: name,
            expected: "an ordinary file, or shared memory".into(),
        });
    }
    // Huge pages are for memory; on a disk, the file system chooses the page size.
    let pages = if is_memory(path) { pages } else { Huge::Never };
    let size = state.st_size.unsigned_abs();
    #[allow(clippy::unnecessary_cast)] // the field's type differs between processors
    let page = (state.st_blksize as usize).max(page_size());
    for at in (0..size).step_by(WINDOW as usize) {
        let length = (size - at).min(WINDOW) as usize;
        let window = Mapped::read_only(&file, at, length.next_multiple_of(page_size()))
            .or_else(|errno| match errno {
                // Mappings of a file on hugetlbfs are multiples of its page size.
                Errno::INVAL => Mapped::read_only(&file, at, length.next_multiple_of(page)),
                other => Err(other),
            })
            .map_err(failed("be mapped"))?;
        let before = all.bytes;
        let mut here = |done: usize| -> ControlFlow<()> {
            all.bytes = before + done as u64;
            progress(all.bytes as usize)
        };
        let helpers = &mut all.helpers;
        make::in_steps(window.region(), None, &name, &mut here, |regions| {
            let outcome = read_all(regions, pages, settings);
            *helpers = outcome.helpers.max(*helpers);
            outcome
        })?;
        all.bytes = before + length as u64;
    }
    Ok(())
}
