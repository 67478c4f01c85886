//! Backing of a segment: a System V id, files, or nothing.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, FallocateFlags, MemfdFlags, Mode, OFlags, fallocate, fchmod, fstatfs, ftruncate,
    memfd_create, openat, unlink,
};
use rustix::io::Errno;

use super::{Huge, Kind, Request, SegmentError, system};
use crate::huge::huge_page_size;

/// Directory of POSIX shared memory (glibc and musl).
pub const POSIX: &str = "/dev/shm";

/// `st_type` of hugetlbfs and tmpfs (include/uapi/linux/magic.h).
pub const HUGETLBFS: u64 = 0x9584_58f6;
pub const TMPFS: u64 = 0x0102_1994;

/// Position of the logarithm of a page size in flags (SHM_HUGE_SHIFT, MFD_HUGE_SHIFT,
/// MAP_HUGE_SHIFT).
pub const HUGE_SHIFT: u32 = 26;

/// An object in the system. Dropping it removes its names, unless [`Backing::keep`] was called.
#[derive(Debug)]
pub enum Backing {
    /// A System V segment.
    SystemV { id: i32, keep: bool },
    /// Consecutive files, each of `each` bytes; the last may be smaller.
    Files {
        files: Vec<OwnedFd>,
        /// Paths of the files; none for memfds.
        paths: Vec<PathBuf>,
        /// Number of existing names, which are removed on drop.
        named: usize,
        each: usize,
    },
    /// An anonymous mapping.
    Anonymous,
}

impl Backing {
    pub fn make(request: &Request) -> Result<Self, SegmentError> {
        match &request.kind {
            Kind::SystemV { key } => system_v(request, *key),
            Kind::Anonymous => Ok(Self::Anonymous),
            Kind::Posix { .. } | Kind::Memfd { .. } | Kind::File { .. } => files(request),
        }
    }

    /// Links files to their names, and leaves everything in the system on drop.
    pub fn keep(&mut self) -> Result<(), SegmentError> {
        match self {
            Self::SystemV { keep, .. } => *keep = true,
            Self::Anonymous => {}
            Self::Files {
                files,
                paths,
                named,
                ..
            } => {
                for (file, path) in files.iter().zip(paths.iter()).skip(*named) {
                    system::link(file.as_fd(), path).map_err(|errno| {
                        SegmentError::system(path.display().to_string(), "be named", errno)
                    })?;
                    *named += 1;
                }
                *named = 0;
            }
        }
        Ok(())
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        match self {
            Self::SystemV { id, keep: false } => drop(system::shmctl(*id, libc::IPC_RMID)),
            Self::Files { paths, named, .. } => {
                for path in paths.iter().take(*named) {
                    let _ = unlink(path);
                }
            }
            _ => {}
        }
    }
}

fn system_v(request: &Request, key: Option<i32>) -> Result<Backing, SegmentError> {
    let mut flags = libc::IPC_CREAT | libc::IPC_EXCL | (request.mode & 0o777) as i32;
    if let Huge::Pool(size) = request.huge {
        flags |= libc::SHM_HUGETLB | (size.trailing_zeros() << HUGE_SHIFT) as i32;
    }
    let id = system::shmget(key.unwrap_or(libc::IPC_PRIVATE), request.bytes, flags)
        .map_err(|errno| SegmentError::system(request.what(), "be created", errno))
        .map_err(|error| match error.errno() {
            Errno::PERM if flags & libc::SHM_HUGETLB != 0 => {
                error.hinted("; add this group to sysctl vm.hugetlb_shm_group")
            }
            Errno::EXIST => error.hinted("; use another key, or remove the segment that has it"),
            _ => error,
        })?;
    Ok(Backing::SystemV { id, keep: false })
}

/// Returns the paths of a kind with names, one for each stripe.
pub fn paths(kind: &Kind, stripes: usize) -> Vec<PathBuf> {
    let path = match kind {
        Kind::Posix { name } => Path::new(POSIX).join(name.trim_start_matches('/')),
        Kind::File { path } => path.clone(),
        _ => return Vec::new(),
    };
    if stripes == 1 {
        return vec![path];
    }
    (0..stripes).map(|number| stripe(&path, number)).collect()
}

/// Returns the path of a stripe.
pub fn stripe(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Returns the directory of a file of this kind.
pub fn directory_of(kind: &Kind) -> Option<PathBuf> {
    let path = paths(kind, 1).pop()?;
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    Some(parent.unwrap_or(Path::new(".")).to_owned())
}

/// Minimum size of a stripe in bytes, a multiple of every page size. With huge pages of 512 MiB
/// (arm64 with pages of 64 KiB) segments have stripes of smaller pages too.
const MIN_STRIPE: usize = 2 << 20;

/// Returns the size of each stripe in bytes: whole huge pages, if they are as large as one.
pub fn stripe_bytes(request: &Request) -> usize {
    match request.stripes {
        1 => request.bytes,
        stripes => request.bytes.div_ceil(stripes).next_multiple_of(
            match request.bytes.div_ceil(stripes) {
                each if each >= huge_page_size() => huge_page_size(),
                _ => MIN_STRIPE,
            },
        ),
    }
}

fn files(request: &Request) -> Result<Backing, SegmentError> {
    let each = stripe_bytes(request);
    let mut backing = Backing::Files {
        files: Vec::new(),
        paths: paths(&request.kind, request.stripes),
        named: 0,
        each,
    };
    for number in 0..request.stripes {
        let Some(bytes) = request
            .bytes
            .checked_sub(number * each)
            .filter(|left| *left > 0)
        else {
            return Err(SegmentError::Wrong {
                what: format!("{} stripes", request.stripes),
                expected: "fewer, each of at least 2 MiB".into(),
            });
        };
        add_file(&mut backing, request, number, bytes.min(each))?;
    }
    Ok(backing)
}

fn add_file(
    backing: &mut Backing,
    request: &Request,
    number: usize,
    bytes: usize,
) -> Result<(), SegmentError> {
    let Backing::Files {
        files,
        paths,
        named,
        ..
    } = backing
    else {
        return Ok(());
    };
    let what = paths
        .get(number)
        .map_or_else(|| request.what(), |path| path.display().to_string());
    let failed = |action| {
        let what = what.clone();
        move |errno| SegmentError::system(what, action, errno)
    };
    let file = match paths.get(number) {
        Some(path) => {
            let (file, has_name) = new_file(path, request).map_err(failed("be created"))?;
            *named += usize::from(has_name);
            file
        }
        None => memfd(request).map_err(failed("be created"))?,
    };
    if !paths.is_empty() {
        fchmod(&file, Mode::from_raw_mode(request.mode)).map_err(failed("have its mode set"))?;
    }
    let length = bytes as u64;
    ftruncate(&file, length).map_err(failed("be extended"))?;
    let on_disk = !matches!(file_system(&file), Some(TMPFS | HUGETLBFS));
    if on_disk || !request.populate {
        // Reserves the space. Not for shared memory that is populated next: space reserved in
        // small pages does not become huge pages.
        match fallocate(&file, FallocateFlags::empty(), 0, length) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(failed("have its space reserved")(errno)),
        }
    }
    files.push(file);
    Ok(())
}

/// Creates a file without a name, which is linked when the file is complete; with its name on
/// file systems that do not support this. Returns true for the latter.
fn new_file(path: &Path, request: &Request) -> Result<(OwnedFd, bool), Errno> {
    let mode = Mode::from_raw_mode(request.mode);
    if rustix::fs::lstat(path).is_ok() {
        return Err(Errno::EXIST);
    }
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let nameless = openat(
        CWD,
        directory.unwrap_or(Path::new(".")),
        flags | OFlags::TMPFILE,
        mode,
    );
    match nameless {
        Ok(file) => Ok((file, false)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let named = flags | OFlags::CREATE | OFlags::EXCL;
            Ok((openat(CWD, path, named, mode)?, true))
        }
        Err(errno) => Err(errno),
    }
}

fn memfd(request: &Request) -> Result<OwnedFd, Errno> {
    let Kind::Memfd { name } = &request.kind else {
        return Err(Errno::INVAL);
    };
    let flags = match request.huge {
        Huge::Pool(size) => {
            let size = MemfdFlags::from_bits_retain(size.trailing_zeros() << HUGE_SHIFT);
            MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | size
        }
        Huge::Auto | Huge::Never => MemfdFlags::CLOEXEC,
    };
    memfd_create(name.as_str(), flags)
}

/// Returns the type of the file system of a file.
pub fn file_system(file: impl AsFd) -> Option<u64> {
    #[allow(clippy::unnecessary_cast)] // the field's type differs between processors
    fstatfs(file).ok().map(|state| state.f_type as u64)
}
