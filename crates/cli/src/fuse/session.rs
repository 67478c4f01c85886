//! A mounted tree.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use fuser::{Config, Filesystem, SessionACL};
use rustix::process::{getegid, geteuid};

use crate::fuse::error::MountError;
use crate::fuse::filesystem::TreeFilesystem;
use crate::fuse::live::Live;
use crate::fuse::live_filesystem::LiveFilesystem;
use crate::fuse::mounted::{Mounted, Place};
use crate::fuse::mountpoint::Access;
use crate::fuse::served::{Served, Tell};
use crate::fuse::tree::Tree;

/// Options of a mount.
pub struct Options {
    /// Name shown instead of a device in lists of mounts.
    pub name: String,
    /// Serving threads, at least one.
    pub threads: usize,
    /// Time stamp of all files.
    pub time: SystemTime,
    /// True if all users may read, subject to the modes of files; otherwise only the user who
    /// mounts.
    pub everyone: bool,
    /// True if the files are unpacked in chunks of many pages.
    pub is_chunked: bool,
    /// Callback that reports why something cannot be read.
    pub tell: Tell,
}

/// A mounted tree that is not yet served.
pub struct Session {
    run: Box<dyn FnOnce() -> io::Result<()> + Send>,
    mounted: Mounted,
    is_chunked: bool,
}

impl Session {
    /// Mounts `tree` on the directory at `place`, which must be empty.
    ///
    /// # Errors
    ///
    /// The directory cannot be used, or mounting is refused.
    pub fn new(tree: Tree, place: Place, options: Options) -> Result<Self, MountError> {
        let make = |served| TreeFilesystem { tree, served };
        Self::mount(place, options, false, make)
    }

    /// Mounts a changing tree on `directory`, which must be empty.
    ///
    /// # Errors
    ///
    /// As for [`Session::new`].
    pub fn live(tree: impl Live, directory: &Path, options: Options) -> Result<Self, MountError> {
        let writable = tree.is_writable();
        let make = |served| LiveFilesystem::new(tree, served);
        Self::mount(
            Place::Directory(directory.to_owned()),
            options,
            writable,
            make,
        )
    }

    fn mount<F: Filesystem + Send + 'static>(
        place: Place,
        options: Options,
        writable: bool,
        make: impl FnOnce(Served) -> F,
    ) -> Result<Self, MountError> {
        let access = Access {
            writable,
            everyone: options.everyone,
        };
        let (mounted, file) = Mounted::new(place, &options.name, access)?;
        let filesystem = make(Served {
            owner: (geteuid().as_raw(), getegid().as_raw()),
            time: options.time,
            tell: options.tell,
            reported: AtomicUsize::new(0),
        });
        let mut config = Config::default();
        config.n_threads = Some(options.threads.max(1));
        // Each thread has its own queue in the kernel.
        config.clone_fd = true;
        let users = match options.everyone {
            true => SessionACL::All,
            false => SessionACL::Owner,
        };
        let inner = fuser::Session::from_fd(filesystem, file, users, config);
        let inner = inner.map_err(|cause| {
            let _ = mounted.unmount();
            MountError::Serve {
                path: mounted.directory().to_owned(),
                cause,
            }
        })?;
        Ok(Self {
            run: Box::new(move || inner.run()),
            mounted,
            is_chunked: options.is_chunked,
        })
    }

    /// Serves in background threads until unmounted, then calls `ended`. The directory can be
    /// read as soon as this returns.
    pub fn start(self, ended: impl FnOnce() + Send + 'static) -> Result<Serving, MountError> {
        let Self {
            run,
            mut mounted,
            is_chunked,
        } = self;
        let failed = |mounted: &Mounted, cause| {
            let _ = mounted.unmount();
            MountError::Serve {
                path: mounted.directory().to_owned(),
                cause,
            }
        };
        let run = move || {
            let result = run();
            ended();
            result
        };
        let thread = thread::Builder::new().name("mount".into()).spawn(run);
        let thread = thread.map_err(|error| failed(&mounted, error))?;
        // This first request is answered by the threads just started.
        let looked = mounted.look(is_chunked);
        looked.map_err(|error| failed(&mounted, error))?;
        Ok(Serving { mounted, thread })
    }
}

/// A mounted and served tree.
pub struct Serving {
    mounted: Mounted,
    thread: JoinHandle<io::Result<()>>,
}

impl Serving {
    /// Returns the mount.
    pub fn mounted(&self) -> &Mounted {
        &self.mounted
    }

    /// Waits until the tree is unmounted and no longer in use.
    pub fn join(self) -> Result<(), MountError> {
        let panicked = || Err(io::Error::other("a thread panicked"));
        let result = self.thread.join().unwrap_or_else(|_| panicked());
        result.map_err(|cause| MountError::Serve {
            path: self.mounted.directory().to_owned(),
            cause,
        })
    }
}
