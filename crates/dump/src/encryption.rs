//! Recipients of encrypted dumps.
//!
//! Dumps are encrypted for public keys in the age format (age-encryption.org/v1), so that the
//! machine that crashes never holds a secret key.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use age::stream::StreamWriter;
use age::x25519::Recipient;
use bigiron_kernel::MAX_RECIPIENTS;

/// Maximum size of a file of recipients.
const MAX_FILE: u64 = 1 << 20;
/// Prefix of an age public key.
const PUBLIC_KEY: &str = "age1";

/// The recipients of an encrypted dump: one or more age public keys.
#[derive(Clone)]
pub struct Recipients(Vec<Recipient>);

/// Errors of [`Recipients`].
#[derive(Debug, thiserror::Error)]
pub enum RecipientsError {
    /// The text is not a public key.
    #[error(
        "{place}: {text:?} is not an age public key ({reason}); age-keygen prints one, which begins with age1"
    )]
    NoKey {
        /// The file and line, or the argument.
        place: String,
        /// The invalid text.
        text: String,
        /// The reason.
        reason: &'static str,
    },
    /// A secret key was given.
    #[error(
        "{place} is a secret key; give the public key (age-keygen -y prints it), and do not store the secret key on this machine"
    )]
    SecretKey {
        /// The file and line, or the argument.
        place: String,
    },
    /// The file cannot be read.
    #[error("{path}: cannot read recipients: {cause}")]
    File {
        /// The file.
        path: String,
        /// The I/O error.
        cause: io::Error,
    },
    /// The file has no recipient.
    #[error("{path}: no recipient found; write each public key (age1…) on its own line")]
    None {
        /// The file.
        path: String,
    },
}

impl Recipients {
    /// Reads recipients from the lines of a file; lines starting with `#` are comments, as for
    /// `age -R`.
    fn from_file(path: &Path) -> Result<Self, RecipientsError> {
        let name = path.display().to_string();
        let error = |cause| RecipientsError::File {
            path: name.clone(),
            cause,
        };
        let size = fs::metadata(path).map_err(error)?.len();
        if size > MAX_FILE {
            return Err(error(io::ErrorKind::FileTooLarge.into()));
        }
        let text = fs::read_to_string(path).map_err(error)?;
        let lines = (1..).zip(text.lines().map(str::trim));
        let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let keys: Vec<Recipient> = keys
            .map(|(number, line)| parse(line, || format!("{name}, line {number}")))
            .collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err(RecipientsError::None { path: name });
        }
        Ok(Self(keys))
    }

    /// Adds the recipients of `other`.
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns a writer that encrypts to `inner`.
    ///
    /// # Errors
    /// More recipients than can be read back, or an error of writing.
    pub fn encrypt<W: Write>(&self, inner: W) -> io::Result<StreamWriter<W>> {
        let count = self.0.len();
        if count > MAX_RECIPIENTS {
            return Err(io::Error::other(format!(
                "{count} recipients; a dump can be encrypted for at most {MAX_RECIPIENTS}"
            )));
        }
        let keys = self.0.iter().map(|key| key as &dyn age::Recipient);
        let encryptor = age::Encryptor::with_recipients(keys).map_err(io::Error::other)?;
        encryptor.wrap_output(inner)
    }
}

fn parse(text: &str, place: impl Fn() -> String) -> Result<Recipient, RecipientsError> {
    if text.to_ascii_uppercase().starts_with("AGE-SECRET-KEY-") {
        return Err(RecipientsError::SecretKey { place: place() });
    }
    text.parse().map_err(|reason| RecipientsError::NoKey {
        place: place(),
        text: text.chars().take(80).collect(),
        reason,
    })
}

impl FromStr for Recipients {
    type Err = RecipientsError;

    /// Parses a public key, or reads the named file of keys.
    fn from_str(text: &str) -> Result<Self, RecipientsError> {
        let is_key = text.starts_with(PUBLIC_KEY) && !Path::new(text).exists();
        if is_key || text.to_ascii_uppercase().starts_with("AGE-SECRET-KEY-") {
            return Ok(Self(vec![parse(text, || "the recipient".into())?]));
        }
        Self::from_file(Path::new(text))
    }
}

impl fmt::Debug for Recipients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(ToString::to_string))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn encrypted_data_opens_with_each_recipients_key_and_no_other() {
        let keys = [0; 3].map(|_| age::x25519::Identity::generate());
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("recipients");
        fs::write(&file, format!("# the team\n\n{}\n", keys[1].to_public())).unwrap();
        let first: Recipients = keys[0].to_public().to_string().parse().unwrap();
        let both = first.and(file.to_str().unwrap().parse().unwrap());
        let mut encrypted = Vec::new();
        let mut writer = both.encrypt(&mut encrypted).unwrap();
        writer.write_all(b"secret").unwrap();
        writer.finish().unwrap();
        for (index, key) in keys.iter().enumerate() {
            let decryptor = age::Decryptor::new(&encrypted[..]).unwrap();
            let opened = decryptor.decrypt(std::iter::once(key as &dyn age::Identity));
            assert_eq!(opened.is_ok(), index < 2);
            if let Ok(mut reader) = opened {
                let mut text = String::new();
                reader.read_to_string(&mut text).unwrap();
                assert_eq!(text, "secret");
            }
        }
    }

    #[test]
    fn more_recipients_than_can_be_read_are_refused() {
        let key = age::x25519::Identity::generate().to_public();
        let most = Recipients(vec![key.clone(); MAX_RECIPIENTS]);
        assert!(most.encrypt(Vec::new()).is_ok());
        let error = most.and(Recipients(vec![key])).encrypt(Vec::new());
        let said = error.err().unwrap().to_string();
        assert!(said.contains("601 recipients"), "{said}");
    }

    #[test]
    fn invalid_keys_are_refused_and_secret_keys_are_not_repeated() {
        let error = |text: &str| Recipients::from_str(text).unwrap_err().to_string();
        assert!(error("age1nonsense").contains("age-keygen"));
        assert!(error("/nowhere").contains("/nowhere"));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("recipients");
        fs::write(&file, "# nobody\n").unwrap();
        assert!(error(file.to_str().unwrap()).contains("no recipient"));
        fs::write(&file, "# next\nAGE-SECRET-KEY-1ABC\n").unwrap();
        let said = error(file.to_str().unwrap());
        assert!(said.contains("line 2") && !said.contains("1ABC"), "{said}");
        assert!(!error("AGE-SECRET-KEY-1ABC").contains("1ABC"));
    }
}
