//! Destination of a stream, encrypted if requested.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use age::stream::StreamWriter;

use super::{DeviceOutput, FileOutput, Output, Taker};
use crate::encryption::Recipients;

/// Destination of a stream.
pub struct Sink {
    target: Arc<Target>,
    encryptor: Option<Mutex<Encryptor>>,
}

enum Target {
    Stdout(File),
    File(Box<FileOutput>),
    Device(Box<DeviceOutput>),
    Taker(Box<dyn Taker>),
}

impl Target {
    /// Appends all of `bytes`.
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout(file) => (&*file).write_all(bytes),
            Self::File(output) => output.file().write_all(bytes),
            Self::Device(output) => output.append(bytes),
            Self::Taker(taker) => taker.append(bytes),
        }
    }
}

/// [`Write`] that appends to the target.
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

/// Encrypting writer, until the stream ends.
enum Encryptor {
    Open(Box<StreamWriter<Append>>),
    Ended,
}

impl Sink {
    /// Standard output.
    pub fn stdout(file: File) -> Self {
        Self::to(Target::Stdout(file))
    }

    /// A file, from its start to its end.
    pub fn file(output: FileOutput) -> Self {
        Self::to(Target::File(Box::new(output)))
    }

    /// A raw dump device, from the start of its contents to their end.
    pub fn device(output: DeviceOutput) -> Self {
        Self::to(Target::Device(Box::new(output)))
    }

    /// A place of the caller's.
    pub fn taker(taker: Box<dyn Taker>) -> Self {
        Self::to(Target::Taker(taker))
    }

    fn to(target: Target) -> Self {
        Self {
            target: Arc::new(target),
            encryptor: None,
        }
    }

    /// Encrypts everything written from now on for `recipients`.
    pub fn encrypted(mut self, recipients: &Recipients) -> io::Result<Self> {
        let writer = recipients.encrypt(Append(Arc::clone(&self.target)))?;
        self.encryptor = Some(Mutex::new(Encryptor::Open(Box::new(writer))));
        Ok(self)
    }

    /// Appends all of `bytes`.
    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self.lock_encryptor().as_deref_mut() {
            None => self.target.append(bytes),
            Some(Encryptor::Open(writer)) => writer.write_all(bytes),
            Some(Encryptor::Ended) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn lock_encryptor(&self) -> Option<MutexGuard<'_, Encryptor>> {
        let encryptor = self.encryptor.as_ref()?;
        Some(encryptor.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the stream.
    pub fn finish(&self) -> io::Result<()> {
        if let Some(mut encryptor) = self.lock_encryptor()
            // Without its last chunk the file is truncated, and readers report that.
            && let Encryptor::Open(writer) = std::mem::replace(&mut *encryptor, Encryptor::Ended)
        {
            writer.finish()?;
        }
        match &*self.target {
            Target::Stdout(_) => Ok(()),
            Target::File(output) => output.finish(),
            Target::Device(output) => output.finish(),
            Target::Taker(taker) => taker.finish(),
        }
    }

    /// Makes the bytes written so far durable, if the target can. This excludes bytes that the
    /// encryption buffers until its chunk is full.
    pub fn sync(&self) -> io::Result<()> {
        match &*self.target {
            // Later bytes cannot arrive without earlier ones.
            Target::Stdout(_) => Ok(()),
            Target::File(output) => output.sync(),
            Target::Device(output) => output.note_length(),
            // It is durable in its own time, and at its end.
            Target::Taker(_) => Ok(()),
        }
    }

    /// See [`Output::kept`].
    pub fn kept(&self) -> Option<PathBuf> {
        match &*self.target {
            Target::Stdout(_) => None,
            Target::File(output) => output.kept(),
            Target::Device(output) => output.kept(),
            Target::Taker(taker) => taker.leave().ok().and_then(|()| taker.left()),
        }
    }

    /// See [`Output::take_back`].
    pub fn take_back(&self) {
        match &*self.target {
            Target::Stdout(_) => {}
            Target::File(output) => output.take_back(),
            Target::Device(output) => output.take_back(),
            Target::Taker(_) => {}
        }
    }

    /// See [`Output::discard`].
    pub fn discard(&self) {
        match &*self.target {
            Target::Stdout(_) => {}
            Target::File(output) => output.discard(),
            Target::Device(output) => output.discard(),
            Target::Taker(taker) => taker.discard(),
        }
    }
}
