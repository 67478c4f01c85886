//! The place of the dump, as named by the user or by the settings.

use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use super::kit::Kit;
use super::root::Root;

/// The place of the dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A directory of a file system.
    Directory(PathBuf),
    /// A dump device; after the reboot its dump is saved to the directory.
    Device(PathBuf, PathBuf),
}

impl Target {
    /// The place that the user named, or that of the settings.
    pub fn new(given: Option<PathBuf>, kit: &Kit, root: &Root) -> Self {
        let is_device = |path: &PathBuf| {
            let found = root.metadata(path);
            found.is_some_and(|found| found.file_type().is_block_device())
                || path.starts_with("/dev")
        };
        match given.or_else(|| kit.device.clone()) {
            Some(device) if is_device(&device) => Self::Device(device, kit.directory.clone()),
            Some(directory) => Self::Directory(directory),
            None => Self::Directory(kit.directory.clone()),
        }
    }

    /// The directory that the dump is in at the end.
    pub fn directory(&self) -> &PathBuf {
        match self {
            Self::Directory(directory) | Self::Device(_, directory) => directory,
        }
    }
}
