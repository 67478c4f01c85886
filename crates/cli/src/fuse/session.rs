//! A tree that is mounted.

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
use crate::fuse::mountpoint::{Access, Mountpoint};
use crate::fuse::served::{Served, Tell};
use crate::fuse::tree::Tree;

/// What the kernel reads ahead of someone who reads in order: several chunks of a
/// compressed dump, so that several threads unpack.
const READ_AHEAD_KIB: u32 = 1024;

/// How a tree is mounted.
pub struct Options {
    /// What lists of mounts show in the place of a device.
    pub name: String,
    /// Threads that serve, at least one.
    pub threads: usize,
    /// The time of all files.
    pub time: SystemTime,
    /// Whether all users may look, by the modes of files; else only who mounts.
    pub everyone: bool,
    /// Is told why something cannot be read.
    pub tell: Tell,
}

/// A tree that is mounted, and waits to be served.
pub struct Session {
    run: Box<dyn FnOnce() -> io::Result<()> + Send>,
    mountpoint: Mountpoint,
}

impl Session {
    /// Mounts `tree` over `directory`, an empty one.
    ///
    /// # Errors
    /// The directory cannot be used, or the system does not mount it.
    pub fn new(tree: Tree, directory: &Path, options: Options) -> Result<Self, MountError> {
        let make = |served| TreeFilesystem { tree, served };
        Self::mount(directory, options, false, make)
    }

    /// Mounts a tree that is asked anew each time over `directory`, an empty one.
    ///
    /// # Errors
    /// As for [`Session::new`].
    pub fn live(tree: impl Live, directory: &Path, options: Options) -> Result<Self, MountError> {
        let writable = tree.is_writable();
        let make = |served| LiveFilesystem::new(tree, served);
        Self::mount(directory, options, writable, make)
    }

    fn mount<F: Filesystem + Send + 'static>(
        directory: &Path,
        options: Options,
        writable: bool,
        make: impl FnOnce(Served) -> F,
    ) -> Result<Self, MountError> {
        let access = Access {
            writable,
            everyone: options.everyone,
        };
        let (mountpoint, file) = Mountpoint::new(directory, &options.name, access)?;
        let filesystem = make(Served {
            owner: (geteuid().as_raw(), getegid().as_raw()),
            time: options.time,
            tell: options.tell,
            told: AtomicUsize::new(0),
        });
        let mut config = Config::default();
        config.n_threads = Some(options.threads.max(1));
        // Each thread has a queue of its own in the kernel.
        config.clone_fd = true;
        let users = match options.everyone {
            true => SessionACL::All,
            false => SessionACL::Owner,
        };
        let inner = fuser::Session::from_fd(filesystem, file, users, config);
        let inner = inner.map_err(|source| {
            let _ = mountpoint.unmount();
            MountError::Serve {
                path: directory.to_owned(),
                source,
            }
        })?;
        Ok(Self {
            run: Box::new(move || inner.run()),
            mountpoint,
        })
    }

    /// Serves in threads of its own until it is unmounted, by whomever; then `ended` is
    /// called. When this returns, the directory can be looked into.
    pub fn start(self, ended: impl FnOnce() + Send + 'static) -> Result<Serving, MountError> {
        let Self {
            run,
            mut mountpoint,
        } = self;
        let failed = |mountpoint: &Mountpoint, source| {
            let _ = mountpoint.unmount();
            MountError::Serve {
                path: mountpoint.directory().to_owned(),
                source,
            }
        };
        let run = move || {
            let result = run();
            ended();
            result
        };
        let thread = thread::Builder::new().name("mount".into()).spawn(run);
        let thread = thread.map_err(|error| failed(&mountpoint, error))?;
        // The first question, which is ours, is answered by what was just started.
        mountpoint
            .look()
            .map_err(|error| failed(&mountpoint, error))?;
        mountpoint.set_read_ahead(READ_AHEAD_KIB);
        Ok(Serving { mountpoint, thread })
    }
}

/// A tree that is mounted and served.
pub struct Serving {
    mountpoint: Mountpoint,
    thread: JoinHandle<io::Result<()>>,
}

impl Serving {
    /// Where it is.
    pub fn mountpoint(&self) -> &Mountpoint {
        &self.mountpoint
    }

    /// Waits until it is unmounted and nobody uses it any more.
    pub fn join(self) -> Result<(), MountError> {
        let panicked = || Err(io::Error::other("a thread panicked"));
        let result = self.thread.join().unwrap_or_else(|_| panicked());
        result.map_err(|source| MountError::Serve {
            path: self.mountpoint.directory().to_owned(),
            source,
        })
    }
}
