//! The formats of images.

use std::path::PathBuf;

use bigiron_format::sadump::{self, Disk, PartitionHeader};
use bigiron_format::{FormatError, ReadAt, xen_core};

use super::super::elf::ElfBytes;
use super::sadump::SadumpSource;
use super::{OpenedImage, ranges, xen};
use crate::error::SourceError;

/// First bytes of Hyper-V's saved state, little-endian.
const HYPER_V: [u8; 4] = 0x0128_2014_u32.to_le_bytes();

/// The format of an image, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// A disk of a sadump.
    Sadump,
    /// Ranges of memory, which begin with these bytes.
    Ranges([u8; 16]),
    /// The core of a Xen guest.
    XenCore,
}

/// Returns the format of the image that begins with `front`; `None` if it is none.
pub fn recognise(bytes: &dyn ReadAt, front: [u8; 16]) -> Result<Option<Image>, FormatError> {
    if ranges::begins_image(&front) {
        return Ok(Some(Image::Ranges(front)));
    }
    if front.starts_with(&HYPER_V) {
        return Err(FormatError::unexpected(
            "the signature",
            0,
            "a dump",
            "a saved state of Hyper-V (.vmrs), whose form is not published; Microsoft's vm2core \
             converts it to an ELF core",
        ));
    }
    Ok(sadump::is_sadump(bytes)?.then_some(Image::Sadump))
}

/// Returns the format of an ELF file that has no memory in segments; `None` if it is none.
pub fn recognise_elf(bytes: &dyn ReadAt) -> Option<Image> {
    xen_core::is_xen_core(bytes).then_some(Image::XenCore)
}

/// The files of an image.
#[derive(Default)]
pub struct Images {
    disks: Vec<(Disk, PathBuf)>,
    single: Option<(ElfBytes, Image)>,
}

impl Images {
    /// Adds a file; `single` if it is the only one of the dump.
    pub fn push(&mut self, image: Image, file: ElfBytes, single: bool) -> Result<(), SourceError> {
        let path = file.path().to_owned();
        match image {
            Image::Sadump => self.disks.push(disk(file.into_read(), path)?),
            other if single => self.single = Some((file, other)),
            _ => {
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
        if let Some((file, image)) = self.single {
            let source = match image {
                Image::Ranges(front) => ranges::open(file, &front)?,
                _ => xen::open(file)?,
            };
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
