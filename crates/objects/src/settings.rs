//! Settings: the server and the region, from the environment and the profile.

use std::path::PathBuf;

use crate::credentials::{Machine, Profile, Provider};
use crate::environment::Environment;
use crate::error::ObjectError;
use crate::location::Location;
use crate::sign::encode;

/// The region without another one; servers other than Amazon's take any.
const REGION: &str = "us-east-1";

/// Attempts at a request, unless AWS_MAX_ATTEMPTS or the profile says another number.
const ATTEMPTS: u32 = 6;
/// Maximum number of attempts.
const MAX_ATTEMPTS: u32 = 10;

/// Which server is asked, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server that the user named; Amazon's if there is none.
    endpoint: Option<Endpoint>,
    /// The region.
    pub region: String,
    /// Where the keys come from.
    pub(crate) provider: Provider,
    /// Maximum number of attempts at a request, 1 or more.
    pub(crate) attempts: u32,
    files: Vec<PathBuf>,
}

/// A server: scheme, host and port, and a path in front of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    scheme: String,
    host: String,
    path: String,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Scheme and host, with the port if it is not the usual one.
    pub server: String,
    /// The header Host.
    pub host: String,
    /// The path, encoded.
    pub path: String,
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    ///
    /// A file or a variable is wrong, or there are no credentials.
    pub fn new(environment: &Environment) -> Result<Self, ObjectError> {
        let profile = Profile::find(environment)?;
        let endpoint = environment
            .get("AWS_ENDPOINT_URL_S3")
            .or_else(|| environment.get("AWS_ENDPOINT_URL"))
            .or_else(|| profile.setting("endpoint_url"))
            .filter(|_| !environment.is_true("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"));
        let endpoint = endpoint.map(Endpoint::parse).transpose()?;
        let region = environment
            .get("AWS_REGION")
            .or_else(|| environment.get("AWS_DEFAULT_REGION"))
            .or_else(|| profile.setting("region"))
            .map(ToOwned::to_owned);
        let attempts = environment
            .get("AWS_MAX_ATTEMPTS")
            .or_else(|| profile.setting("max_attempts"));
        let attempts = attempts.and_then(|number| number.parse().ok());
        let files = profile.directories().map(ToOwned::to_owned).collect();
        let provider = Provider::choose(environment, profile)?;
        let of_machine = || match (&provider, &endpoint) {
            (Provider::Machine(_), None) => Machine::new(environment).region(),
            _ => None,
        };
        let region = region
            .or_else(of_machine)
            .unwrap_or_else(|| REGION.to_owned());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if region.is_empty() || !region.bytes().all(is_plain) {
            return Err(ObjectError::Settings(format!(
                "the region {region:?} is none; set AWS_REGION to one such as {REGION}"
            )));
        }
        Ok(Self {
            endpoint,
            region,
            provider,
            attempts: attempts.unwrap_or(ATTEMPTS).clamp(1, MAX_ATTEMPTS),
            files,
        })
    }

    /// Directories whose files are read again when keys have expired.
    pub fn directories(&self) -> &[PathBuf] {
        &self.files
    }

    /// Host and port of the server, to look up its address.
    pub fn host(&self) -> String {
        let amazon = || format!("s3.{}.{}", self.region, self.domain());
        let host = self.endpoint.as_ref().map(|endpoint| endpoint.host.clone());
        host.unwrap_or_else(amazon)
    }

    fn domain(&self) -> &'static str {
        match self.region.starts_with("cn-") {
            true => "amazonaws.com.cn",
            false => "amazonaws.com",
        }
    }

    /// Where requests for an object go; for a bucket without its key.
    ///
    /// A server that the user named has the bucket in its path, since not every such server has
    /// a name for each bucket. Amazon's have it in the host, except for names with a full stop,
    /// which its certificates do not cover.
    pub fn target(&self, location: &Location) -> Target {
        let (bucket, key) = (&location.bucket, encode(&location.key, true));
        match &self.endpoint {
            Some(Endpoint { scheme, host, path }) => Target {
                server: format!("{scheme}://{host}"),
                host: host.clone(),
                path: format!("{path}/{bucket}/{key}"),
            },
            None => {
                let (host, path) = match bucket.contains('.') {
                    true => (self.host(), format!("/{bucket}/{key}")),
                    false => (format!("{bucket}.{}", self.host()), format!("/{key}")),
                };
                Target {
                    server: format!("https://{host}"),
                    host,
                    path,
                }
            }
        }
    }
}

impl Endpoint {
    fn parse(url: &str) -> Result<Self, ObjectError> {
        let wrong = || {
            ObjectError::Settings(
                "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or endpoint_url of the profile is no \
                 address of a server; expected https://HOST or https://HOST:PORT"
                    .to_owned(),
            )
        };
        let (scheme, rest) = url.trim().split_once("://").ok_or_else(wrong)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.trim_end_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        let is_well = ["http", "https"].contains(&scheme)
            && !host.is_empty()
            && host.bytes().all(is_plain)
            && !path.contains(['?', '#', ' ']);
        if !is_well {
            return Err(wrong());
        }
        // A client leaves the usual port out of the header Host.
        let usual = match scheme {
            "http" => ":80",
            _ => ":443",
        };
        let path = match path {
            "" => String::new(),
            path => format!("/{path}"),
        };
        Ok(Self {
            scheme: scheme.to_owned(),
            host: host.strip_suffix(usual).unwrap_or(host).to_owned(),
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    const KEYS: [(&str, &str); 3] = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("HOME", "/nonexistent"),
    ];

    fn target(pairs: &[(&str, &str)], location: &str) -> Target {
        let environment = Environment::of(KEYS.iter().chain(pairs).copied());
        let settings = Settings::new(&environment).unwrap();
        settings.target(&location.parse().unwrap())
    }

    #[test]
    fn buckets_of_amazon_are_in_the_host() {
        let found = target(&[("AWS_REGION", "eu-west-3")], "s3://crashes/a b/vmcore");
        assert_eq!(found.server, "https://crashes.s3.eu-west-3.amazonaws.com");
        assert_eq!(found.path, "/a%20b/vmcore");
        let dotted = target(&[("AWS_REGION", "cn-north-1")], "s3://a.b/c");
        assert_eq!(dotted.server, "https://s3.cn-north-1.amazonaws.com.cn");
        assert_eq!(dotted.path, "/a.b/c");
    }

    #[test]
    fn buckets_of_other_servers_are_in_the_path() {
        let endpoint = ("AWS_ENDPOINT_URL", "http://other:1/");
        let own = ("AWS_ENDPOINT_URL_S3", "https://storage.example:443/s3/");
        let found = target(&[endpoint, own], "s3://crashes/vmcore");
        assert_eq!(found.server, "https://storage.example");
        assert_eq!(found.path, "/s3/crashes/vmcore");
        let found = target(&[endpoint], "s3://crashes/vmcore");
        assert_eq!(
            (&*found.server, &*found.host),
            ("http://other:1", "other:1")
        );
    }

    #[test]
    fn wrong_settings_are_refused() {
        let with = |pair| Settings::new(&Environment::of(KEYS.into_iter().chain([pair])));
        for url in [
            "storage.example",
            "ftp://a",
            "http://",
            "http://a@b",
            "http://a?b=c",
        ] {
            assert!(with(("AWS_ENDPOINT_URL", url)).is_err(), "{url}");
        }
        assert!(with(("AWS_REGION", "eu/west")).is_err());
        let none = Settings::new(&Environment::of([
            ("HOME", "/nonexistent"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ]));
        let error = none.unwrap_err().to_string();
        assert!(error.contains("AWS_ACCESS_KEY_ID"), "{error}");
    }
}
