//! An open dump file, and windows that move over it.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bigiron_format::memory_limit::Share;
use bigiron_format::{FormatError, ReadAt};

use super::live::RUNNING_KERNEL;
use super::windows::{LARGEST_WINDOW, WINDOW, Window, Windows};
use crate::aligned::AlignedBuffer;
use crate::error::SourceError;

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
    /// Mapped windows, which its readers share.
    windows: Windows,
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
            windows: Windows::new(largest_window(path)),
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
            windows: Windows::new(largest_window(&path)),
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
        is_vmcore(&self.path)
    }

    /// Returns true if each reader must open the file separately. The kernel copies reads of
    /// /proc/kcore through one bounce page per open file, without a lock (open_kcore and
    /// read_kcore in fs/proc/kcore.c, since commit df04abfd181a): concurrent readers would
    /// receive each other's pages.
    fn serves_one_reader(&self) -> bool {
        self.path == Path::new(RUNNING_KERNEL)
    }
}

/// Returns true for the memory of a crashed kernel.
fn is_vmcore(path: &Path) -> bool {
    path == Path::new("/proc/vmcore")
}

/// Returns the maximum size of a mapped window. Those of ordinary files take as much memory, for
/// the page cache.
fn largest_window(path: &Path) -> u64 {
    if is_vmcore(path) {
        LARGEST_WINDOW
    } else {
        WINDOW
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
    mapping: Option<Arc<Window>>,
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
        if let Some(window) = &self.mapping {
            self.start = window.take(offset, len);
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
            Some(window) => window.bytes(),
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

    /// Moves to a window that holds `len` bytes at `offset`, and nothing beyond `segment`.
    fn move_mapping(&mut self, offset: u64, len: usize, segment: &Range<u64>) -> io::Result<()> {
        let request = offset..offset + len as u64;
        let held = self.mapping.as_ref();
        if held.is_some_and(|window| window.holds(&request)) {
            return Ok(());
        }
        // Unmapped first, unless others hold it: a reader has one window.
        let left = self.mapping.take().map(|window| window.left());
        let (file, windows) = (&self.file.file, &self.file.windows);
        let segment = segment.start..segment.end.min(self.file.size);
        self.mapping = Some(windows.get(file, &segment, &request, left.as_ref())?);
        self.was_mapped = true;
        Ok(())
    }
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
}
