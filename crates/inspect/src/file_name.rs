//! What file an inode is: its name, device and file system.
//!
//! Relies on struct inode (`i_ino`, `i_size`, `i_sb`, `i_rdev`, `i_dentry`), `address_space.host`,
//! `super_block` (`s_id`, `s_type`), struct dentry, and for block devices on struct bdev_inode
//! (block/bdev.c).

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::error::InspectError;
use crate::program::Program;

/// Maximum number of directories in a path, and of bytes of a name (NAME_MAX is 255).
const MAX_DEPTH: usize = 64;
const MAX_NAME: usize = 256;
/// The type of the file system that has the inodes of block devices.
const BLOCK_DEVICES: &str = "bdev";
/// Bits of a device's minor number (MINORBITS, include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;

/// What is known of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileName {
    /// Path from the root of its file system, wherever that is mounted. `None` if the dump has
    /// no name of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Type of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<String>,
    /// Device of the file system, such as `vda1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Inode number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
    /// Length of the file, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The reason why some of this is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_known: Option<String>,
}

impl FileName {
    /// Identifies the file whose page cache is the address_space `mapping`.
    pub fn of_mapping(program: &Program, mapping: VirtAddr) -> Self {
        match program.pointer(mapping, "address_space", "host") {
            Ok(VirtAddr(0)) => Self::unknown("it has no inode".into()),
            Ok(inode) => Self::of_inode(program, inode),
            Err(error) => Self::unknown(error.to_string()),
        }
    }

    /// Identifies an inode. Facts found are kept, even where memory behind them was excluded from
    /// the dump.
    pub fn of_inode(program: &Program, inode: VirtAddr) -> Self {
        let mut found = Self::default();
        if let Err(error) = found.fill(program, inode) {
            found.not_known = Some(error.to_string());
        }
        found
    }

    fn unknown(reason: String) -> Self {
        Self {
            not_known: Some(reason),
            ..Self::default()
        }
    }

    fn fill(&mut self, program: &Program, inode: VirtAddr) -> Result<(), InspectError> {
        self.inode = Some(program.value(inode, "inode", "i_ino")?);
        self.size = Some(program.value(inode, "inode", "i_size")?);
        let file_system = program.pointer(inode, "inode", "i_sb")?;
        let kind = program.pointer(file_system, "super_block", "s_type")?;
        let kind = program.pointer(kind, "file_system_type", "name")?;
        let kind = program.string(kind, MAX_NAME)?;
        self.device = Some(program.text(file_system, "super_block", "s_id")?);
        if kind == BLOCK_DEVICES {
            // The page cache of a block device itself: the file system's metadata.
            let number = program.value(inode, "inode", "i_rdev")?;
            let (major, minor) = (number >> MINOR_BITS, number & ((1 << MINOR_BITS) - 1));
            self.path = Some(format!("block device {major}:{minor}"));
            self.device = block_device(program, inode).ok().or(self.device.take());
        }
        self.filesystem = Some(kind);
        if self.path.is_none() {
            self.path = path(program, inode)?;
        }
        if self.path.is_none() {
            self.not_known = Some("no name of it is in memory".into());
        }
        Ok(())
    }
}

/// Formats as `/var/log/syslog, inode 12 on vda1 (ext4)`, as far as known; a block device itself
/// as `block device vda1`.
impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.filesystem.as_deref() == Some(BLOCK_DEVICES)
            && let Some(device) = &self.device
        {
            return write!(f, "block device {device}");
        }
        write!(f, "{}", self.path.as_deref().unwrap_or("a file"))?;
        if let Some(inode) = self.inode {
            write!(f, ", inode {inode}")?;
        }
        if let Some(device) = &self.device {
            write!(f, " on {device}")?;
        }
        match &self.filesystem {
            Some(kind) => write!(f, " ({kind})"),
            None => Ok(()),
        }
    }
}

/// Name of the block device of an inode of the file system `bdev`.
fn block_device(program: &Program, inode: VirtAddr) -> Result<String, InspectError> {
    let inner = program.locate("bdev_inode", "vfs_inode")?.offset;
    let outer = VirtAddr(inode.0.wrapping_sub(inner));
    let device = program.member(outer, "bdev_inode", "bdev")?;
    device_name(program, device)
}

/// Name of a block_device, such as `vda1`.
pub(crate) fn device_name(program: &Program, device: VirtAddr) -> Result<String, InspectError> {
    let name = program.pointer(device, "block_device", "bd_device.kobj.name")?;
    program.string(name, MAX_NAME)
}

/// Returns the path of one of an inode's names, up to the root of its file system.
fn path(program: &Program, inode: VirtAddr) -> Result<Option<String>, InspectError> {
    let first = program.pointer(inode, "inode", "i_dentry.first")?;
    if first.0 == 0 {
        return Ok(None);
    }
    let link = program.locate("dentry", "d_u.d_alias")?.offset;
    path_below(program, VirtAddr(first.0.wrapping_sub(link)), VirtAddr(0)).map(Some)
}

/// Returns the path of a dentry below the dentry `top`, or else below the root of its file system.
pub(crate) fn path_below(
    program: &Program,
    dentry: VirtAddr,
    top: VirtAddr,
) -> Result<String, InspectError> {
    let mut at = dentry;
    let mut names = Vec::new();
    for _ in 0..MAX_DEPTH {
        let parent = program.pointer(at, "dentry", "d_parent")?;
        if parent == at || at == top {
            names.reverse();
            return Ok(format!("/{}", names.join("/")));
        }
        let name = program.pointer(at, "dentry", "d_name.name")?;
        names.push(program.string(name, MAX_NAME)?);
        at = parent;
    }
    names.reverse();
    Ok(format!("…/{}", names.join("/")))
}
