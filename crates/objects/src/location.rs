//! Where an object lies.

use std::fmt;
use std::str::FromStr;

use crate::error::ObjectError;

/// Other schemes that users may try, which mean Azure's storage.
const OTHERS: [&str; 4] = ["abfs://", "abfss://", "azure://", "wasbs://"];
/// Maximum length of a key in bytes (S3 user guide, "Naming Amazon S3 objects"). Azure's and
/// Google's limit is 1,024 as well.
const MAX_KEY: usize = 1024;
/// Maximum length of a bucket's name; 255 was allowed once.
const MAX_BUCKET: usize = 255;

/// The kind of a storage, by which the name of an object begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `s3://BUCKET/KEY`: Amazon's S3, and servers that speak its protocol.
    S3,
    /// `gs://BUCKET/KEY`: Google's storage, by the XML API, which is S3's in most.
    Google,
    /// `az://CONTAINER/KEY`: Azure's blobs.
    Azure,
}

impl Scheme {
    /// All.
    pub const ALL: [Self; 3] = [Self::S3, Self::Google, Self::Azure];

    /// What the names of its objects begin with, up to the colon.
    pub fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Google => "gs",
            Self::Azure => "az",
        }
    }

    /// The scheme of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }

    /// The scheme of an object's name, and what follows it.
    fn of(text: &str) -> Option<(Self, &str)> {
        let (name, rest) = text.split_once("://")?;
        Some((Self::named(name)?, rest))
    }
}

/// An object or a prefix of objects: `s3://BUCKET/KEY`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The kind of storage.
    pub scheme: Scheme,
    /// The bucket, or the container.
    pub bucket: String,
    /// The key, or the beginning of keys; without a slash in front.
    pub key: String,
}

/// Returns true for a name that [`Location`] is for, also for one that it refuses.
pub fn is_object(name: &str) -> bool {
    Scheme::of(name).is_some() || OTHERS.iter().any(|scheme| name.starts_with(scheme))
}

impl Location {
    /// The bucket itself.
    pub fn whole_bucket(&self) -> Self {
        self.with_key("")
    }

    /// Another object of the bucket.
    pub fn with_key(&self, key: &str) -> Self {
        Self {
            scheme: self.scheme,
            bucket: self.bucket.clone(),
            key: key.to_owned(),
        }
    }
}

impl FromStr for Location {
    type Err = ObjectError;

    fn from_str(text: &str) -> Result<Self, ObjectError> {
        let wrong = |reason: &str| ObjectError::Location {
            name: text.to_owned(),
            reason: reason.to_owned(),
        };
        let Some((scheme, rest)) = Scheme::of(text) else {
            return Err(wrong(
                "names no object: those of Azure are az://CONTAINER/KEY, of Google gs://BUCKET/KEY, \
                 and of all other servers s3://BUCKET/KEY",
            ));
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        // Some containers of Azure have a name of its own, such as $web.
        let others: &[u8] = match scheme {
            Scheme::Azure => b"-$",
            _ => b"-._",
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || others.contains(&byte);
        if bucket.is_empty() || bucket.len() > MAX_BUCKET || !bucket.bytes().all(is_plain) {
            return Err(wrong(
                "has no name of a bucket, which is of letters, digits, - . and _; expected \
                 s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY",
            ));
        }
        if key.len() > MAX_KEY || key.chars().any(char::is_control) {
            return Err(wrong(
                "its key is longer than 1024 bytes, or has control characters",
            ));
        }
        Ok(Self {
            scheme,
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.scheme.name(), self.bucket, self.key)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    #[test]
    fn names_are_a_bucket_and_a_key() {
        let location: Location = "s3://crashes/a//b c".parse().unwrap();
        assert_eq!((&*location.bucket, &*location.key), ("crashes", "a//b c"));
        assert_eq!(location.to_string(), "s3://crashes/a//b c");
        let bucket: Location = "az://crashes".parse().unwrap();
        assert_eq!((bucket.scheme, &*bucket.key), (Scheme::Azure, ""));
        assert_eq!(bucket.with_key("a").to_string(), "az://crashes/a");
    }

    #[test]
    fn other_names_are_refused() {
        for wrong in [
            "s3://",
            "s3:///key",
            "s3://a@evil.example/key",
            "gs://a:80/key",
            "az://a/b\nc",
            "abfs://container/key",
            "/var/crash",
        ] {
            assert!(wrong.parse::<Location>().is_err(), "{wrong}");
        }
        assert!(is_object("gs://bucket/key") && is_object("abfs://a/b"));
        assert!(!is_object("./s3:/a") && !is_object("http://a/b"));
    }
}
