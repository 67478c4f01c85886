//! A dump of any format, read as an uncompressed ELF core.

use std::io;
use std::sync::{Mutex, PoisonError};

use bigiron_format::PageFrame;
use bigiron_kernel::{IoMethod, Kernel, MemorySource, PageReader, SourceError};

use crate::core_map::CoreMap;
use crate::error::DumpError;
use crate::subject::Subject;

/// The bytes of an ELF core of all RAM, computed on request: nothing is unpacked in advance, and
/// nothing is cached except by the source's readers.
///
/// Excluded pages are zeros, as in any ELF core. A lost or damaged page is an error, because
/// zeros would be wrong data.
pub struct CoreView<'a> {
    source: &'a dyn MemorySource,
    io: IoMethod,
    map: CoreMap,
    page_shift: u32,
    /// Idle readers. Their number is the highest number of concurrent reads so far.
    idle: Mutex<Vec<Box<dyn PageReader + 'a>>>,
}

impl<'a> CoreView<'a> {
    /// Creates the core of `kernel`'s memory, which is read with method `io`.
    ///
    /// # Errors
    ///
    /// RAM has more segments than a core can list, or cannot be listed.
    pub fn new(kernel: &'a Kernel<'_>, io: IoMethod) -> Result<Self, DumpError> {
        let map = CoreMap::of_kernel(kernel)?;
        Ok(Self::with(kernel.source(), io, map))
    }

    /// Creates the core of the memory of `subject`, which is read with method `io`.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn of(subject: &'a Subject<'_>, io: IoMethod) -> Result<Self, DumpError> {
        let source = subject.source();
        let map = CoreMap::of(subject, source.left_out().unwrap_or_default(), "")?;
        Ok(Self::with(source, io, map))
    }

    fn with(source: &'a dyn MemorySource, io: IoMethod, map: CoreMap) -> Self {
        Self {
            source,
            io,
            map,
            page_shift: source.page_shift(),
            idle: Mutex::default(),
        }
    }

    /// Size of the core, in bytes.
    pub fn size(&self) -> u64 {
        self.map.size
    }

    /// Fills `buf` from `offset`, up to the end of the core, and returns the number of bytes.
    /// Any number of threads may read concurrently.
    ///
    /// # Errors
    ///
    /// The source cannot be read there, or the page is lost. The contents of `buf` are then
    /// undefined.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SourceError> {
        let left = self.map.size.saturating_sub(offset);
        let len = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        let (mut at, mut buf) = (offset, &mut buf[..len]);
        let headers = usize::try_from(at)
            .ok()
            .and_then(|at| self.map.headers.get(at..));
        if let Some(headers) = headers {
            let count = headers.len().min(buf.len());
            buf[..count].copy_from_slice(&headers[..count]);
            (at, buf) = (at + count as u64, &mut buf[count..]);
        }
        if !buf.is_empty() {
            let idle = self.idle().pop();
            let mut reader = idle.unwrap_or_else(|| self.source.reader(self.io));
            let result = self.read_memory(reader.as_mut(), at, buf);
            self.idle().push(reader);
            result?;
        }
        Ok(len)
    }

    fn read_memory(
        &self,
        reader: &mut dyn PageReader,
        mut at: u64,
        mut buf: &mut [u8],
    ) -> Result<(), SourceError> {
        let page_size = 1_usize << self.page_shift;
        while !buf.is_empty() {
            let inside = at - self.map.memory_offset();
            let Some((frame, run)) = self.map.frames_at(inside >> self.page_shift) else {
                // Segments are adjacent, so this is after the last one.
                buf.fill(0);
                return Ok(());
            };
            // Whole pages; the first and the last may be needed only in part.
            let skip = inside as usize & (page_size - 1);
            let wanted = (skip + buf.len()).div_ceil(page_size);
            let count = usize::try_from(run).map_or(wanted, |run| run.min(wanted));
            let done = match reader.pages(frame, count) {
                Ok(pages) => {
                    let pages = pages.get(skip..).unwrap_or_default();
                    let done = pages.len().min(buf.len());
                    buf[..done].copy_from_slice(&pages[..done]);
                    done
                }
                Err(SourceError::Absent { .. }) => {
                    let done = (page_size - skip).min(buf.len());
                    buf[..done].fill(0);
                    done
                }
                Err(error) => return Err(error),
            };
            if done == 0 {
                return Err(no_bytes(frame));
            }
            (at, buf) = (at + done as u64, &mut buf[done..]);
        }
        Ok(())
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Box<dyn PageReader + 'a>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a reader that returned no page, which violates its contract.
fn no_bytes(frame: PageFrame) -> SourceError {
    SourceError::Io {
        path: Default::default(),
        action: "read a page",
        cause: io::Error::other(format!(
            "the source returned no bytes for page frame {frame}"
        )),
    }
}
