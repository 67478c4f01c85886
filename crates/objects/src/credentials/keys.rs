//! Keys and tokens, and files that have them.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use jiff::Timestamp;

use crate::error::ObjectError;

/// Keys that expire sooner are replaced before they are used, in seconds.
pub const MARGIN: i64 = 300;
/// Maximum size of a file that has a token.
const MAX_TOKEN: u64 = 64 << 10;

/// What is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(pub T);

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The keys by which requests are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The access key's id, which each request shows.
    pub id: String,
    /// The secret key.
    pub secret: Secret<String>,
    /// The token of temporary keys.
    pub token: Option<Secret<String>>,
    /// When they end; `None` if that is not known.
    pub expires: Option<Timestamp>,
}

impl Keys {
    /// Returns true if they can be used for some minutes.
    pub fn are_fresh(&self) -> bool {
        let left = self
            .expires
            .map(|expires| expires.as_second() - Timestamp::now().as_second());
        left.is_none_or(|left| left > MARGIN)
    }
}

/// Reads a token from a file, which others replace.
pub fn read_token(path: &Path) -> Result<Secret<String>, ObjectError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_TOKEN).read_to_string(&mut text));
    read.map_err(|error| {
        ObjectError::Settings(format!(
            "{}: cannot read the token for object storage: {error}",
            path.display()
        ))
    })?;
    Ok(Secret(text.trim().to_owned()))
}
