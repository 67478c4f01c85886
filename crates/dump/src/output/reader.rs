//! The check that a pipe in the place of an output file is not another user's, who would read
//! the dump.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::fstatfs;
use rustix::process::geteuid;

/// File system of pipes without a name (PIPEFS_MAGIC, include/uapi/linux/magic.h).
const PIPEFS: u64 = 0x5049_5045;

/// Refuses a pipe of another user, or a link of another user to anything.
pub fn check_path(path: &Path) -> io::Result<()> {
    let entry = fs::symlink_metadata(path)?;
    let kind = entry.file_type();
    match entry.uid() {
        owner if is_foreign(owner) && kind.is_fifo() => Err(refused("pipe", owner)),
        owner if is_foreign(owner) && kind.is_symlink() => Err(refused("link", owner)),
        _ => Ok(()),
    }
}

/// Refuses a pipe that another user made in the file system. One without a name was made for
/// this program, for example by the shell that started sudo.
pub fn check_opened(file: &File) -> io::Result<()> {
    let opened = file.metadata()?;
    if !opened.file_type().is_fifo() || !is_foreign(opened.uid()) {
        return Ok(());
    }
    match u64::try_from(fstatfs(file)?.f_type) {
        Ok(PIPEFS) => Ok(()),
        _ => Err(refused("pipe", opened.uid())),
    }
}

fn is_foreign(owner: u32) -> bool {
    owner != 0 && owner != geteuid().as_raw()
}

fn refused(kind: &str, owner: u32) -> io::Error {
    let text = format!("it is a {kind} of user {owner}, who could read the dump");
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}
