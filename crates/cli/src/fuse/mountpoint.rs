//! The kernel's mount of a directory.
//!
//! mount(2) is used if permitted, otherwise fusermount3. libfuse is not needed.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{getgid, getuid};

use crate::fuse::error::MountError;
use crate::fuse::fusermount;

const DEVICE: &str = "/dev/fuse";
/// The file system type in lists of mounts.
const TYPE: &str = "fuse.bigiron";
const SUBTYPE: &str = "bigiron";

/// Permissions of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// True if files can be written.
    pub(crate) writable: bool,
    /// True if other users have access.
    pub(crate) everyone: bool,
}

impl Access {
    /// The corresponding mount option.
    fn option(self) -> &'static str {
        match self.everyone {
            true => ",allow_other",
            false => "",
        }
    }
}

/// Outcome of unmounting a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// The mount was not in use.
    Clean,
    /// The mount was in use: a program has an open file or its working directory in it. The
    /// mount is detached, and ends with its last user.
    Lazy,
    /// The directory was no longer mounted.
    Already,
}

/// A mounted directory.
#[derive(Clone, Debug)]
pub struct Mountpoint {
    directory: PathBuf,
    /// Device number of the mount, once known.
    device: Option<u64>,
}

impl Mountpoint {
    /// Mounts `directory`, which must be empty, and returns the FUSE device file. Lists of
    /// mounts show it as `name`.
    pub(crate) fn new(
        directory: &Path,
        name: &str,
        access: Access,
    ) -> Result<(Self, OwnedFd), MountError> {
        let directory = check(directory)?;
        let mut flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        flags.set(MountFlags::RDONLY, !access.writable);
        let file = OpenOptions::new().read(true).write(true).open(DEVICE);
        let file = match file {
            Ok(file) => match mount_directly(&directory, name, &file, flags, access) {
                Ok(()) => Some(file),
                Err(Errno::PERM) => None,
                Err(error) => return Err(refused(&directory, error)),
            },
            // fusermount3 may open what this process may not.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(cause) => return Err(MountError::NoFuse { cause }),
        };
        let file = match file {
            Some(file) => file.into(),
            None => fusermount::mount(&directory, &helper_options(name, access))?,
        };
        Ok((
            Self {
                directory,
                device: None,
            },
            file,
        ))
    }

    /// Records the mount's device number. The mount must already be served.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        self.device = Some(fs::metadata(&self.directory)?.dev());
        Ok(())
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Sets the read-ahead in KiB, if permitted: a FUSE file system can only request less than
    /// the default of 128.
    pub(crate) fn set_read_ahead(&self, kib: u32) {
        let Some(device) = self.device else { return };
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        // Not fs::write, which would create a missing file.
        if let Ok(mut file) = OpenOptions::new().write(true).open(path) {
            let _ = io::Write::write_all(&mut file, kib.to_string().as_bytes());
        }
    }

    /// Unmounts. A mount in use is detached at once, and ends with its last user.
    ///
    /// # Errors
    ///
    /// The directory is still mounted.
    pub fn unmount(&self) -> Result<Unmounted, MountError> {
        // By now another mount may have replaced or covered it.
        if let (Some(device), Ok(found)) = (self.device, fs::metadata(&self.directory))
            && found.dev() != device
        {
            return Ok(Unmounted::Already);
        }
        let stays = |reason: String| MountError::Stays {
            path: self.directory.clone(),
            reason,
        };
        let lazy = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        match unmount(&self.directory, UnmountFlags::NOFOLLOW) {
            Ok(()) => Ok(Unmounted::Clean),
            Err(Errno::BUSY) => match unmount(&self.directory, lazy) {
                Ok(()) => Ok(Unmounted::Lazy),
                Err(error) => Err(stays(error.to_string())),
            },
            Err(Errno::INVAL | Errno::NOENT) => Ok(Unmounted::Already),
            Err(Errno::PERM) => match fusermount::unmount(&self.directory, false) {
                Ok(()) => Ok(Unmounted::Clean),
                Err(_) => fusermount::unmount(&self.directory, true)
                    .map(|()| Unmounted::Lazy)
                    .map_err(stays),
            },
            Err(error) => Err(stays(error.to_string())),
        }
    }
}

fn mount_directly(
    directory: &Path,
    name: &str,
    file: &File,
    flags: MountFlags,
    access: Access,
) -> Result<(), Errno> {
    let options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions{}",
        file.as_raw_fd(),
        getuid().as_raw(),
        getgid().as_raw(),
        access.option()
    );
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    mount(name, directory, TYPE, flags, options.as_c_str())
}

/// Returns the options for fusermount3, which splits them at commas.
fn helper_options(name: &str, access: Access) -> String {
    let name = name.replace('\\', "\\\\").replace(',', "\\,");
    let write = if access.writable { "rw" } else { "ro" };
    let users = access.option();
    format!(
        "{write},nosuid,nodev,noexec,default_permissions{users},subtype={SUBTYPE},fsname={name}"
    )
}

/// Returns the directory's absolute path, if it can be mounted on.
fn check(directory: &Path) -> Result<PathBuf, MountError> {
    let wrong = |reason: String| MountError::Directory {
        path: directory.to_owned(),
        reason,
    };
    let why = |error: io::Error| {
        wrong(match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => "no such directory; create it first".into(),
            Some(Errno::NOTCONN) => {
                "the program of an earlier mount has exited; `umount` it first".into()
            }
            _ => error.to_string(),
        })
    };
    let metadata = fs::metadata(directory).map_err(why)?;
    if !metadata.is_dir() {
        return Err(wrong("is not a directory".into()));
    }
    let mut entries = fs::read_dir(directory).map_err(why)?;
    if entries.next().is_some() {
        return Err(wrong(
            "is not empty, and its contents would be hidden".into(),
        ));
    }
    fs::canonicalize(directory).map_err(why)
}

fn refused(directory: &Path, error: Errno) -> MountError {
    MountError::Refused {
        path: directory.to_owned(),
        reason: match error {
            Errno::NODEV => "the kernel has no FUSE; try `modprobe fuse`".into(),
            error => error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_directories_are_errors_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::write(at.join("file"), "").unwrap();
        let why = |path: &Path| check(path).unwrap_err().to_string();
        assert!(why(at).contains("is not empty"), "{}", why(at));
        assert!(why(&at.join("file")).contains("is not a directory"));
        assert!(why(&at.join("none")).contains("create it first"));
        fs::create_dir(at.join("empty")).unwrap();
        assert!(check(&at.join("empty")).is_ok());
    }

    #[test]
    fn name_cannot_inject_options() {
        let access = Access {
            writable: false,
            everyone: false,
        };
        let options = helper_options(r"a,suid\", access);
        assert!(options.ends_with(r"fsname=a\,suid\\"), "{options}");
        assert!(options.starts_with("ro,") && !options.contains("allow_other"));
    }
}
