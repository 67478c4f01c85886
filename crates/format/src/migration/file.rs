//! The RAM in a stream as bytes: those of all blocks, one after the other.

use std::io;

use super::runs::{Contents as PageContents, Runs};
use super::{begins_at, libvirt, place, stream};
use crate::address::PhysAddr;
use crate::bytes::ReadAt;
use crate::error::FormatError;
use crate::image::{ADDRESS_LIMIT, ImageRange, ImageRanges, MAX_RANGES};

/// Pages read at once, with what is between them.
const AT_ONCE: u64 = 64;

/// A stream whose pages are located.
pub struct MigrationFile {
    file: Box<dyn ReadAt>,
    page_shift: u32,
    runs: Runs,
    size: u64,
    ranges: ImageRanges,
}

/// The reason why a stream is not read.
#[derive(Debug)]
pub enum NotRead {
    /// It is damaged, or has a form that is not read.
    Format(FormatError),
    /// It does not say where its RAM is.
    Unplaced(String),
}

impl From<FormatError> for NotRead {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl MigrationFile {
    /// Reads a stream, or a save image of libvirt, up to the end of its RAM.
    pub fn open(file: Box<dyn ReadAt>) -> Result<Self, NotRead> {
        let (start, is_partial) = match begins_at(file.as_ref(), 0) {
            true => (0, false),
            false => libvirt::find_stream(file.as_ref())?,
        };
        let found = stream::read(file.as_ref(), start)?;
        let (pieces, unplaced) = place::place(&found.machine, &found.blocks, found.page_shift)
            .map_err(NotRead::Unplaced)?;
        let mut ranges = Vec::new();
        for piece in pieces {
            let end = piece.first_page + piece.pages;
            let mut page = piece.first_page;
            while let Some((first, pages)) = found.runs.next(page, end) {
                page = first + pages;
                let inside = (first - piece.first_page) << found.page_shift;
                push(
                    &mut ranges,
                    piece.physical + inside,
                    pages,
                    first,
                    found.page_shift,
                )?;
            }
        }
        let mut missing = Vec::new();
        if is_partial {
            missing.push("libvirt did not finish it".to_owned());
        }
        missing.extend(found.damage);
        if !unplaced.is_empty() {
            missing.push(format!(
                "the memory of {} is left out, because the stream does not tell its address",
                unplaced.join(", ")
            ));
        }
        let pages: u64 = found.blocks.iter().map(|block| block.pages).sum();
        Ok(Self {
            file,
            page_shift: found.page_shift,
            runs: found.runs,
            size: pages << found.page_shift,
            ranges: ImageRanges {
                ranges,
                damage: (!missing.is_empty()).then(|| missing.join("; ")),
            },
        })
    }

    /// The ranges of RAM that are in the stream.
    pub fn ranges(&self) -> &ImageRanges {
        &self.ranges
    }

    /// Reads from the page at `offset` on, as far as one run goes. Returns 0 for a page that is not
    /// in the stream.
    fn read_run(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let page_size = 1_u64 << self.page_shift;
        let Some(run) = self.runs.find(offset >> self.page_shift) else {
            return Ok(0);
        };
        let inside = offset % page_size;
        let pages = (inside + buf.len() as u64).div_ceil(page_size);
        let pages = pages.min(run.pages);
        let len = (pages * page_size - inside).min(buf.len() as u64) as usize;
        let (first, stride) = match run.contents {
            PageContents::Filled(byte) => {
                buf[..len].fill(byte);
                return Ok(len);
            }
            PageContents::Data { offset, stride } => (offset, stride),
        };
        let mut stored = Vec::new();
        let mut done = 0;
        for batch in (0..pages).step_by(AT_ONCE as usize) {
            let count = AT_ONCE.min(pages - batch);
            stored.resize((count * stride) as usize - (stride - page_size) as usize, 0);
            let read = self
                .file
                .read_exact_at("pages", first + batch * stride, &mut stored);
            read.map_err(io::Error::other)?;
            for page in stored.chunks(stride as usize) {
                let skip = if done == 0 { inside as usize } else { 0 };
                let page = &page[skip..page_size as usize];
                let part = page.len().min(len - done);
                buf[done..done + part].copy_from_slice(&page[..part]);
                done += part;
            }
        }
        Ok(len)
    }
}

impl ReadAt for MigrationFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() && offset + (done as u64) < self.size {
            match self.read_run(offset + done as u64, &mut buf[done..])? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// Adds pages to the ranges, or to the last range that they continue.
fn push(
    ranges: &mut Vec<ImageRange>,
    physical: u64,
    pages: u64,
    page: u64,
    page_shift: u32,
) -> Result<(), FormatError> {
    let (offset, size) = (page << page_shift, pages << page_shift);
    if let Some(last) = ranges.last_mut()
        && last.physical.0 + last.size == physical
        && last.offset + last.size == offset
    {
        last.size += size;
        return Ok(());
    }
    if ranges.len() == MAX_RANGES || physical.saturating_add(size) > ADDRESS_LIMIT {
        return Err(FormatError::unexpected(
            "the RAM of the guest",
            0,
            format!("at most {MAX_RANGES} ranges below {ADDRESS_LIMIT:#x}"),
            "more",
        ));
    }
    ranges.push(ImageRange {
        physical: PhysAddr(physical),
        size,
        offset,
    });
    Ok(())
}
