//! A tree that is mounted.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use fuser::{Config, SessionACL};
use rustix::process::{getegid, geteuid};

use crate::error::MountError;
use crate::filesystem::{Tell, TreeFilesystem};
use crate::mountpoint::Mountpoint;
use crate::tree::Tree;

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
    /// Is told why something cannot be read.
    pub tell: Tell,
}

/// A tree that is mounted, and waits to be served.
pub struct Session {
    inner: fuser::Session<TreeFilesystem>,
    mountpoint: Mountpoint,
}

impl Session {
    /// Mounts `tree` over `directory`, an empty one.
    pub fn new(tree: Tree, directory: &Path, options: Options) -> Result<Self, MountError> {
        let (mountpoint, file) = Mountpoint::new(directory, &options.name)?;
        let filesystem = TreeFilesystem {
            tree,
            owner: (geteuid().as_raw(), getegid().as_raw()),
            time: options.time,
            tell: options.tell,
            told: AtomicUsize::new(0),
        };
        let mut config = Config::default();
        config.n_threads = Some(options.threads.max(1));
        // Each thread has a queue of its own in the kernel.
        config.clone_fd = true;
        let inner = fuser::Session::from_fd(filesystem, file, SessionACL::Owner, config);
        let inner = inner.map_err(|source| {
            let _ = mountpoint.unmount();
            MountError::Serve {
                path: directory.to_owned(),
                source,
            }
        })?;
        Ok(Self { inner, mountpoint })
    }

    /// Serves in threads of its own until it is unmounted, by whomever; then `ended` is
    /// called. When this returns, the directory can be looked into.
    pub fn start(self, ended: impl FnOnce() + Send + 'static) -> Result<Serving, MountError> {
        let Self {
            inner,
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
            let result = inner.run();
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
