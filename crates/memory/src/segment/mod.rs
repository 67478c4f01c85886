//! Large memory as one object: created, locked and freed by helpers.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use bigiron_memory::segment::{Kind, Removal, Request, Segment};
//!
//! let request = Request::new(Kind::SystemV { key: None }, 4 << 30);
//! let segment = Segment::create(&request, &mut |_bytes_done| ControlFlow::Continue(()))?;
//! println!("{:?} at {:?}", segment.id(), segment.region());
//! segment.destroy(&Removal::default())?;
//! # Ok::<(), bigiron_memory::segment::SegmentError>(())
//! ```
//!
//! The result is ordinary memory of the system: any program attaches a System V segment by its
//! id, opens a POSIX one by its name, and removes either.

mod attach;
mod backing;
mod error;
mod existing;
mod make;
mod map;
mod placement;
mod remove;
mod request;
mod room;
mod state;
mod system;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::SegmentError;
pub use existing::{Prewarmed, Target};
pub use placement::{NodeSample, sample as sample_placement};
pub use remove::{Removal, Removed};
pub use request::{Huge, Kind, Numa, Request};
pub use state::State;

use crate::engine::Settings;
use crate::region::Region;
use backing::Backing;
use map::Mapped;

/// Callback with the bytes done so far; returns `Break` to stop.
pub type Progress<'a> = dyn FnMut(usize) -> std::ops::ControlFlow<()> + 'a;

/// Memory that is mapped in this process. Dropping it unmaps the memory, and leaves objects
/// with an id or a name in the system.
#[derive(Debug)]
pub struct Segment {
    // Dropped first: a System V segment marked for removal while still attached is removed in
    // any case, whatever ends the program then.
    backing: Backing,
    mapped: Mapped,
    what: String,
    settings: Settings,
    numa: Numa,
    page: usize,
    made: Made,
}

/// Measurements of a segment's creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Total time.
    pub elapsed: Duration,
    /// Time spent populating.
    pub populating: Duration,
    /// Maximum number of helpers at work, including the caller.
    pub helpers: usize,
}

impl Segment {
    /// Returns the addresses of the segment in this process.
    pub fn region(&self) -> Region {
        self.mapped.region()
    }

    /// Returns the requested page size in bytes: that of the pool, or the system's small page
    /// size.
    pub fn page_size(&self) -> usize {
        self.page
    }

    /// Returns the id of a System V segment.
    pub fn id(&self) -> Option<i32> {
        match self.backing {
            Backing::SystemV { id, .. } => Some(id),
            _ => None,
        }
    }

    /// Returns the paths of the files of POSIX shared memory and other kinds with names;
    /// several for a striped segment.
    pub fn paths(&self) -> &[PathBuf] {
        match &self.backing {
            Backing::Files { paths, .. } => paths,
            _ => &[],
        }
    }

    /// Returns open descriptors of the segment's files and memfds, in the order of their
    /// addresses.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let files = match &self.backing {
            Backing::Files { files, .. } => files.as_slice(),
            _ => &[],
        };
        files.iter().map(AsFd::as_fd)
    }

    /// Returns the size of each stripe in bytes, except the last, which may be smaller; the
    /// total size of a segment without stripes.
    pub fn bytes_of_stripe(&self) -> usize {
        match self.backing {
            Backing::Files { each, .. } => each,
            _ => self.region().length(),
        }
    }

    /// Returns the measurements of the segment's creation.
    pub fn made(&self) -> Made {
        self.made
    }

    /// Determines the nodes of the segment's pages, from a sample of `samples` pages.
    pub fn placement(&self, samples: usize) -> Result<NodeSample, SegmentError> {
        placement::sample(self.region(), self.page, samples, &self.numa)
            .map_err(|errno| SegmentError::system(&self.what, "have its nodes determined", errno))
    }

    /// Returns the segment's resident, locked and huge bytes, as the kernel reports them.
    pub fn state(&self) -> Result<State, SegmentError> {
        state::of(self.region())
            .map_err(|errno| SegmentError::system(&self.what, "be looked up in smaps", errno))
    }
}

/// True if a file is shared memory: on tmpfs or hugetlbfs.
pub fn is_memory(path: &Path) -> bool {
    let file = rustix::fs::open(
        path,
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
    file.is_ok_and(|file| {
        let kind = backing::file_system(&file);
        matches!(kind, Some(backing::TMPFS | backing::HUGETLBFS))
    })
}
