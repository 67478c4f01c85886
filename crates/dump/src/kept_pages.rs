//! The pages that the filter kept, and the cursor with which a helper reads them.

use std::ops::Range;

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_kernel::{PageReader, SECTION_FRAMES, SourceError};

use crate::bitmaps::BitmapStore;
use crate::error::DumpError;
use crate::job::DumpJob;
use crate::plan::{Plan, drop_zero_pages};
use crate::read_pages::{read_pages, read_run, take_runs};

/// Pages read at once.
const READ_PAGES: usize = 64;

/// The pages that the filter kept.
pub struct KeptPages<'a, 's> {
    pub job: &'a DumpJob<'a, 's>,
    pub plan: Plan,
    pub store: BitmapStore<'a>,
}

impl<'s> KeptPages<'_, 's> {
    /// Creates a cursor for one helper.
    pub fn cursor(&self) -> KeptCursor<'_, 's> {
        KeptCursor {
            pages: self,
            reader: self.job.reader(),
            page_size: self.job.page_size(),
            loaded: None,
            kept: Bitmap::new(SECTION_FRAMES as usize),
        }
    }
}

/// Reads kept pages, one section at a time.
pub struct KeptCursor<'a, 's> {
    pages: &'a KeptPages<'a, 's>,
    reader: Box<dyn PageReader + 'a>,
    page_size: usize,
    /// Number of the section whose bitmap is loaded.
    loaded: Option<usize>,
    kept: Bitmap,
}

impl KeptCursor<'_, '_> {
    /// Loads the bitmap of section `index`.
    pub fn load(&mut self, index: usize) -> Result<&Bitmap, DumpError> {
        if self.loaded != Some(index) {
            self.loaded = None;
            let first = self.pages.plan.sections.at(index).first;
            if !self.pages.store.load(index, first.0, &mut self.kept)? {
                self.filter_again(first)?;
            }
            self.loaded = Some(index);
        }
        Ok(&self.kept)
    }

    /// The pages of a dead kernel do not change, so the result is the same as before.
    fn filter_again(&mut self, first: PageFrame) -> Result<(), DumpError> {
        let (job, reader) = (self.pages.job, self.reader.as_mut());
        let mut ram = Bitmap::new(SECTION_FRAMES as usize);
        job.filter
            .scan_section(reader, first, &mut ram, &mut self.kept)
            .map_err(|error| job.filter_error(error))?;
        if job.drops_zero_pages {
            drop_zero_pages(job, reader, first, &mut self.kept)?;
        }
        Ok(())
    }

    /// Reads the kept pages among bits `range` of the loaded section, which begins with page
    /// frame `first`; see [`read_pages`].
    #[inline]
    pub fn read_kept(
        &mut self,
        first: PageFrame,
        range: Range<usize>,
        take: impl FnMut(PageFrame, Result<&[u8], SourceError>) -> Result<(), DumpError>,
    ) -> Result<(), DumpError> {
        let (kept, reader) = (&self.kept, self.reader.as_mut());
        let next = |from| kept.next_run(from, range.end, READ_PAGES);
        read_pages(reader, self.page_size, first, range.start, next, take)
    }

    /// Passes the reader and runs of the same pages to `take`; see [`take_runs`].
    #[inline]
    pub fn take_kept(
        &mut self,
        first: PageFrame,
        range: Range<usize>,
        mut take: impl FnMut(&mut dyn PageReader, PageFrame, usize) -> Result<usize, DumpError>,
    ) -> Result<(), DumpError> {
        let (kept, reader) = (&self.kept, self.reader.as_mut());
        let next = |from| kept.next_run(from, range.end, READ_PAGES);
        take_runs(first, range.start, next, |frame, len| {
            take(reader, frame, len)
        })
    }

    /// Reads `count` page frames from `first` on, kept or not; see [`read_run`].
    #[inline]
    pub fn read_run(
        &mut self,
        first: PageFrame,
        count: usize,
        take: impl FnMut(PageFrame, Result<&[u8], SourceError>) -> Result<(), DumpError>,
    ) -> Result<(), DumpError> {
        read_run(self.reader.as_mut(), self.page_size, first, count, take)
    }

    /// Returns `count` page frames from `first` on if one read returns all of them.
    pub fn read_at_once(&mut self, first: PageFrame, count: usize) -> Option<&[u8]> {
        let bytes = self.reader.pages(first, count).ok()?;
        (bytes.len() == count * self.page_size).then_some(bytes)
    }
}
