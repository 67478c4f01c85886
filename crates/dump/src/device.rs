//! An open raw dump device: its lock, its blocks, and other signatures on it.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bigiron_format::device::{
    self, BLOCK_SIZE, BlockPosition, CONTENTS_OFFSET, Claim, DeviceHeader, FoundDump, find_claims,
};
use bigiron_format::{FormatError, ReadAt};
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::error::DumpError;

/// Minimum size of a dump device, in bytes.
const MIN_SIZE: u64 = 1 << 20;

/// Maximum number of dumps behind each other on a device.
const MAX_DUMPS: usize = 64;

/// A dump device, or one inside another, and the dump on it.
pub struct OnDevice {
    /// The device.
    pub device: RawDevice,
    /// Its dump, if there is one.
    pub found: Option<FoundDump>,
}

impl OnDevice {
    /// Returns the dump's header if the dump was not saved yet.
    pub fn unsaved(&self) -> Option<&DeviceHeader> {
        let header = self.found.as_ref().map(|found| &found.header);
        header.filter(|header| header.valid)
    }
}

/// A block device or file that holds a dump, or is about to.
#[derive(Debug)]
pub struct RawDevice {
    file: File,
    path: PathBuf,
    /// Offset in the file: not 0 for a dump device inside another.
    base: u64,
    size: u64,
    is_block_device: bool,
}

impl RawDevice {
    /// Opens a device, or a file used as one. Block devices are opened exclusively: the kernel
    /// refuses O_EXCL for a device that is mounted, used as swap space or part of an array
    /// (bd_prepare_to_claim(), block/bdev.c).
    pub fn open(path: &Path, write: bool) -> Result<Self, DumpError> {
        let error = |action, hint| DumpError::output(path, action, hint);
        let metadata = std::fs::metadata(path).map_err(error("look at it", ""))?;
        let is_block_device = metadata.file_type().is_block_device();
        if !is_block_device && !metadata.is_file() {
            return Err(refused(path, "is neither a disk nor a file"));
        }
        let exclusive = if is_block_device {
            OFlags::EXCL
        } else {
            OFlags::empty()
        };
        let opened = OpenOptions::new()
            .read(true)
            .write(write)
            .custom_flags(exclusive.bits().cast_signed())
            .open(path);
        let mut file = opened.map_err(|source| {
            let hint = match source.kind() {
                io::ErrorKind::ResourceBusy => {
                    "; it is mounted, swap space, or part of another device"
                }
                _ => "",
            };
            error("open it", hint)(source)
        })?;
        let size = file
            .seek(SeekFrom::End(0))
            .map_err(error("seek in it", ""))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            base: 0,
            size,
            is_block_device,
        })
    }

    /// Returns the dump device in a range of this one. Both have the same lock.
    pub fn inside(&self, range: &Range<u64>) -> Result<Self, DumpError> {
        let file = self.file.try_clone();
        let end = range.end.min(self.size);
        Ok(Self {
            file: file.map_err(|error| self.error("use it", error))?,
            path: self.path.clone(),
            base: self.base + range.start,
            size: end.saturating_sub(range.start),
            is_block_device: self.is_block_device,
        })
    }

    /// Offset of the device in the file or device at its path.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Writes all of `bytes`.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, self.base + offset)
    }

    /// Tries to lock the device against other instances of this program, and against udev,
    /// which would probe it while it is being written. Returns false if the lock is taken.
    pub fn try_lock(&self) -> Result<bool, DumpError> {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            // Not all file systems support locks.
            Err(rustix::io::Errno::NOLCK | rustix::io::Errno::OPNOTSUPP) => Ok(true),
            Err(error) => Err(self.error("lock it", error.into())),
        }
    }

    /// Path of the device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open device.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns true if this is a block device, not a file.
    pub fn is_block_device(&self) -> bool {
        self.is_block_device
    }

    /// True if this is a block device in memory, which the kernel can map without a copy
    /// (QUEUE_FLAG_DAX, drivers/nvdimm/pmem.c).
    pub fn is_memory(&self) -> bool {
        self.attribute("queue/dax").is_some_and(|dax| dax == "1")
    }

    /// Returns the physical addresses of a device in memory, if the kernel tells them
    /// (drivers/nvdimm/namespace_devs.c, resource_show()).
    pub fn physical_range(&self) -> Option<Range<u64>> {
        let resource = self.attribute("device/resource")?;
        let start = u64::from_str_radix(resource.trim_start_matches("0x"), 16).ok()?;
        Some(start..start.checked_add(self.size)?)
    }

    /// Reads an attribute of a block device in sysfs.
    fn attribute(&self, name: &str) -> Option<String> {
        let number = self.file.metadata().ok()?.rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let path = format!("/sys/dev/block/{major}:{minor}/{name}");
        let text = std::fs::read_to_string(path)
            .ok()
            .filter(|_| self.is_block_device)?;
        Some(text.trim().to_owned())
    }

    /// Returns the dump on the device.
    pub fn find(&self) -> Result<Option<FoundDump>, DumpError> {
        device::find(self).map_err(|error| self.format_error(&error))
    }

    /// Returns the device, and those inside it behind each other, with their dumps.
    pub fn dumps(self) -> Result<Vec<OnDevice>, DumpError> {
        let mut dumps = Vec::new();
        let mut next = Some(self);
        while let Some(device) = next.filter(|_| dumps.len() < MAX_DUMPS) {
            let found = device.find()?;
            let range = found.as_ref().and_then(|found| found.header.next_device());
            next = range.map(|range| device.inside(&range)).transpose()?;
            dumps.push(OnDevice { device, found });
        }
        Ok(dumps)
    }

    /// Returns signatures of other uses on the device.
    pub fn claims(&self) -> Result<Vec<Claim>, DumpError> {
        find_claims(self).map_err(|error| self.format_error(&error))
    }

    /// Returns an error if the device is too small for a dump.
    pub fn check_size(&self) -> Result<(), DumpError> {
        if self.size >= MIN_SIZE {
            return Ok(());
        }
        let reason = format!(
            "has {} bytes; a dump device needs at least {MIN_SIZE}",
            self.size
        );
        Err(refused(&self.path, reason))
    }

    /// Offsets of the blocks. The end block comes first, so that the block that is read first
    /// is never the older one.
    pub fn places(&self) -> [(BlockPosition, u64); 2] {
        let end = device::end_block_offset(self.size);
        [(BlockPosition::End, end), (BlockPosition::Start, 0)]
    }

    /// Writes blocks, each synced before the next.
    pub fn put(&self, header: &DeviceHeader, places: &[(BlockPosition, u64)]) -> io::Result<()> {
        for (place, offset) in places {
            self.write_all_at(&header.encode(*place), *offset)?;
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Zeroes the range between the start block and the first page of the contents, and other
    /// signatures, and syncs.
    pub fn wipe(&self, claims: &[Claim]) -> io::Result<()> {
        let head = BLOCK_SIZE as u64..CONTENTS_OFFSET + BLOCK_SIZE as u64;
        let zeros = vec![0; (head.end - head.start) as usize];
        self.write_all_at(&zeros, head.start)?;
        for claim in claims.iter().filter(|claim| claim.offset >= head.start) {
            self.write_all_at(&zeros[..claim.len], claim.offset)?;
        }
        self.file.sync_data()
    }

    /// Wraps an I/O error of this device.
    pub fn error(&self, action: &'static str, source: io::Error) -> DumpError {
        DumpError::output(&self.path, action, "")(source)
    }

    fn format_error(&self, error: &FormatError) -> DumpError {
        refused(&self.path, error.to_string())
    }
}

impl ReadAt for RawDevice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.size.saturating_sub(offset);
        let count = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        self.file.read_at(&mut buf[..count], self.base + offset)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

impl ReadAt for &RawDevice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// The error for a device that is not accepted.
pub fn refused(path: &Path, reason: impl Into<String>) -> DumpError {
    DumpError::Device {
        path: path.to_owned(),
        reason: reason.into(),
    }
}

/// Describes claims for a message.
pub fn in_words(claims: &[Claim]) -> Option<String> {
    let first = claims.first()?;
    let more = match claims
        .iter()
        .filter(|claim| claim.name != first.name)
        .count()
    {
        0 => "",
        _ => " and more",
    };
    Some(format!(
        "{} (its signature is at offset {:#x}){more}",
        first.name, first.offset
    ))
}
