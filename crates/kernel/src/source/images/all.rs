//! The formats of images.

use std::path::PathBuf;

use bigiron_format::sadump::{self, Disk, PartitionHeader};
use bigiron_format::{FormatError, ReadAt};

use super::super::elf::ElfBytes;
use super::sadump::SadumpSource;
use super::{OpenedImage, ranges};
use crate::error::SourceError;

/// The format of an image, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// A disk of a sadump.
    Sadump,
    /// Ranges of memory, which begin with these bytes.
    Ranges([u8; 16]),
}

/// Returns the format of the image that begins with `front`; `None` if it is none.
pub fn recognise(bytes: &dyn ReadAt, front: [u8; 16]) -> Result<Option<Image>, FormatError> {
    if ranges::begins_image(&front) {
        return Ok(Some(Image::Ranges(front)));
    }
    Ok(sadump::is_sadump(bytes)?.then_some(Image::Sadump))
}

/// The files of an image.
#[derive(Default)]
pub struct Images {
    disks: Vec<(Disk, PathBuf)>,
    ranges: Option<(ElfBytes, [u8; 16])>,
}

impl Images {
    /// Adds a file; `single` if it is the only one of the dump.
    pub fn push(&mut self, image: Image, file: ElfBytes, single: bool) -> Result<(), SourceError> {
        let path = file.path().to_owned();
        match image {
            Image::Sadump => self.disks.push(disk(file.into_read(), path)?),
            Image::Ranges(front) if single => self.ranges = Some((file, front)),
            Image::Ranges(_) => {
                return Err(SourceError::Unsupported {
                    path,
                    reason: "is a memory image, which has no parts".into(),
                });
            }
        }
        Ok(())
    }

    /// The first of several files.
    pub fn first(&self) -> Option<&PathBuf> {
        self.disks.first().map(|(_, path)| path)
    }

    /// Opens the image; `None` without files.
    pub fn open(self) -> Result<Option<OpenedImage>, SourceError> {
        if let Some((file, front)) = self.ranges {
            let source = ranges::open(file, &front)?;
            return Ok(Some(OpenedImage::Elf(Box::new(source))));
        }
        if self.disks.is_empty() {
            return Ok(None);
        }
        let source = SadumpSource::new(self.disks)?;
        Ok(Some(OpenedImage::Other(Box::new(source))))
    }
}

/// Reads the partition header of a disk of a sadump.
fn disk(file: Box<dyn ReadAt>, path: PathBuf) -> Result<(Disk, PathBuf), SourceError> {
    let found = PartitionHeader::find(file.as_ref()).and_then(|partition| {
        partition.ok_or_else(|| {
            FormatError::unexpected("the partition header", 0, "the signature sadump", "none")
        })
    });
    match found {
        Ok(partition) => Ok((Disk { file, partition }, path)),
        Err(cause) => Err(SourceError::Format { path, cause }),
    }
}
