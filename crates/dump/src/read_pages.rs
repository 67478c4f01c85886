//! Reading of page frames where single pages may be unreadable.

use bigiron_format::PageFrame;
use bigiron_kernel::{PageReader, SourceError};

use crate::error::DumpError;

/// Reads page frames and passes them to `take` in the order of their numbers: the first page
/// frame, and its bytes and those of the frames that follow, or the error of this one page.
///
/// `next` returns the next run of frames to read at or after an index, as index and length.
/// Index 0 is `base`.
///
/// # Errors
/// That of `take`, or an error of the source that affects more than one page.
#[inline]
pub fn read_pages(
    reader: &mut dyn PageReader,
    page_size: usize,
    base: PageFrame,
    start: usize,
    next: impl FnMut(usize) -> Option<(usize, usize)>,
    mut take: impl FnMut(PageFrame, Result<&[u8], SourceError>) -> Result<(), DumpError>,
) -> Result<(), DumpError> {
    take_runs(base, start, next, |frame, len| {
        match reader.pages(frame, len) {
            Ok(pages) => {
                take(frame, Ok(pages))?;
                Ok(pages.len() / page_size)
            }
            Err(error) if error.is_one_page() => {
                take(frame, Err(error))?;
                Ok(1)
            }
            Err(error) => Err(error.into()),
        }
    })
}

/// Passes runs of page frames to `take`, which returns how many of them it took, at least one;
/// `next` as for [`read_pages`].
#[inline]
pub fn take_runs(
    base: PageFrame,
    start: usize,
    mut next: impl FnMut(usize) -> Option<(usize, usize)>,
    mut take: impl FnMut(PageFrame, usize) -> Result<usize, DumpError>,
) -> Result<(), DumpError> {
    let mut from = start;
    while let Some((at, len)) = next(from) {
        from = at + take(PageFrame(base.0 + at as u64), len)?;
    }
    Ok(())
}

/// Reads `count` page frames from `first` on; see [`read_pages`].
#[inline]
pub fn read_run(
    reader: &mut dyn PageReader,
    page_size: usize,
    first: PageFrame,
    count: usize,
    take: impl FnMut(PageFrame, Result<&[u8], SourceError>) -> Result<(), DumpError>,
) -> Result<(), DumpError> {
    let rest = |from| (from < count).then(|| (from, count - from));
    read_pages(reader, page_size, first, 0, rest, take)
}
