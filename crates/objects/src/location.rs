//! Where an object lies.

use std::fmt;
use std::str::FromStr;

use crate::error::ObjectError;

/// What the name of an object begins with.
const SCHEME: &str = "s3://";
/// Other schemes that users may try.
const OTHERS: [&str; 4] = ["gs://", "az://", "abfs://", "azure://"];
/// Maximum length of a key in bytes (S3 user guide, "Naming Amazon S3 objects").
const MAX_KEY: usize = 1024;
/// Maximum length of a bucket's name; 255 was allowed once.
const MAX_BUCKET: usize = 255;

/// An object or a prefix of objects: `s3://BUCKET/KEY`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The bucket.
    pub bucket: String,
    /// The key, or the beginning of keys; without a slash in front.
    pub key: String,
}

/// Returns true for a name that [`Location`] is for, also for one that it refuses.
pub fn is_object(name: &str) -> bool {
    name.starts_with(SCHEME) || OTHERS.iter().any(|scheme| name.starts_with(scheme))
}

impl FromStr for Location {
    type Err = ObjectError;

    fn from_str(text: &str) -> Result<Self, ObjectError> {
        let wrong = |reason: &str| ObjectError::Location {
            name: text.to_owned(),
            reason: reason.to_owned(),
        };
        if text.starts_with("gs://") {
            return Err(wrong(
                "buckets of Google are reached as s3://BUCKET/KEY, with \
                 AWS_ENDPOINT_URL=https://storage.googleapis.com and an HMAC key",
            ));
        }
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return Err(wrong("only s3:// is supported"));
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if bucket.is_empty() || bucket.len() > MAX_BUCKET || !bucket.bytes().all(is_plain) {
            return Err(wrong(
                "has no name of a bucket, which is of letters, digits, - . and _; expected \
                 s3://BUCKET/KEY",
            ));
        }
        if key.len() > MAX_KEY || key.chars().any(char::is_control) {
            return Err(wrong(
                "its key is longer than 1024 bytes, or has control characters",
            ));
        }
        Ok(Self {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.bucket, self.key)
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
        let bucket: Location = "s3://crashes".parse().unwrap();
        assert_eq!(bucket.key, "");
    }

    #[test]
    fn other_names_are_refused() {
        for wrong in [
            "s3://",
            "s3:///key",
            "s3://a@evil.example/key",
            "s3://a:80/key",
            "s3://a/b\nc",
            "gs://bucket/key",
            "az://container/key",
            "/var/crash",
        ] {
            assert!(wrong.parse::<Location>().is_err(), "{wrong}");
        }
        assert!(is_object("gs://bucket/key") && !is_object("./s3:/a"));
    }
}
