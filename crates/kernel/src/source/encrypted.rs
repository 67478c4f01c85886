//! Dumps encrypted by age (age-encryption.org/v1) as sources.

use std::cell::RefCell;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::iter;
use std::path::Path;
use std::sync::{Arc, Mutex};

use age::DecryptError;
use age::secrecy::ExposeSecret;
use age::stream::StreamReader;
use age_core::format::{FileKey, Stanza};
use bigiron_format::{FormatError, ReadAt};

use super::elf::ElfBytes;
use crate::error::SourceError;

/// First line of an encrypted file.
const SIGNATURE: &[u8] = b"age-encryption.org/v1\n";
/// First line of an armored file.
const ARMORED: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE-----";
/// Start of the last line of a header, which has the header's checksum.
const LAST_LINE: &[u8] = b"---";
/// Maximum number of recipients of an encrypted dump.
pub const MAX_RECIPIENTS: usize = 600;
/// Maximum size of a header. A recipient takes 98 bytes.
const MAX_HEADER: usize = 64 << 10;
/// Maximum number of lines of a header: two for each recipient, and a few others. `age` parses a
/// header anew after each line.
const MAX_LINES: usize = 2 * MAX_RECIPIENTS + 100;
/// Size of the random number between the header and the contents.
const NONCE: u64 = 16;
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
    let header = header_size(bytes.as_ref()).map_err(|cause| SourceError::Format {
        path: path.clone(),
        cause,
    })?;
    let found = FoundKey {
        identities,
        key: RefCell::new(None),
    };
    let mut reader = open(&bytes, &found).map_err(refuse)?;
    let key = found.key.into_inner();
    let key = KnownKey(key.ok_or_else(|| refused("is encrypted without a key".into()))?);
    let (reader, size, damage) = match reader.seek(SeekFrom::End(0)) {
        Ok(end) => (reader, end, None),
        // Without the last chunk the intended length is unknown.
        Err(_) => {
            let contents = bytes.size().saturating_sub(header + NONCE);
            let whole = contents / (CHUNK + TAG) * CHUNK;
            let damage = format!(
                "{} has no last piece of its encryption: it is truncated",
                path.display()
            );
            // The failed reader has lost its position.
            (open(&bytes, &key).map_err(refuse)?, whole, Some(damage))
        }
    };
    let decrypted = DecryptedFile {
        reader: Mutex::new(Some(reader)),
        bytes,
        key,
        size,
        is_cut: damage.is_some(),
    };
    Ok((ElfBytes::Other(Box::new(decrypted), path), damage))
}

/// Returns the size of the header, in bytes, before `age` parses it.
fn header_size(bytes: &dyn ReadAt) -> Result<u64, FormatError> {
    let mut front = vec![0; MAX_HEADER];
    let mut filled = 0;
    while filled < front.len() {
        match bytes.read_at(filled as u64, &mut front[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(cause) => {
                return Err(FormatError::Io {
                    what: "the header of the encryption",
                    offset: filled as u64,
                    cause,
                });
            }
        }
    }
    let mut size = 0;
    let lines = front[..filled].split_inclusive(|byte| *byte == b'\n');
    for line in lines.take(MAX_LINES) {
        size += line.len();
        if line.starts_with(LAST_LINE) && line.ends_with(b"\n") {
            return Ok(size as u64);
        }
    }
    if filled < MAX_HEADER && size == filled {
        return Err(FormatError::Truncated {
            what: "the header of the encryption",
            offset: 0,
            needed: filled as u64 + 1,
            size: filled as u64,
        });
    }
    Err(FormatError::unexpected(
        "the header of the encryption",
        0,
        format!("a line \"---\" within {MAX_HEADER} bytes and {MAX_LINES} lines"),
        format!("none up to offset {size:#x}; no more recipients can be read"),
    ))
}

/// Opens a reader of the contents.
fn open(bytes: &Arc<dyn ReadAt>, key: &dyn age::Identity) -> Result<DumpReader, DecryptError> {
    let cursor = Cursor {
        bytes: Arc::clone(bytes),
        position: 0,
    };
    // Without a buffer, `age` reads and parses a header anew for each of its bytes.
    age::Decryptor::new_buffered(BufReader::new(cursor))?.decrypt(iter::once(key))
}

/// Secret keys, and the key of the file after one of them has opened it.
struct FoundKey<'a> {
    identities: &'a Identities,
    key: RefCell<Option<FileKey>>,
}

impl age::Identity for FoundKey<'_> {
    fn unwrap_stanza(&self, stanza: &Stanza) -> Option<Result<FileKey, DecryptError>> {
        self.unwrap_stanzas(std::slice::from_ref(stanza))
    }

    fn unwrap_stanzas(&self, stanzas: &[Stanza]) -> Option<Result<FileKey, DecryptError>> {
        let mut keys = self.identities.0.iter();
        let found = keys.find_map(|key| key.unwrap_stanzas(stanzas))?;
        Some(found.inspect(|key| *self.key.borrow_mut() = Some(copy(key))))
    }
}

/// The key of a file, to open it again.
struct KnownKey(FileKey);

impl age::Identity for KnownKey {
    fn unwrap_stanza(&self, _: &Stanza) -> Option<Result<FileKey, DecryptError>> {
        Some(Ok(copy(&self.0)))
    }
}

fn copy(key: &FileKey) -> FileKey {
    FileKey::init_with_mut(|bytes| bytes.copy_from_slice(key.expose_secret()))
}

/// The contents of an encrypted file as a stream. Chunks are larger than the buffer and bypass it.
type DumpReader = StreamReader<BufReader<Cursor>>;

/// The contents of an encrypted file. Helpers take turns.
struct DecryptedFile {
    /// `None` after an error: `age` keeps what it has read of a chunk that it cannot decrypt, and
    /// takes it for the next one.
    reader: Mutex<Option<DumpReader>>,
    bytes: Arc<dyn ReadAt>,
    key: KnownKey,
    size: u64,
    is_cut: bool,
}

impl DecryptedFile {
    fn read(&self, reader: &mut DumpReader, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if self.is_cut {
            // Seeking to the first byte of a chunk makes age read the last chunk, which is
            // missing; seeking to the second byte does not.
            reader.seek(SeekFrom::Start(offset | 1))?;
        }
        reader.seek(SeekFrom::Start(offset))?;
        reader.read(buf)
    }
}

impl ReadAt for DecryptedFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let Some(left) = self.size.checked_sub(offset).filter(|left| *left > 0) else {
            return Ok(0);
        };
        let len = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut kept = self
            .reader
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let mut reader = match kept.take() {
            Some(reader) => reader,
            None => open(&self.bytes, &self.key).map_err(io::Error::other)?,
        };
        let count = self.read(&mut reader, offset, &mut buf[..len])?;
        *kept = Some(reader);
        Ok(count)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// A file as a stream.
struct Cursor {
    bytes: Arc<dyn ReadAt>,
    position: u64,
}

impl Read for Cursor {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read_at(self.position, buf)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.bytes.size().checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::io::Write;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use age::x25519;

    use super::*;

    /// A file that counts reads.
    struct Counted {
        bytes: Vec<u8>,
        reads: Arc<AtomicUsize>,
    }

    impl ReadAt for Counted {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.bytes.as_slice().read_at(offset, buf)
        }

        fn size(&self) -> u64 {
            self.bytes.len() as u64
        }
    }

    type Opened = Result<(Box<dyn ReadAt>, Option<String>), SourceError>;

    /// Opens a file, and returns the number of reads that this took.
    fn open_counted(bytes: Vec<u8>, key: x25519::Identity) -> (Opened, usize) {
        let reads = Arc::default();
        let file = Counted {
            bytes,
            reads: Arc::clone(&reads),
        };
        let opened = decrypt(
            Box::new(file),
            Path::new("crafted"),
            &Identities(vec![Box::new(key)]),
        );
        (opened, reads.load(Ordering::Relaxed))
    }

    #[test]
    fn header_for_many_recipients_is_read_in_few_steps() {
        let key = x25519::Identity::generate();
        let others = (1..MAX_RECIPIENTS).map(|_| x25519::Identity::generate().to_public());
        let public: Vec<_> = others.chain([key.to_public()]).collect();
        let recipients = public.iter().map(|public| public as &dyn age::Recipient);
        let encryptor = age::Encryptor::with_recipients(recipients).unwrap();
        let mut bytes = Vec::new();
        let mut writer = encryptor.wrap_output(&mut bytes).unwrap();
        writer.write_all(b"secret").unwrap();
        writer.finish().unwrap();
        let (opened, reads) = open_counted(bytes, key);
        let (contents, damage) = opened.unwrap();
        assert_eq!(contents.read_vec_at("it", 0, 6).unwrap(), b"secret");
        assert_eq!(damage, None);
        assert!(reads < 100, "{reads} reads");
    }

    #[test]
    fn damaged_chunk_hides_no_other_bytes() {
        let plain: Vec<u8> = (0..5 * CHUNK + 100).map(|at| (at / 7) as u8).collect();
        let key = x25519::Identity::generate();
        let bytes = age::encrypt(&key.to_public(), &plain).unwrap();
        let header = bytes.len() as u64 - (plain.len() as u64 + 6 * TAG);
        // A part of the second chunk, and the last byte, so that the intended length is unknown.
        for (bad, is_cut) in [
            (header + CHUNK + TAG + 9, false),
            (bytes.len() as u64 - 1, true),
        ] {
            let mut bytes = bytes.clone();
            bytes[bad as usize] ^= 1;
            let (opened, _) = open_counted(bytes, key.clone());
            let (contents, damage) = opened.unwrap();
            assert_eq!(damage.is_some(), is_cut);
            for chunk in [1, 1, 0, 1, 2, 1, 3, 4, 1, 1, 4] {
                let at = chunk * CHUNK + 5;
                let read = contents.read_vec_at("it", at, 1000);
                let is_damaged = chunk == 1 && !is_cut;
                let expected = &plain[at as usize..at as usize + 1000];
                assert_eq!(
                    read.ok(),
                    (!is_damaged).then(|| expected.to_vec()),
                    "{chunk}"
                );
            }
        }
    }

    #[test]
    fn header_without_an_end_is_refused_before_it_is_parsed() {
        let begin = b"age-encryption.org/v1\n-> X25519 AAAA\n";
        let long_line = [b"A".repeat(64), b"\n".to_vec()].concat().repeat(3000);
        let short_lines = b"-> a\n\n".repeat(2000);
        for (lines, expected) in [
            (long_line, "within 65536 bytes and 1300 lines"),
            (short_lines, "within 65536 bytes and 1300 lines"),
            (b"AAAA\n".to_vec(), "truncated"),
            (b"AAAA\n---".to_vec(), "truncated"),
        ] {
            let bytes = [begin.to_vec(), lines].concat();
            let (opened, reads) = open_counted(bytes, x25519::Identity::generate());
            let error = opened.err().unwrap().to_string();
            assert!(error.contains("crafted: "), "{error}");
            assert!(error.contains(expected), "{error}");
            assert!(reads < 100, "{reads} reads");
        }
    }
}
