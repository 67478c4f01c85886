//! Output to a pipe, or to a file as if it were one.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use bigiron_format::flattened;

use super::{Output, Sink};

/// Records of the flattened format: each piece says where it belongs.
pub struct FlattenedOutput {
    sink: Sink,
    lock: Mutex<()>,
}

impl FlattenedOutput {
    /// Begins the stream.
    pub fn begin(sink: Sink) -> io::Result<Self> {
        sink.write_all(&flattened::header())?;
        Ok(Self {
            sink,
            lock: Mutex::new(()),
        })
    }
}

impl Output for FlattenedOutput {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _one_at_a_time = self
            .lock
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let header = flattened::record_header(offset, bytes.len() as u64);
        self.sink.write_all(&header)?;
        self.sink.write_all(bytes)
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn sync(&self) -> io::Result<()> {
        self.sink.sync()
    }

    fn finish(&self) -> io::Result<()> {
        self.sink.write_all(&flattened::end_record())?;
        self.sink.finish()
    }

    fn kept(&self) -> Option<PathBuf> {
        self.sink.kept()
    }

    fn discard(&self) {
        self.sink.discard();
    }
}

/// The bytes of a file in order; gaps become zeros.
pub struct PlainStream {
    sink: Sink,
    position: Mutex<u64>,
}

impl PlainStream {
    /// Begins the stream.
    pub fn begin(sink: Sink) -> Self {
        Self {
            sink,
            position: Mutex::new(0),
        }
    }
}

impl Output for PlainStream {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut position = self
            .position
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let mut gap = offset
            .checked_sub(*position)
            .ok_or(io::ErrorKind::NotSeekable)?;
        let zeros = [0; 64 << 10];
        while gap > 0 {
            let len = gap.min(zeros.len() as u64);
            self.sink.write_all(&zeros[..len as usize])?;
            gap -= len;
        }
        self.sink.write_all(bytes)?;
        *position = offset + bytes.len() as u64;
        Ok(())
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn sync(&self) -> io::Result<()> {
        self.sink.sync()
    }

    fn finish(&self) -> io::Result<()> {
        self.sink.finish()
    }

    fn kept(&self) -> Option<PathBuf> {
        self.sink.kept()
    }

    fn discard(&self) {
        self.sink.discard();
    }

    fn take_back(&self) {
        self.sink.take_back();
    }
}
