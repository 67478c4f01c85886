//! Attachment of existing memory.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::mm::ProtFlags;
use rustix::param::page_size;

use super::backing::{Backing, HUGETLBFS, file_system};
use super::map::Mapped;
use super::{Huge, Made, Numa, Segment, SegmentError, Target, system};
use crate::engine::{self, Settings};
use crate::operation::{forget, unmap_pages};

impl Segment {
    /// Maps existing memory, at an address where huge pages can be mapped unless `pages`
    /// excludes them.
    ///
    /// The memory is not populated: see [`Target::prewarm`].
    pub fn attach(
        target: &Target,
        pages: Huge,
        read_only: bool,
        settings: &Settings,
    ) -> Result<Self, SegmentError> {
        engine::prepare();
        let what = target.to_string();
        let (mapped, backing) = match target {
            Target::SystemV(id) => attach_system_v(*id, &what, pages, read_only)?,
            Target::Files(paths) => attach_files(paths, &what, pages, read_only)?,
        };
        let page = match &backing {
            Backing::Files { files, .. } => files.first().map_or(page_size(), page_of),
            _ => page_size(),
        };
        Ok(Self {
            mapped,
            backing,
            what,
            settings: *settings,
            numa: Numa::Local,
            page,
            made: Made::default(),
        })
    }

    /// Unmaps the segment; memory with an id or a name stays in the system. Helpers first
    /// remove the page tables.
    pub fn detach(self) -> Result<(), SegmentError> {
        let mut regions = [self.region().into()];
        // The result does not matter: unmapping completes the work.
        let _ = match self.backing {
            Backing::Anonymous => forget(&mut regions, &self.settings),
            _ => unmap_pages(&mut regions, &self.settings),
        };
        let failed = |errno| SegmentError::system(&self.what, "be unmapped", errno);
        self.mapped.end().map_err(failed)
    }
}

fn attach_system_v(
    id: i32,
    what: &str,
    pages: Huge,
    read_only: bool,
) -> Result<(Mapped, Backing), SegmentError> {
    let state =
        system::shm_state(id).map_err(|errno| SegmentError::system(what, "be looked up", errno))?;
    let flags = if read_only { libc::SHM_RDONLY } else { 0 };
    let mapped = Mapped::attach(id, state.shm_segsz, pages, flags)
        .map_err(|errno| SegmentError::system(what, "be attached", errno))?;
    Ok((mapped, Backing::SystemV { id, keep: true }))
}

fn attach_files(
    paths: &[PathBuf],
    what: &str,
    pages: Huge,
    read_only: bool,
) -> Result<(Mapped, Backing), SegmentError> {
    let access = if read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    let (mut files, mut sizes) = (Vec::new(), Vec::new());
    for path in paths {
        let failed =
            |action| move |errno| SegmentError::system(path.display().to_string(), action, errno);
        let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = open(path, flags, Mode::empty()).map_err(failed("be opened"))?;
        let state = fstat(&file).map_err(failed("be inspected"))?;
        sizes.push(usize::try_from(state.st_size).unwrap_or(0));
        files.push(file);
    }
    let each = sizes.first().copied().unwrap_or(0);
    let others = sizes.get(1..sizes.len().saturating_sub(1));
    let fit = others.is_none_or(|others| others.iter().all(|size| *size == each))
        && sizes.last().is_none_or(|last| *last <= each);
    if !fit || sizes.contains(&0) {
        return Err(SegmentError::Wrong {
            what: format!("{what}: {sizes:?} bytes"),
            expected: "shared memory that is not empty, or stripes of equal size".into(),
        });
    }
    let protection = match read_only {
        true => ProtFlags::READ,
        false => ProtFlags::READ | ProtFlags::WRITE,
    };
    let pages = match files.first().and_then(file_system) {
        // The kernel itself aligns mappings of hugetlbfs.
        Some(HUGETLBFS) => Huge::Never,
        _ => pages,
    };
    let mapped = Mapped::files(&files, sizes.iter().sum(), each, pages, protection)
        .map_err(|errno| SegmentError::system(what, "be mapped", errno))?;
    let backing = Backing::Files {
        files,
        paths: paths.to_vec(),
        named: 0,
        each,
    };
    Ok((mapped, backing))
}

fn page_of(file: &OwnedFd) -> usize {
    let size = rustix::fs::fstatfs(file).map_or(0, |state| state.f_bsize);
    #[allow(clippy::unnecessary_cast)] // the field's type differs between processors
    (size as usize).max(page_size())
}
