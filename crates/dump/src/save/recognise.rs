//! Identification of sources, and ids by which they are recognised again.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use bigiron_format::device::{DeviceContents, DumpId, is_device};
use bigiron_format::salvage::Salvager;
use bigiron_format::{ReadAt, elf, vmdump};
use bigiron_kernel::source::{DumpFile, is_plain_dump};
use bigiron_kernel::{Identities, Source};
use xxhash_rust::xxh3::Xxh3;

use super::extent;
use super::options::SaveOptions;
use crate::error::DumpError;

/// Size of one sample of a file, and number of samples that identify it.
const SAMPLE: u64 = 64 << 10;
const SAMPLES: u64 = 32;

/// Length of a dump whose writer did not record it.
pub fn length_of_cut(path: &Path, offset: u64, contents: &dyn ReadAt) -> u64 {
    let mut front = [0; 16];
    let read = contents.read_exact_at("the signature", 0, &mut front);
    if read.is_ok()
        && vmdump::container_of(&front).is_some()
        && let Ok(file) = DumpFile::open(path)
    {
        let contents = DeviceContents::new(file, offset, contents.size());
        return extent::used_by_vmdump(contents);
    }
    extent::used(contents)
}

/// Returns true for a block device, or a file that holds the blocks of a dump device.
pub fn is_raw_device(path: &Path) -> Result<bool, DumpError> {
    let metadata = fs::metadata(path);
    if metadata.is_ok_and(|metadata| metadata.file_type().is_block_device()) {
        return Ok(true);
    }
    let file = DumpFile::open(path)?;
    let mut front = [0; 16];
    if file.read_exact_at("the signature", 0, &mut front).is_err() {
        return Ok(false);
    }
    // Also the image of a device whose first block is damaged.
    let found = || bigiron_format::device::find(&file);
    Ok(is_device(&front) || (!is_plain_dump(&front) && found().is_ok_and(|found| found.is_some())))
}

/// Returns true if these are parts of a striped dump.
pub fn is_striped(paths: &[PathBuf], options: &SaveOptions) -> bool {
    let identities = options.identity.as_deref().map(Identities::from_file);
    let Ok(identities) = identities.transpose() else {
        return false;
    };
    let source = Source::open_with(paths, &identities.unwrap_or_default());
    source.is_ok_and(|source| {
        let dump = source.memory().vmdump();
        dump.is_some_and(|dump| dump.header().is_striped())
    })
}

/// Returns true if a file is in `directory`.
pub fn is_in(path: &Path, directory: &Path) -> bool {
    let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
    let found = fs::canonicalize(parent.unwrap_or(Path::new(".")));
    found.is_ok_and(|found| fs::canonicalize(directory).is_ok_and(|other| found == other))
}

pub fn is_elf(bytes: &dyn ReadAt) -> bool {
    let mut front = [0; 4];
    bytes.read_exact_at("the signature", 0, &mut front).is_ok() && front == elf::SIGNATURE
}

/// Derives an id from a file's size, modification time and samples of its bytes. Different
/// dumps have different ids; a file with a new modification time gets a new id and is saved
/// again.
pub fn id_of_file(path: &Path) -> Result<DumpId, DumpError> {
    let file = DumpFile::open(path)?;
    let error = DumpError::output(path, "look at it", "");
    let metadata = fs::metadata(path).map_err(error)?;
    let size = file.size();
    let mut hash = Xxh3::new();
    for value in [
        size,
        metadata.mtime().cast_unsigned(),
        metadata.mtime_nsec().cast_unsigned(),
    ] {
        hash.update(&value.to_le_bytes());
    }
    let mut sample = vec![0; SAMPLE as usize];
    let mut salvager = Salvager::default();
    for index in 0..SAMPLES {
        let offset = (size.saturating_sub(SAMPLE) / (SAMPLES - 1)).saturating_mul(index);
        let len = SAMPLE.min(size - offset) as usize;
        let read = salvager.read(&file, "a sample", offset, &mut sample[..len]);
        read.map_err(|error| DumpError::from(file.error(error)))?;
        hash.update(&sample[..len]);
    }
    Ok(DumpId(hash.digest128().to_le_bytes()))
}
