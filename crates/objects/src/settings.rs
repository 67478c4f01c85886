//! Settings of S3: the server and the region, from the environment and the profile.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use crate::call::Call;
use crate::credentials::{Keys, Machine, Profile, Provider};
use crate::dialect::{Dialect, Signed, uri};
use crate::endpoint::{Endpoint, Target};
use crate::environment::Environment;
use crate::error::ObjectError;
use crate::location::{Location, Scheme};
use crate::sign::{self, Unsigned, encode};

/// The region without another one; servers other than Amazon's take any.
const REGION: &str = "us-east-1";
/// Google's server of the XML API, and the region that its signatures have (Cloud Storage, "V4
/// signing process with HMAC keys").
const GOOGLE: (&str, &str) = ("https://storage.googleapis.com", "auto");

/// Attempts at a request, unless AWS_MAX_ATTEMPTS or the profile says another number.
const ATTEMPTS: u32 = 6;
/// Maximum number of attempts.
const MAX_ATTEMPTS: u32 = 10;

/// Which server is asked, and how.
#[derive(Debug)]
pub struct Settings {
    /// The server that the user named; Amazon's if there is none.
    endpoint: Option<Endpoint>,
    /// The region.
    pub region: String,
    /// Where the keys come from.
    provider: Provider,
    /// The keys, as they were got last.
    keys: Mutex<Option<Keys>>,
    /// Maximum number of attempts at a request, 1 or more.
    attempts: u32,
    files: Vec<PathBuf>,
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    ///
    /// A file or a variable is wrong, or there are no credentials.
    pub fn new(environment: &Environment, scheme: Scheme) -> Result<Self, ObjectError> {
        let is_google = scheme == Scheme::Google;
        let profile = Profile::find(environment)?;
        let endpoint = environment
            .get("AWS_ENDPOINT_URL_S3")
            .or_else(|| environment.get("AWS_ENDPOINT_URL"))
            .or_else(|| profile.setting("endpoint_url"))
            .filter(|_| !environment.is_true("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"));
        let endpoint = endpoint.or_else(|| is_google.then_some(GOOGLE.0));
        let setting = "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or endpoint_url of the profile";
        let endpoint = endpoint.map(|url| Endpoint::parse(url, setting));
        let endpoint = endpoint.transpose()?;
        let region = environment
            .get("AWS_REGION")
            .or_else(|| environment.get("AWS_DEFAULT_REGION"))
            .or_else(|| profile.setting("region"))
            .map(ToOwned::to_owned);
        let attempts = environment
            .get("AWS_MAX_ATTEMPTS")
            .or_else(|| profile.setting("max_attempts"));
        let attempts = attempts.and_then(|number| number.parse().ok());
        let mut files: Vec<PathBuf> = profile.directories().map(ToOwned::to_owned).collect();
        let provider = Provider::choose(environment, profile, region.as_deref().unwrap_or(REGION))?;
        if is_google && !provider.has_long_keys() {
            return Err(ObjectError::Settings(
                "no credentials for gs://: make an HMAC key of the project (Cloud Storage, \
                 Settings, Interoperability), and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY \
                 to it, or write it into a profile"
                    .to_owned(),
            ));
        }
        files.extend(provider.directories());
        let of_machine = || match (&provider, &endpoint) {
            (Provider::Machine(_), None) => Machine::new(environment).region(),
            _ => None,
        };
        let region = region
            .or_else(of_machine)
            .unwrap_or_else(|| if is_google { GOOGLE.1 } else { REGION }.to_owned());
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
            keys: Mutex::new(None),
            attempts: attempts.unwrap_or(ATTEMPTS).clamp(1, MAX_ATTEMPTS),
            files,
        })
    }

    fn domain(&self) -> &'static str {
        match self.region.starts_with("cn-") {
            true => "amazonaws.com.cn",
            false => "amazonaws.com",
        }
    }

    fn keys(&self) -> Result<Keys, ObjectError> {
        let mut held = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keys) = held.as_ref().filter(|keys| keys.are_fresh()) {
            return Ok(keys.clone());
        }
        let keys = self.provider.keys()?;
        Ok(held.insert(keys).clone())
    }
}

impl Dialect for Settings {
    /// A server that the user named has the bucket in its path, since not every such server has
    /// a name for each bucket. Amazon's have it in the host, except for names with a full stop,
    /// which its certificates do not cover.
    fn target(&self, location: &Location) -> Target {
        let (bucket, key) = (&location.bucket, encode(&location.key, true));
        match &self.endpoint {
            Some(endpoint) => endpoint.target(&format!("/{bucket}/{key}")),
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

    fn sign<'c>(&self, call: &Call<'c>, target: &Target) -> Result<Signed<'c>, ObjectError> {
        let keys = self.keys()?;
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let body_hash = sign::hash(call.body);
        let mut headers = call.headers.clone();
        headers.push(("host", target.host.clone()));
        headers.push(("x-amz-content-sha256", body_hash.clone()));
        headers.push(("x-amz-date", time.clone()));
        if let Some(token) = &keys.token {
            headers.push(("x-amz-security-token", token.0.clone()));
        }
        let unsigned = Unsigned {
            method: call.method,
            path: &target.path,
            query: &call.query,
            headers: &headers,
            body_hash: &body_hash,
            time: &time,
            region: &self.region,
        };
        headers.push(("authorization", sign::authorization(&unsigned, &keys)));
        Ok(Signed {
            uri: uri(target, &sign::query(&call.query)),
            headers,
        })
    }

    fn renew(&self) -> bool {
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.provider.can_change()
    }

    fn attempts(&self) -> u32 {
        self.attempts
    }

    fn host(&self) -> String {
        let amazon = || format!("s3.{}.{}", self.region, self.domain());
        let host = self.endpoint.as_ref().map(|endpoint| endpoint.host.clone());
        host.unwrap_or_else(amazon)
    }

    fn directories(&self) -> &[PathBuf] {
        &self.files
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
        let settings = Settings::new(&environment, Scheme::S3).unwrap();
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
    fn google_needs_no_address_but_keys() {
        let location: Location = "gs://crashes/vmcore".parse().unwrap();
        let settings = Settings::new(&Environment::of(KEYS), Scheme::Google).unwrap();
        let found = settings.target(&location);
        assert_eq!(found.server, "https://storage.googleapis.com");
        assert_eq!(
            (&*found.path, &*settings.region),
            ("/crashes/vmcore", "auto")
        );
        let none = Environment::of([("HOME", "/nonexistent")]);
        let error = Settings::new(&none, Scheme::Google).unwrap_err();
        assert!(error.to_string().contains("HMAC key"), "{error}");
    }

    #[test]
    fn wrong_settings_are_refused() {
        let with = |pair| {
            let environment = Environment::of(KEYS.into_iter().chain([pair]));
            Settings::new(&environment, Scheme::S3)
        };
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
        let none = Environment::of([
            ("HOME", "/nonexistent"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ]);
        let error = Settings::new(&none, Scheme::S3).unwrap_err().to_string();
        assert!(error.contains("AWS_ACCESS_KEY_ID"), "{error}");
    }
}
