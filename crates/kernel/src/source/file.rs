//! An open dump file, and windows that move over it.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bigiron_format::memory_limit::Share;
use bigiron_format::{FormatError, ReadAt};

use super::live::RUNNING_KERNEL;
use super::mapping::Mapping;
use crate::aligned::AlignedBuffer;
use crate::error::SourceError;

/// Size of a mapped window, as in makedumpfile for /proc/vmcore; larger windows were not
/// faster.
const WINDOW: u64 = 4 << 20;
/// Size of a window where nothing near was read before: it may serve a single page, such as a
/// page table, and each page of a mapping costs time.
const FIRST_WINDOW: u64 = 64 << 10;
/// Mappings are aligned to the largest page size of any host.
const MAP_ALIGNMENT: u64 = 64 << 10;

/// Unit of st_blocks, in bytes.
const BLOCK: u64 = 512;

/// How a file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMethod {
    /// mmap for /proc/vmcore, where read() maps every page anew; read() for ordinary files,
    /// which may shrink or fail (under a mapping that would kill the process).
    #[default]
    Auto,
    /// mmap, and read() where mapping fails.
    Mmap,
    /// read().
    Read,
}

/// A dump file and its name.
#[derive(Debug)]
pub struct DumpFile {
    file: File,
    path: PathBuf,
    size: u64,
    /// Readers may take as much memory as the file has bytes.
    _memory: Share,
}

impl DumpFile {
    /// Opens the file at `path`.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let error = |action| {
            move |cause| SourceError::Io {
                path: path.to_owned(),
                action,
                cause,
            }
        };
        // Opening a pipe would otherwise wait for a writer.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nonblocking)
            .open(path)
            .map_err(error("open it"))?;
        let metadata = file.metadata().map_err(error("look at it"))?;
        if metadata.file_type().is_fifo() {
            return Err(SourceError::Unsupported {
                path: path.to_owned(),
                reason: "is a pipe; connect it to standard input and give - in its place".into(),
            });
        }
        if metadata.is_dir() {
            return Err(SourceError::Unsupported {
                path: path.to_owned(),
                reason: "is a directory; give a dump file".into(),
            });
        }
        let size = if metadata.is_file() {
            metadata.len()
        } else {
            use std::io::{Seek, SeekFrom};
            (&file)
                .seek(SeekFrom::End(0))
                .map_err(error("seek in it"))?
        };
        Ok(Self {
            file,
            path: path.to_owned(),
            size,
            _memory: Share::new(stored_bytes(&metadata, size)),
        })
    }

    /// Wraps an open file, named `path` in messages.
    pub fn from_file(file: File, path: PathBuf) -> Result<Self, SourceError> {
        let metadata = match file.metadata() {
            Ok(metadata) => metadata,
            Err(cause) => {
                return Err(SourceError::Io {
                    path,
                    action: "look at it",
                    cause,
                });
            }
        };
        let size = metadata.len();
        Ok(Self {
            file,
            path,
            size,
            _memory: Share::new(stored_bytes(&metadata, size)),
        })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Adds the path to an error.
    pub fn error(&self, cause: FormatError) -> SourceError {
        SourceError::Format {
            path: self.path.clone(),
            cause,
        }
    }

    /// Returns true if mapping is better than reading; see [`IoMethod::Auto`].
    fn prefers_mmap(&self) -> bool {
        self.path == Path::new("/proc/vmcore")
    }

    /// Returns true if each reader must open the file separately. The kernel copies reads of
    /// /proc/kcore through one bounce page per open file, without a lock (open_kcore and
    /// read_kcore in fs/proc/kcore.c, since commit df04abfd181a): concurrent readers would
    /// receive each other's pages.
    fn serves_one_reader(&self) -> bool {
        self.path == Path::new(RUNNING_KERNEL)
    }
}

/// Returns the bytes that a file of `size` bytes stores. /proc/vmcore and devices have no blocks.
fn stored_bytes(metadata: &Metadata, size: u64) -> u64 {
    let blocks = metadata.blocks().saturating_mul(BLOCK);
    match blocks {
        0 => size,
        stored => stored.min(size),
    }
}

impl ReadAt for DumpFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn size(&self) -> u64 {
        self.size
    }

    /// Not all file systems and devices report holes.
    fn next_data(&self, offset: u64) -> u64 {
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => self.size.max(offset),
            Err(_) => offset,
        }
    }

    fn next_hole(&self, offset: u64) -> u64 {
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Hole(offset)) {
            Ok(hole) => hole,
            Err(_) => self.size.max(offset),
        }
    }
}

/// A window over a file that moves to the requested bytes.
#[derive(Debug)]
pub struct FileWindow<'a> {
    file: &'a DumpFile,
    /// The file, opened for this window alone if required.
    own: Option<DumpFile>,
    mapping: Option<(u64, Mapping)>,
    buffer: AlignedBuffer,
    /// Where the bytes that were loaded last begin in the mapping or buffer.
    start: usize,
    mmap: bool,
    /// A window was mapped, so the file can be mapped.
    was_mapped: bool,
}

impl<'a> FileWindow<'a> {
    /// Creates a window over `file`.
    pub fn new(file: &'a DumpFile, io: IoMethod) -> Self {
        let mmap = match io {
            IoMethod::Auto => file.prefers_mmap(),
            IoMethod::Mmap => true,
            IoMethod::Read => false,
        };
        Self {
            file,
            own: None,
            mapping: None,
            buffer: AlignedBuffer::new(0),
            start: 0,
            mmap,
            was_mapped: false,
        }
    }

    /// Makes `len` bytes at `offset` available to [`FileWindow::bytes`]; the caller checked that
    /// the file has them. They are in `segment`, a part of the file.
    pub fn load(
        &mut self,
        what: &'static str,
        offset: u64,
        len: usize,
        segment: &Range<u64>,
    ) -> Result<(), SourceError> {
        if self.mmap && self.move_mapping(offset, len, segment).is_err() {
            // Some kernels cannot map /proc/vmcore; reading always works.
            self.mmap = self.was_mapped;
            self.mapping = None;
        }
        if let Some((start, _)) = &self.mapping {
            self.start = (offset - start) as usize;
            return Ok(());
        }
        self.start = 0;
        if len > self.buffer.len() {
            self.buffer = AlignedBuffer::new(len);
        }
        let file = file_of_one_reader(self.file, &mut self.own)?;
        file.read_exact_at(what, offset, &mut self.buffer[..len])
            .map_err(|error| file.error(error))
    }

    /// Returns the first `len` of the bytes that were loaded last.
    pub fn bytes(&self, len: usize) -> &[u8] {
        let all = match &self.mapping {
            Some((_, mapping)) => mapping.bytes(),
            None => &self.buffer,
        };
        &all[self.start..self.start + len]
    }

    /// Fills `buf` with the bytes at `offset` in `segment`; the caller checked that the file has
    /// them.
    pub fn copy(
        &mut self,
        what: &'static str,
        offset: u64,
        buf: &mut [u8],
        segment: &Range<u64>,
    ) -> Result<(), SourceError> {
        if self.mmap {
            self.load(what, offset, buf.len(), segment)?;
            buf.copy_from_slice(self.bytes(buf.len()));
            return Ok(());
        }
        let file = file_of_one_reader(self.file, &mut self.own)?;
        file.read_exact_at(what, offset, buf)
            .map_err(|error| file.error(error))
    }

    /// Moves the mapping so that it holds `len` bytes at `offset`, and nothing beyond `segment`.
    fn move_mapping(&mut self, offset: u64, len: usize, segment: &Range<u64>) -> io::Result<()> {
        let request = offset..offset + len as u64;
        let mapped = self
            .mapping
            .as_ref()
            .map(|(start, mapping)| *start..*start + mapping.bytes().len() as u64);
        if let Some(mapped) = &mapped
            && mapped.start <= request.start
            && request.end <= mapped.end
        {
            return Ok(());
        }
        let bounds = segment.start..segment.end.min(self.file.size);
        let wanted = place(&request, mapped.as_ref(), &bounds);
        let wanted = wanted.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.mapping = None;
        // Access to a mapped page behind the end of a file that has shrunk would kill the process.
        // A file that shrinks from now on can still do that: see `bus_error` of the program.
        let now = self.file.file.metadata()?;
        if now.is_file() && now.len() < wanted.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let len = (wanted.end - wanted.start) as usize;
        let mapping = Mapping::new(&self.file.file, wanted.start, len)?;
        self.mapping = Some((wanted.start, mapping));
        self.was_mapped = true;
        Ok(())
    }
}

/// Returns the bytes to map for `request` after the window `mapped`, or `None` if `bounds`, a
/// segment, does not hold the request.
///
/// A window stays within the pages of one segment. The kernel maps each segment of /proc/vmcore by
/// a call of remap_pfn_range (mmap_vmcore in fs/proc/vmcore.c). Where a call covers only a part of
/// the mapping, x86 takes the memory type from other mappings (track_pfn_remap in
/// arch/x86/mm/pat/memtype.c of 6.1): pages that nobody else has mapped become uncached, and the
/// call fails with EINVAL if others have mapped only some of them.
fn place(
    request: &Range<u64>,
    mapped: Option<&Range<u64>>,
    bounds: &Range<u64>,
) -> Option<Range<u64>> {
    if request.start < bounds.start || request.end > bounds.end {
        return None;
    }
    let is_near =
        |window: &Range<u64>| (window.start..window.end + WINDOW).contains(&request.start);
    let window = if mapped.is_some_and(is_near) {
        WINDOW
    } else {
        FIRST_WINDOW
    };
    let page = rustix::param::page_size() as u64;
    let first_page = bounds.start / page * page;
    let start = (request.start / MAP_ALIGNMENT * MAP_ALIGNMENT).max(first_page);
    let end = (start + window).max(request.end).min(bounds.end);
    Some(start..end)
}

/// Returns `file`, or `own` if each reader must open it separately.
fn file_of_one_reader<'f>(
    file: &'f DumpFile,
    own: &'f mut Option<DumpFile>,
) -> Result<&'f DumpFile, SourceError> {
    if !file.serves_one_reader() {
        return Ok(file);
    }
    match own {
        Some(own) => Ok(own),
        None => Ok(own.insert(DumpFile::open(&file.path)?)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    const PAGE: u64 = 4096;

    #[test]
    fn file_that_shrinks_between_two_mappings_is_an_error_and_no_signal() {
        let temporary = tempfile::NamedTempFile::new().unwrap();
        let size = 2 * WINDOW;
        let all = 0..size;
        temporary.as_file().set_len(size).unwrap();
        let file = DumpFile::open(temporary.path()).unwrap();
        let mut window = FileWindow::new(&file, IoMethod::Mmap);
        window.load("a page", 0, 4096, &all).unwrap();
        assert_eq!(window.bytes(4096), [0; 4096]);
        assert!(window.mapping.is_some());
        temporary.as_file().set_len(4096).unwrap();
        let error = window.load("a page", size - PAGE, 4096, &all).unwrap_err();
        assert!(matches!(error, SourceError::Format { .. }), "{error}");
        window.load("a page", 0, 4096, &all).unwrap();
        assert_eq!(window.bytes(4096), [0; 4096]);
    }

    #[test]
    fn failed_mapping_after_a_successful_one_does_not_end_mapping() {
        let temporary = tempfile::NamedTempFile::new().unwrap();
        let size = 2 * WINDOW;
        temporary.as_file().set_len(size).unwrap();
        let file = DumpFile::open(temporary.path()).unwrap();
        let mut window = FileWindow::new(&file, IoMethod::Mmap);
        window.load("a page", 0, 4096, &(0..size)).unwrap();
        assert!(window.mapping.is_some());
        // Not in this segment: cannot be mapped, can be read.
        window.load("a page", WINDOW, 4096, &(0..WINDOW)).unwrap();
        assert!(window.mapping.is_none());
        assert_eq!(window.bytes(4096), [0; 4096]);
        window.load("a page", WINDOW, 4096, &(0..size)).unwrap();
        assert!(window.mapping.is_some());
    }

    #[test]
    fn file_that_cannot_be_mapped_is_read() {
        // Like /proc/vmcore of some kernels.
        let file = DumpFile::open(Path::new("/proc/version")).unwrap();
        let mut window = FileWindow::new(&file, IoMethod::Mmap);
        window.load("a word", 0, 5, &(0..5)).unwrap();
        assert_eq!(window.bytes(5), b"Linux");
        assert!(!window.mmap);
    }

    #[test]
    fn windows_stay_within_the_pages_of_a_segment() {
        let segment = WINDOW + 5 * PAGE + 100..WINDOW + 50 * PAGE + 100;
        let before = 0..WINDOW + 5 * PAGE;
        let page = segment.start..segment.start + PAGE;
        for mapped in [None, Some(&before)] {
            let range = place(&page, mapped, &segment).unwrap();
            assert_eq!(range.start, segment.start - 100);
            assert!(
                page.end <= range.end && range.end <= segment.end,
                "{range:?}"
            );
        }
        let last = segment.end - PAGE..segment.end;
        let range = place(&last, Some(&before), &segment).unwrap();
        assert!(range.start <= last.start);
        assert_eq!(range.end, segment.end);
        let behind = last.start + PAGE..last.end + PAGE;
        assert_eq!(place(&behind, Some(&before), &segment), None);
    }
}
