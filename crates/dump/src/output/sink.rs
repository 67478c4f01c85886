//! What a stream goes to.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;

use age::stream::StreamWriter;

use super::{FileOutput, Output};
use crate::encryption::Recipients;

/// What a stream goes to, and whether it is encrypted on the way.
pub struct Sink {
    target: Target,
    encryptor: Option<Mutex<Encryptor>>,
}

enum Target {
    Stdout(File),
    File(FileOutput),
}

/// Encrypts until the end.
enum Encryptor {
    Open(Box<StreamWriter<File>>),
    Ended,
}

impl Sink {
    /// Standard output.
    pub fn stdout(file: File) -> Self {
        Self {
            target: Target::Stdout(file),
            encryptor: None,
        }
    }

    /// A file, from its start to its end.
    pub fn file(output: FileOutput) -> Self {
        Self {
            target: Target::File(output),
            encryptor: None,
        }
    }

    /// Lets only `recipients` read what is written from now on.
    pub fn encrypted(mut self, recipients: &Recipients) -> io::Result<Self> {
        let writer = recipients.encrypt(self.bytes().try_clone()?)?;
        self.encryptor = Some(Mutex::new(Encryptor::Open(Box::new(writer))));
        Ok(self)
    }

    fn bytes(&self) -> &File {
        match &self.target {
            Target::Stdout(file) => file,
            Target::File(output) => output.file(),
        }
    }

    /// Writes all of `bytes` behind what was written before.
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(encryptor) = &self.encryptor else {
            return self.bytes().write_all(bytes);
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
        match &self.target {
            Target::Stdout(_) => Ok(()),
            Target::File(output) => output.finish(),
        }
    }

    /// The file that keeps what was written if it ends here.
    pub fn kept(&self) -> Option<PathBuf> {
        match &self.target {
            Target::Stdout(_) => None,
            Target::File(output) => output.kept(),
        }
    }

    /// Removes what was written.
    pub fn discard(&self) {
        if let Target::File(output) = &self.target {
            output.discard();
        }
    }
}
