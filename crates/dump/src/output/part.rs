//! One part of a dump: a file, device or stream behind the limits of the options.

use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use bigiron_helpers::Stop;

use super::pace::Pace;
use super::{FileOutput, Output};
use crate::error::DumpError;
use crate::options::DumpOptions;
use crate::progress::{OutputCall, Progress};

/// One part of a dump. All bytes pass the size limit, the rate limit and the counters that the
/// stall watchdog reads; errors name the part.
pub struct Part<'a> {
    /// Final name, for messages.
    path: PathBuf,
    output: Box<dyn Output>,
    progress: &'a Progress,
    size_limit: Option<NonZeroU64>,
    pace: Option<Pace<'a>>,
}

impl<'a> Part<'a> {
    /// Creates a part; messages name it `path`.
    pub fn new(
        path: PathBuf,
        output: Box<dyn Output>,
        options: &DumpOptions,
        progress: &'a Progress,
        stop: &'a Stop,
    ) -> Self {
        Self {
            path,
            output,
            progress,
            size_limit: options.size_limit,
            pace: options.write_limit.map(|limit| Pace::new(limit, stop)),
        }
    }

    /// Returns the name in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of `bytes` at `offset`.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DumpError> {
        self.try_write(offset, bytes).map_err(self.error())
    }

    fn try_write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len() as u64;
        self.check_limit(offset.saturating_add(len))?;
        let turn = self.pace.as_ref().map(|pace| pace.take_turn(len));
        {
            let _call = self.progress.enter(OutputCall::Write);
            self.output.write_at(offset, bytes)?;
        }
        self.progress.add_written(len);
        if let (Some(pace), Some(end)) = (&self.pace, turn) {
            pace.wait_until(end);
        }
        Ok(())
    }

    /// Fails beyond the size limit, with the error kind of `ulimit -f`.
    fn check_limit(&self, end: u64) -> io::Result<()> {
        match self.size_limit {
            Some(limit) if end > limit.get() => Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("the size limit of {limit} bytes is reached"),
            )),
            _ => Ok(()),
        }
    }

    /// See [`Output::make_zero`].
    pub fn make_zero(&self, offset: u64, len: u64) -> Result<(), DumpError> {
        let _call = self.progress.enter(OutputCall::Write);
        self.output.make_zero(offset, len).map_err(self.error())
    }

    /// Makes a file `size` bytes long, or as long as the size limit permits. A stream has no
    /// size.
    pub fn set_size(&self, size: u64) -> Result<(), DumpError> {
        let Some(file) = self.output.as_file() else {
            return Ok(());
        };
        let max_size = self.size_limit.map_or(u64::MAX, NonZeroU64::get);
        file.set_size(size.min(max_size)).map_err(self.error())
    }

    /// True if written bytes can be read back.
    pub fn is_readable(&self) -> bool {
        self.output.as_file().is_some_and(FileOutput::is_readable)
    }

    /// Reads back written bytes; unwritten ranges are zero.
    pub fn read_back(&self, offset: u64, buf: &mut [u8]) -> Result<(), DumpError> {
        match self.output.as_file() {
            Some(file) => file.read_back(offset, buf).map_err(self.error()),
            None => Err(self.error()(io::ErrorKind::Unsupported.into())),
        }
    }

    /// See [`FileOutput::is_direct`].
    pub fn is_direct(&self) -> bool {
        self.output.as_file().is_some_and(FileOutput::is_direct)
    }

    /// See [`Output::is_stream`].
    pub fn is_stream(&self) -> bool {
        self.output.is_stream()
    }

    /// See [`Output::flush_behind`].
    pub fn flush_behind(&self, offset: u64, len: u64) -> Result<(), DumpError> {
        let _call = self.progress.enter(OutputCall::Write);
        self.output.flush_behind(offset, len).map_err(self.error())
    }

    /// See [`Output::sync`].
    pub fn sync(&self) -> Result<(), DumpError> {
        let _call = self.progress.enter(OutputCall::Sync);
        self.output.sync().map_err(self.error())
    }

    /// See [`Output::finish`].
    pub fn finish(&self) -> Result<(), DumpError> {
        let _call = self.progress.enter(OutputCall::Sync);
        self.output.finish().map_err(self.error())
    }

    /// Gives a file its final name although it is not complete. Without success, [`Self::kept`]
    /// still returns the temporary one.
    pub fn name_incomplete(&self) {
        if let Some(file) = self.output.as_file() {
            // The error that ended the dump is the one to report.
            let _ = file.give_name();
        }
    }

    /// See [`Output::take_back`].
    pub fn take_back(&self) {
        self.output.take_back();
    }

    /// See [`Output::kept`].
    pub fn kept(&self) -> Option<PathBuf> {
        self.output.kept()
    }

    /// See [`Output::discard`].
    pub fn discard(&self) {
        self.output.discard();
    }

    fn error(&self) -> impl Fn(io::Error) -> DumpError {
        DumpError::write(&self.path)
    }

    #[cfg(test)]
    pub fn paced_bytes(&self) -> u64 {
        self.pace.as_ref().map_or(0, Pace::bytes)
    }
}
