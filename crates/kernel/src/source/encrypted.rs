//! Dumps encrypted by age (age-encryption.org/v1) as sources.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use age::DecryptError;
use age::stream::StreamReader;
use bigiron_format::ReadAt;

use super::elf::ElfBytes;
use crate::error::SourceError;

/// First line of an encrypted file.
const SIGNATURE: &[u8] = b"age-encryption.org/v1\n";
/// First line of an armored file.
const ARMORED: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE-----";
/// Size of an encrypted chunk of age, and its overhead.
const CHUNK: u64 = 64 << 10;
const TAG: u64 = 16;

/// Secret keys of age for reading encrypted dumps.
#[derive(Default)]
pub struct Identities(Vec<Box<dyn age::Identity>>);

impl Identities {
    /// Reads keys in the format of age-keygen.
    pub fn from_file(path: &Path) -> Result<Self, SourceError> {
        let error = |cause| SourceError::Io {
            path: path.to_owned(),
            action: "read secret keys from it",
            cause,
        };
        let file = std::fs::File::open(path).map_err(error)?;
        let keys = age::IdentityFile::from_buffer(io::BufReader::new(file)).map_err(error)?;
        let keys = keys
            .into_identities()
            .map_err(|reason| error(io::Error::other(reason)))?;
        Ok(Self(keys))
    }
}

/// Returns true if a file is encrypted.
pub fn is_encrypted(file: &dyn ReadAt) -> bool {
    let mut front = [0; SIGNATURE.len()];
    file.read_exact_at("the signature", 0, &mut front).is_ok() && front == SIGNATURE
}

/// Returns the decrypted contents of `bytes`, named `path` in messages, decrypted on access,
/// and the reason why they may be incomplete.
pub fn decrypt(
    bytes: Box<dyn ReadAt>,
    path: &Path,
    identities: &Identities,
) -> Result<(Box<dyn ReadAt>, Option<String>), SourceError> {
    let (bytes, damage) = enter(ElfBytes::Other(bytes, path.to_owned()), identities)?;
    Ok((bytes.into_read(), damage))
}

/// Returns the decrypted contents of a file and the reason why they may be incomplete; an
/// unencrypted file is returned unchanged.
pub(super) fn enter(
    file: ElfBytes,
    identities: &Identities,
) -> Result<(ElfBytes, Option<String>), SourceError> {
    let path = file.path().to_owned();
    let refused = |reason: String| SourceError::Unsupported {
        path: path.clone(),
        reason,
    };
    let mut front = [0; ARMORED.len()];
    let read = file.read().read_at(0, &mut front).unwrap_or(0);
    let front = &front[..read];
    if front.starts_with(ARMORED) {
        let reason = "is encrypted and armored as text; unpack it by age -d first";
        return Err(refused(reason.into()));
    }
    if !front.starts_with(SIGNATURE) {
        return Ok((file, None));
    }
    if identities.0.is_empty() {
        let reason = "is encrypted; give the secret key by --identity FILE";
        return Err(refused(reason.into()));
    }
    let bytes: Arc<dyn ReadAt> = Arc::from(file.into_read());
    let refuse = |error| match error {
        DecryptError::NoMatchingKeys => refused(
            "is encrypted for others: none of the secret keys that were given opens it".into(),
        ),
        other => refused(format!("is encrypted and cannot be opened: {other}")),
    };
    let (mut reader, begin) = open(&bytes, identities).map_err(refuse)?;
    let (reader, size, damage) = match reader.seek(SeekFrom::End(0)) {
        Ok(end) => (reader, end, None),
        // Without the last chunk the intended length is unknown.
        Err(_) => {
            let whole = bytes.size().saturating_sub(begin) / (CHUNK + TAG) * CHUNK;
            let damage = format!(
                "{} has no last piece of its encryption: it is truncated",
                path.display()
            );
            // The failed reader has lost its position.
            (
                open(&bytes, identities).map_err(refuse)?.0,
                whole,
                Some(damage),
            )
        }
    };
    let decrypted = DecryptedFile {
        reader: Mutex::new(reader),
        size,
        is_cut: damage.is_some(),
    };
    Ok((ElfBytes::Other(Box::new(decrypted), path), damage))
}

/// Opens a reader of the contents, and returns their offset in the file.
fn open(
    bytes: &Arc<dyn ReadAt>,
    identities: &Identities,
) -> Result<(StreamReader<Cursor>, u64), DecryptError> {
    let position = Arc::new(AtomicU64::new(0));
    let cursor = Cursor {
        bytes: Arc::clone(bytes),
        position: Arc::clone(&position),
    };
    let keys = identities.0.iter().map(AsRef::as_ref);
    let reader = age::Decryptor::new(cursor)?.decrypt(keys)?;
    Ok((reader, position.load(Ordering::Relaxed)))
}

/// The contents of an encrypted file. Helpers take turns.
struct DecryptedFile {
    reader: Mutex<StreamReader<Cursor>>,
    size: u64,
    is_cut: bool,
}

impl ReadAt for DecryptedFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let Some(left) = self.size.checked_sub(offset).filter(|left| *left > 0) else {
            return Ok(0);
        };
        let len = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut reader = self
            .reader
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        if self.is_cut {
            // Seeking to the first byte of a chunk makes age read the last chunk, which is
            // missing; seeking to the second byte does not.
            reader.seek(SeekFrom::Start(offset | 1))?;
        }
        reader.seek(SeekFrom::Start(offset))?;
        reader.read(&mut buf[..len])
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// A file as a stream.
struct Cursor {
    bytes: Arc<dyn ReadAt>,
    /// Shared with the owner: the offset of the encrypted contents.
    position: Arc<AtomicU64>,
}

impl Read for Cursor {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let position = self.position.load(Ordering::Relaxed);
        let count = self.bytes.read_at(position, buf)?;
        self.position
            .store(position + count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.load(Ordering::Relaxed).checked_add_signed(by),
            SeekFrom::End(by) => self.bytes.size().checked_add_signed(by),
        };
        let position = position.ok_or(io::ErrorKind::InvalidInput)?;
        self.position.store(position, Ordering::Relaxed);
        Ok(position)
    }
}
