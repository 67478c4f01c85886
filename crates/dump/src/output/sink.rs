//! What a stream goes to.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use age::stream::StreamWriter;

use super::{DeviceOutput, FileOutput, Output};
use crate::encryption::Recipients;

/// What a stream goes to, and whether it is encrypted on the way.
pub struct Sink {
    target: Arc<Target>,
    encryptor: Option<Mutex<Encryptor>>,
}

enum Target {
    Stdout(File),
    File(FileOutput),
    Device(Box<DeviceOutput>),
}

impl Target {
    /// Writes all of `bytes` behind what was written before.
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout(file) => (&*file).write_all(bytes),
            Self::File(output) => output.file().write_all(bytes),
            Self::Device(output) => output.append(bytes),
        }
    }
}

/// A target for who writes to what is its own.
struct Append(Arc<Target>);

impl Write for Append {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Encrypts until the end.
enum Encryptor {
    Open(Box<StreamWriter<Append>>),
    Ended,
}

impl Sink {
    /// Standard output.
    pub fn stdout(file: File) -> Self {
        Self {
            target: Arc::new(Target::Stdout(file)),
            encryptor: None,
        }
    }

    /// A file, from its start to its end.
    pub fn file(output: FileOutput) -> Self {
        Self {
            target: Arc::new(Target::File(output)),
            encryptor: None,
        }
    }

    /// A raw dump device, from the start of its contents to their end.
    pub fn device(output: DeviceOutput) -> Self {
        Self {
            target: Arc::new(Target::Device(Box::new(output))),
            encryptor: None,
        }
    }

    /// Lets only `recipients` read what is written from now on.
    pub fn encrypted(mut self, recipients: &Recipients) -> io::Result<Self> {
        let writer = recipients.encrypt(Append(Arc::clone(&self.target)))?;
        self.encryptor = Some(Mutex::new(Encryptor::Open(Box::new(writer))));
        Ok(self)
    }

    /// Writes all of `bytes` behind what was written before.
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(encryptor) = &self.encryptor else {
            return self.target.append(bytes);
        };
        let mut encryptor = encryptor
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        match &mut *encryptor {
            Encryptor::Open(writer) => writer.write_all(bytes),
            Encryptor::Ended => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Everything was written.
    pub fn finish(&self) -> io::Result<()> {
        if let Some(encryptor) = &self.encryptor {
            let mut encryptor = encryptor
                .lock()
                .unwrap_or_else(|poison| poison.into_inner());
            // Without its last chunk the file is cut, and readers say so.
            if let Encryptor::Open(writer) = std::mem::replace(&mut *encryptor, Encryptor::Ended) {
                writer.finish()?;
            }
        }
        match &*self.target {
            Target::Stdout(_) => Ok(()),
            Target::File(output) => output.finish(),
            Target::Device(output) => output.finish(),
        }
    }

    /// Makes what was written until now durable, where that can be. What the
    /// encryption holds back until its piece is full is not.
    pub fn sync(&self) -> io::Result<()> {
        match &*self.target {
            // What comes after it cannot be there without it.
            Target::Stdout(_) => Ok(()),
            Target::File(output) => output.sync(),
            Target::Device(output) => output.note_length(),
        }
    }

    /// The file that keeps what was written if it ends here.
    pub fn kept(&self) -> Option<PathBuf> {
        match &*self.target {
            Target::Stdout(_) => None,
            Target::File(output) => output.kept(),
            Target::Device(output) => output.kept(),
        }
    }

    /// Takes the name away again.
    pub fn take_back(&self) {
        if let Target::File(output) = &*self.target {
            output.take_back();
        }
    }

    /// Removes what was written.
    pub fn discard(&self) {
        match &*self.target {
            Target::Stdout(_) => {}
            Target::File(output) => output.discard(),
            Target::Device(output) => output.discard(),
        }
    }
}
