//! Output to a pipe, or to a file as if it were one.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;

use bigiron_format::flattened;

use super::{FileOutput, Output};

/// What a stream goes to.
pub enum Sink {
    /// Standard output.
    Stdout(File),
    /// A file, from its start to its end.
    File(FileOutput),
}

impl Sink {
    fn file(&self) -> &File {
        match self {
            Self::Stdout(file) => file,
            Self::File(output) => output.file(),
        }
    }

    fn finish(&self) -> io::Result<()> {
        match self {
            Self::Stdout(_) => Ok(()),
            Self::File(output) => output.finish(),
        }
    }

    fn kept(&self) -> Option<PathBuf> {
        match self {
            Self::Stdout(_) => None,
            Self::File(output) => output.kept(),
        }
    }

    fn discard(&self) {
        if let Self::File(output) = self {
            output.discard();
        }
    }
}

/// Records of the flattened format: each piece says where it belongs.
pub struct FlattenedOutput {
    sink: Sink,
    lock: Mutex<()>,
}

impl FlattenedOutput {
    /// Begins the stream.
    pub fn begin(sink: Sink) -> io::Result<Self> {
        sink.file().write_all(&flattened::header())?;
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
        let mut file = self.sink.file();
        file.write_all(&flattened::record_header(offset, bytes.len() as u64))?;
        file.write_all(bytes)
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn sync(&self) -> io::Result<()> {
        // What comes after it in a stream cannot be there without it.
        Ok(())
    }

    fn finish(&self) -> io::Result<()> {
        self.sink.file().write_all(&flattened::end_record())?;
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
        let mut file = self.sink.file();
        let zeros = [0; 64 << 10];
        while gap > 0 {
            let len = gap.min(zeros.len() as u64);
            file.write_all(&zeros[..len as usize])?;
            gap -= len;
        }
        file.write_all(bytes)?;
        *position = offset + bytes.len() as u64;
        Ok(())
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn sync(&self) -> io::Result<()> {
        // What comes after it in a stream cannot be there without it.
        Ok(())
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
}
