//! The contents of a file or device: a dump, or an encrypted dump.

use std::path::Path;

use bigiron_format::ReadAt;
use bigiron_format::device::DumpId;
use bigiron_kernel::Identities;
use bigiron_kernel::source::{decrypt, is_encrypted};
use xxhash_rust::xxh3::Xxh3;

use super::options::SaveOptions;
use super::recognise::is_elf;
use crate::device::refused;
use crate::error::DumpError;

/// The contents to be saved.
pub enum Content {
    /// An unencrypted dump.
    Plain { is_elf: bool },
    /// An encrypted dump without a key: it is copied as it is.
    Encrypted,
    /// The decrypted contents of an encrypted dump.
    Decrypted {
        bytes: Box<dyn ReadAt>,
        damage: Option<String>,
        is_elf: bool,
    },
}

impl Content {
    /// Identifies the `bytes` found at `path`.
    pub fn of(
        bytes: Box<dyn ReadAt>,
        path: &Path,
        options: &SaveOptions,
    ) -> Result<Self, DumpError> {
        if !is_encrypted(bytes.as_ref()) {
            return Ok(Self::Plain {
                is_elf: is_elf(bytes.as_ref()),
            });
        }
        let Some(keys) = &options.identity else {
            if options.expand {
                let reason = "is encrypted; to expand it, give the secret key with --identity FILE";
                return Err(refused(path, reason));
            }
            return Ok(Self::Encrypted);
        };
        let (bytes, damage) = decrypt(bytes, path, &Identities::from_file(keys)?)?;
        Ok(Self::Decrypted {
            is_elf: is_elf(bytes.as_ref()),
            bytes,
            damage,
        })
    }

    /// Returns the id of the saved dump. A decrypted copy is a different dump from the
    /// encrypted one with `id`, which may be saved as well.
    pub fn id(&self, id: DumpId) -> DumpId {
        let Self::Decrypted { .. } = self else {
            return id;
        };
        let mut hash = Xxh3::new();
        hash.update(b"decrypted");
        hash.update(&id.0);
        DumpId(hash.digest128().to_le_bytes())
    }

    /// Returns true if this is an ELF core.
    pub fn is_elf(&self) -> bool {
        match self {
            Self::Plain { is_elf } | Self::Decrypted { is_elf, .. } => *is_elf,
            Self::Encrypted => false,
        }
    }

    /// Returns the decrypted bytes, for an encrypted dump with a key.
    pub fn decrypted(&self) -> Option<&dyn ReadAt> {
        match self {
            Self::Decrypted { bytes, .. } => Some(bytes.as_ref()),
            Self::Plain { .. } | Self::Encrypted => None,
        }
    }

    /// Returns the reason why the decrypted contents are incomplete.
    pub fn damage(&self) -> Option<&str> {
        match self {
            Self::Decrypted { damage, .. } => damage.as_deref(),
            Self::Plain { .. } | Self::Encrypted => None,
        }
    }

    /// Returns a name and a value for the record.
    pub fn about(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Plain { .. } => None,
            Self::Encrypted => Some(("encrypted", "age-encryption.org/v1, copied as it is".into())),
            Self::Decrypted { .. } => Some((
                "decrypted",
                "the source is encrypted, this copy is not".into(),
            )),
        }
    }
}
