//! What a source is, and by what it is known again.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use bigiron_format::device::{DeviceContents, DumpId, is_device};
use bigiron_format::{ReadAt, elf, vmdump};
use bigiron_kernel::source::{DumpFile, is_plain_dump};
use xxhash_rust::xxh3::Xxh3;

use super::extent;
use crate::error::DumpError;

/// Bytes of one sample of a file, and how many are taken to tell it from others.
const SAMPLE: u64 = 64 << 10;
const SAMPLES: u64 = 32;

/// Bytes of a dump whose writer could not say how many there are.
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

/// A device that blocks can be on, or a file that has one.
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
    // Also an image of a device whose first block is damaged.
    let found = || bigiron_format::device::find(&file);
    Ok(is_device(&front) || (!is_plain_dump(&front) && found().is_ok_and(|found| found.is_some())))
}

pub fn is_elf(bytes: &dyn ReadAt) -> bool {
    let mut front = [0; 4];
    bytes.read_exact_at("the signature", 0, &mut front).is_ok() && front == elf::SIGNATURE
}

/// An id made of a file's size, time and samples of its bytes. Two dumps never
/// have the same; the same file that was touched has another, and is then saved
/// once more.
pub fn id_of_file(path: &Path) -> Result<DumpId, DumpError> {
    let file = DumpFile::open(path)?;
    let metadata = fs::metadata(path).map_err(|source| DumpError::Output {
        path: path.to_owned(),
        action: "look at it",
        source,
        hint: "",
    })?;
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
    for index in 0..SAMPLES {
        let offset = (size.saturating_sub(SAMPLE) / (SAMPLES - 1)).saturating_mul(index);
        let len = SAMPLE.min(size - offset) as usize;
        let read = file.read_exact_at("a sample", offset, &mut sample[..len]);
        read.map_err(|error| DumpError::from(file.error(error)))?;
        hash.update(&sample[..len]);
    }
    Ok(DumpId(hash.digest128().to_le_bytes()))
}
