//! A build without images.

use std::path::PathBuf;

use bigiron_format::image::MemoryMap;
use bigiron_format::{FormatError, ReadAt};

use super::super::elf::{ElfBytes, ElfSource};
use super::OpenedImage;
use crate::error::SourceError;

/// There is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {}

/// Recognises no file.
pub fn recognise(_: &dyn ReadAt, _: [u8; 16]) -> Result<Option<Image>, FormatError> {
    Ok(None)
}

/// Recognises no file.
pub fn begins_image(_: &[u8]) -> bool {
    false
}

/// Recognises no file.
pub fn recognise_elf(_: &dyn ReadAt) -> Option<Image> {
    None
}

/// Returns the files: none of them is a saved state.
pub fn open_state(
    files: Vec<ElfBytes>,
) -> Result<Result<Box<ElfSource>, Vec<ElfBytes>>, SourceError> {
    Ok(Err(files))
}

/// Returns the paths.
pub fn with_file_beside(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.to_vec()
}

/// No files.
#[derive(Default)]
pub struct Images {}

impl Images {
    /// Is never called.
    pub fn push(&mut self, image: Image, _: ElfBytes, _: bool) -> Result<(), SourceError> {
        match image {}
    }

    /// There is no file.
    pub fn first(&self) -> Option<&PathBuf> {
        None
    }

    /// There is no image.
    pub fn open(self) -> Result<Option<OpenedImage>, SourceError> {
        Ok(None)
    }
}

/// Refuses a raw image.
pub fn open_raw(file: ElfBytes, _: Option<&MemoryMap>) -> Result<ElfSource, SourceError> {
    Err(SourceError::Unsupported {
        path: file.path().to_owned(),
        reason: "this build reads no memory images".into(),
    })
}
