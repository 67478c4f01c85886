//! Output to a pipe, or to a file or device that is written as if it were one.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use bigiron_format::flattened;

use super::{FileOutput, Output, Sink};

/// Encoding of a file as a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEncoding {
    /// Records of the flattened format: each one has an offset.
    Flattened,
    /// The bytes of the file in order; gaps become zeros.
    Plain,
}

/// A dump that is written as a stream.
pub struct StreamOutput {
    sink: Sink,
    encoding: StreamEncoding,
    /// End of the last write of a plain stream.
    position: Mutex<u64>,
}

impl StreamOutput {
    /// Begins the stream.
    pub fn begin(sink: Sink, encoding: StreamEncoding) -> io::Result<Self> {
        if encoding == StreamEncoding::Flattened {
            sink.write_all(&flattened::header())?;
        }
        Ok(Self {
            sink,
            encoding,
            position: Mutex::new(0),
        })
    }

    fn fill_gap(&self, mut gap: u64) -> io::Result<()> {
        let zeros = [0; 64 << 10];
        while gap > 0 {
            let len = gap.min(zeros.len() as u64);
            self.sink.write_all(&zeros[..len as usize])?;
            gap -= len;
        }
        Ok(())
    }
}

impl Output for StreamOutput {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        match self.encoding {
            StreamEncoding::Flattened => {
                let header = flattened::record_header(offset, bytes.len() as u64);
                self.sink.write_all(&header)?;
            }
            StreamEncoding::Plain => {
                let gap = offset.checked_sub(*position);
                self.fill_gap(gap.ok_or(io::ErrorKind::NotSeekable)?)?;
                *position = offset + bytes.len() as u64;
            }
        }
        self.sink.write_all(bytes)
    }

    /// A stream holds no old data.
    fn make_zero(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn is_stream(&self) -> bool {
        true
    }

    /// A write to a stream takes as long as its reader.
    fn flush_behind(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.sink.sync()
    }

    fn finish(&self) -> io::Result<()> {
        if self.encoding == StreamEncoding::Flattened {
            self.sink.write_all(&flattened::end_record())?;
        }
        self.sink.finish()
    }

    fn take_back(&self) {
        self.sink.take_back();
    }

    fn kept(&self) -> Option<PathBuf> {
        self.sink.kept()
    }

    fn discard(&self) {
        self.sink.discard();
    }

    fn as_file(&self) -> Option<&FileOutput> {
        None
    }
}
