//! The bitmaps of a kdump-compressed dump, also where sectors of them cannot be read.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::ReadAt;
use bigiron_format::kdump::{BitmapCopies, LostBits};
use bigiron_format::salvage::Salvager;
use bigiron_format::{FormatError, PageFrame};

use super::SECTION_FRAMES;
use super::kdump::KdumpSource;
use crate::error::SourceError;

/// Bytes of a bitmap for one section.
const SECTION_BYTES: u64 = SECTION_FRAMES / 8;

impl KdumpSource {
    /// The bitmaps of all files, with zeros where no file returns those of dumped pages.
    fn copies(&self) -> BitmapCopies<'_> {
        let files = self.parts.iter();
        let files = files.map(|part| &part.bytes as &dyn ReadAt).collect();
        BitmapCopies::new(files, &self.unreadable)
    }

    /// Reads the RAM bitmap of one section; bits that cannot be read are zero.
    pub(super) fn ram_bits(&self, section: u64, bits: &mut Bitmap) -> Result<(), SourceError> {
        let bitmap = self.head().layout.ram_bitmap();
        self.salvage_bits(bitmap, section, &mut Salvager::default(), bits)
    }

    /// Reads the dumped bitmap of one section, completed where it cannot be read.
    pub(super) fn dumped_bits(&self, section: u64, bits: &mut Bitmap) -> Result<(), SourceError> {
        let bitmap = self.head().layout.dumped_bitmap();
        self.salvage_bits(bitmap, section, &mut Salvager::default(), bits)?;
        for part in &self.parts {
            part.lost_bits.apply(section * SECTION_FRAMES, bits);
        }
        Ok(())
    }

    /// Reads the bits of one section from the bitmap at offset `bitmap`.
    fn salvage_bits(
        &self,
        bitmap: u64,
        section: u64,
        salvager: &mut Salvager,
        bits: &mut Bitmap,
    ) -> Result<(), SourceError> {
        bits.clear();
        let head = self.head();
        let offset = section * SECTION_BYTES;
        let len = SECTION_BYTES.min(head.layout.bitmap_size.saturating_sub(offset)) as usize;
        let read = &mut bits.as_bytes_mut()[..len];
        salvager
            .read(&self.copies(), "a bitmap", bitmap + offset, read)
            .map_err(|error| self.parts[0].error(error))?;
        let frames = (head.end_frame - (section * SECTION_FRAMES).min(head.end_frame))
            .min(SECTION_FRAMES) as usize;
        bits.clear_range(frames, SECTION_FRAMES as usize);
        Ok(())
    }

    /// Finds what cannot be read of the dumped bitmap, and completes it.
    pub(super) fn complete_bitmap(&mut self) -> Result<(), SourceError> {
        let bitmap = self.head().layout.dumped_bitmap();
        let mut salvager = Salvager::default();
        let mut bits = Bitmap::new(SECTION_FRAMES as usize);
        let mut next = self.next_used_section(bitmap, 0);
        while let Some(section) = next {
            self.salvage_bits(bitmap, section, &mut salvager, &mut bits)?;
            next = self.next_used_section(bitmap, section + 1);
        }
        self.unreadable = salvager.take();
        if self.unreadable.is_empty() {
            return Ok(());
        }
        for index in 0..self.parts.len() {
            let part = &self.parts[index];
            let (file, lost) = (&part.bytes, &self.unreadable);
            let found = LostBits::complete(&self.copies(), file, &part.headers, lost)
                .map_err(|error| part.error(error))?;
            self.parts[index].lost_bits = found;
        }
        Ok(())
    }

    /// The error of a page whose descriptor cannot be told because of bits that cannot be read.
    pub(super) fn unknown_place(&self, frame: PageFrame) -> SourceError {
        let path = match self.part_of(frame) {
            Some(part) => part.path.as_path(),
            None => self.path(),
        };
        SourceError::Format {
            path: path.to_owned(),
            cause: FormatError::Io {
                what: "the bits that tell a page's place",
                offset: self.unreadable.next(0).map_or(0, |range| range.start),
                cause: std::io::Error::other(self.unreadable.cause().to_owned()),
            },
        }
    }

    /// Says what cannot be read of the dumped bitmap, and what is lost with it.
    pub(super) fn describe_unreadable(&self) -> Option<String> {
        if self.unreadable.is_empty() {
            return None;
        }
        let mut lost = 0;
        for part in &self.parts {
            let last = part.pages.min(part.lost_bits.unknown.end);
            lost += last.saturating_sub(part.lost_bits.unknown.start);
        }
        let has_end = self
            .parts
            .iter()
            .all(|part| part.lost_bits.unknown.end != u64::MAX);
        let effect = match (has_end, lost) {
            (true, 0) => "all RAM there was dumped, and no page is lost".to_owned(),
            (true, _) => format!("the {lost} dumped pages there are lost"),
            (false, _) => {
                format!("the dumped pages there and all {lost} behind it are lost")
            }
        };
        Some(format!(
            "{}: the dumped bitmap: {}; {effect}",
            self.path().display(),
            self.unreadable.describe()
        ))
    }
}
