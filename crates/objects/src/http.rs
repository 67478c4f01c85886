//! Requests: signed, sent, and sent again where that can help.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use ureq::http;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::credentials::Keys;
use crate::error::ObjectError;
use crate::location::Location;
use crate::settings::{Settings, Target};
use crate::sign::{self, Unsigned};
use crate::xml::Element;

/// Wait before the second attempt at a request; each further wait is twice as long, and up to as
/// much again.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Maximum wait, before the part that is random.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// Time for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Time without a byte in either direction. Ending an upload of many parts takes a server long.
const SILENCE: Duration = Duration::from_secs(60);
/// Maximum size of an answer that is not the bytes of an object. A list of 1,000 keys of 1 KiB,
/// each byte of which takes six as a reference, is within it.
const MAX_ANSWER: u64 = 8 << 20;
/// Maximum length of a server's message that is kept.
const MAX_MESSAGE: usize = 200;

/// A request.
#[derive(Debug)]
pub struct Call<'a> {
    /// What it is for, as a verb, for errors.
    pub action: &'static str,
    /// The method.
    pub method: &'static str,
    /// The object, or a bucket.
    pub location: &'a Location,
    /// Names and values, not encoded.
    pub query: Vec<(&'a str, String)>,
    /// Further headers; names in lower case.
    pub headers: Vec<(&'a str, String)>,
    /// The body.
    pub body: &'a [u8],
    /// Maximum size of the answer to a request that succeeds.
    pub limit: u64,
    /// Attempts beyond those of other requests: of an upload, which cannot begin again.
    pub more_attempts: u32,
}

impl<'a> Call<'a> {
    /// A request without query, headers or body.
    pub fn new(action: &'static str, method: &'static str, location: &'a Location) -> Self {
        Self {
            action,
            method,
            location,
            query: Vec::new(),
            headers: Vec::new(),
            body: &[],
            limit: MAX_ANSWER,
            more_attempts: 0,
        }
    }
}

/// The answer to a request that succeeded.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status: 200 to 299, or one that the caller allowed.
    pub status: u16,
    headers: http::HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header that is a text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Why an attempt failed.
enum Failure {
    /// Another attempt may succeed: the reason.
    Again(String),
    /// A refusal.
    Refused(Refusal),
    /// Another attempt cannot succeed.
    Final(ObjectError),
}

/// A server's refusal.
struct Refusal {
    status: u16,
    code: String,
    message: String,
    region: Option<String>,
}

/// Sends requests to one server.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    agent: ureq::Agent,
    /// Number of authorities whose certificates are trusted.
    authorities: usize,
    keys: Mutex<Option<Keys>>,
    bytes: AtomicU64,
    requests: AtomicU64,
}

impl Client {
    /// Reads the certificates that this machine trusts.
    pub fn new(settings: Settings) -> Self {
        // A broken file among them costs its own certificates only.
        let trusted = rustls_native_certs::load_native_certs().certs;
        let trusted: Vec<_> = trusted
            .iter()
            .map(|certificate| Certificate::from_der(certificate).to_owned())
            .collect();
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::new_with_certs(&trusted))
            .build();
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            // A signature is for one host.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("bigiron/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(SILENCE))
            .timeout_per_write(Some(SILENCE))
            .build();
        Self {
            settings,
            agent: config.new_agent(),
            authorities: trusted.len(),
            keys: Mutex::new(None),
            bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Bytes of the bodies that were received, and requests that were sent.
    pub fn counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.bytes), count(&self.requests))
    }

    /// Sends a request, and passes its answer to `check`, whose refusal of it counts as that of an
    /// attempt: an answer that was cut may be whole the next time. Statuses in `allowed` are
    /// answers, too.
    ///
    /// # Errors
    ///
    /// The server refuses it, or was not reached in several attempts.
    pub fn send<T>(
        &self,
        call: &Call<'_>,
        allowed: &[u16],
        check: impl Fn(Answer) -> Result<T, String>,
    ) -> Result<T, ObjectError> {
        let target = self.settings.target(call.location);
        if self.authorities == 0 && target.server.starts_with("https:") {
            return Err(no_authorities(&target.server));
        }
        let mut renewed = false;
        let mut last = String::new();
        let attempts = self.settings.attempts + call.more_attempts;
        for attempt in 0..attempts {
            let answer = self.attempt(call, &target, allowed);
            match answer.and_then(|answer| check(answer).map_err(Failure::Again)) {
                Ok(answer) => return Ok(answer),
                Err(Failure::Again(reason)) => last = reason,
                Err(Failure::Refused(refusal)) if refusal.is_about_keys() && !renewed => {
                    renewed = true;
                    if !self.settings.provider.can_change() {
                        return Err(refused(call, refusal));
                    }
                    *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    continue;
                }
                Err(Failure::Refused(refusal)) => return Err(refused(call, refusal)),
                Err(Failure::Final(error)) => return Err(error),
            }
            if attempt + 1 < attempts {
                thread::sleep(wait(attempt));
            }
        }
        Err(ObjectError::Unreachable {
            url: call.location.to_string(),
            action: call.action,
            cause: last,
            attempts,
            server: target.server,
        })
    }

    fn attempt(
        &self,
        call: &Call<'_>,
        target: &Target,
        allowed: &[u16],
    ) -> Result<Answer, Failure> {
        let keys = self.keys().map_err(Failure::Final)?;
        let request = request(call, target, &self.settings.region, &keys).map_err(|error| {
            Failure::Final(ObjectError::Answer {
                url: call.location.to_string(),
                action: call.action,
                reason: format!("it cannot be sent: {error}"),
            })
        })?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        let again = |error: ureq::Error| Failure::Again(error.to_string());
        let mut answer = self.agent.run(request).map_err(again)?;
        let status = answer.status().as_u16();
        let is_well = (200..300).contains(&status) || allowed.contains(&status);
        let limit = match is_well {
            true => call.limit,
            false => MAX_ANSWER,
        };
        let body = answer.body_mut().with_config().limit(limit + 1);
        let body = body.read_to_vec();
        let answer = Answer {
            status,
            headers: answer.headers().clone(),
            body: match (body, is_well) {
                (Ok(body), _) => body,
                (Err(error), true) => return Err(again(error)),
                // The status tells enough.
                (Err(_), false) => Vec::new(),
            },
        };
        self.bytes
            .fetch_add(answer.body.len() as u64, Ordering::Relaxed);
        if is_well {
            return Ok(answer);
        }
        let refusal = Refusal::of(&answer);
        Err(match refusal.is_temporary() {
            true => Failure::Again(refusal.to_string()),
            false => Failure::Refused(refusal),
        })
    }

    fn keys(&self) -> Result<Keys, ObjectError> {
        let mut held = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keys) = held.as_ref().filter(|keys| keys.are_fresh()) {
            return Ok(keys.clone());
        }
        let keys = self.settings.provider.keys()?;
        Ok(held.insert(keys).clone())
    }
}

/// Waits double; a part of each is random, so that many clients do not come back at once.
fn wait(attempt: u32) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let part = now.map_or(0, |now| now.subsec_nanos() % 1000);
    let wait = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(attempt));
    let wait = wait.min(MAX_WAIT);
    wait + wait * part / 1000
}

fn request<'a>(
    call: &Call<'a>,
    target: &Target,
    region: &str,
    keys: &Keys,
) -> Result<http::Request<&'a [u8]>, http::Error> {
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
        region,
    };
    let authorization = sign::authorization(&unsigned, keys);
    let query = sign::query(&call.query);
    let query = match query.is_empty() {
        true => String::new(),
        false => format!("?{query}"),
    };
    let uri = format!("{}{}{query}", target.server, target.path);
    let mut request = http::Request::builder().method(call.method).uri(uri);
    for (name, value) in headers {
        // The client adds it itself.
        if name != "host" {
            request = request.header(name, value);
        }
    }
    request
        .header("authorization", authorization)
        .body(call.body)
}

impl Refusal {
    fn of(answer: &Answer) -> Self {
        let error = Element::parse(&answer.body);
        let error = error.filter(|root| root.name() == "Error");
        let text = |name: &str| {
            let text = error.as_ref().map_or("", |error| error.text(name));
            // The texts of a server may go to a terminal.
            let plain = text.chars().filter(|char| !char.is_control());
            plain.take(MAX_MESSAGE).collect::<String>()
        };
        Self {
            status: answer.status,
            code: text("Code"),
            message: text("Message"),
            region: answer.header("x-amz-bucket-region").map(ToOwned::to_owned),
        }
    }

    /// Errors of the server, and those by which it asks for fewer requests.
    fn is_temporary(&self) -> bool {
        let by_code = ["RequestTimeout", "SlowDown", "OperationAborted"];
        matches!(self.status, 408 | 429 | 500 | 502 | 503 | 504)
            || by_code.contains(&self.code.as_str())
    }

    fn is_about_keys(&self) -> bool {
        ["ExpiredToken", "TokenRefreshRequired", "InvalidToken"].contains(&self.code.as_str())
    }

    fn hint(&self) -> &'static str {
        match (self.code.as_str(), self.status) {
            ("NoSuchKey", _) => "there is no such object; `bigiron triage` takes a prefix",
            ("NoSuchBucket", _) => "there is no such bucket; check its name and AWS_ENDPOINT_URL",
            ("NoSuchUpload", _) => "the upload is not there any more",
            ("ExpiredToken" | "TokenRefreshRequired", _) => {
                "the credentials have expired; get new ones, and set AWS_ACCESS_KEY_ID, \
                 AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or write the profile"
            }
            ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken", _) => {
                "the credentials are wrong; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and \
                 AWS_SESSION_TOKEN, or the profile"
            }
            ("RequestTimeTooSkewed", _) => "set the clock of this machine",
            (
                "PermanentRedirect"
                | "AuthorizationHeaderMalformed"
                | "IllegalLocationConstraintException",
                _,
            )
            | (_, 301 | 307) => "the bucket is in another region; set AWS_REGION to it",
            (_, 404) => "there is no such object or bucket, or this user may not see it",
            (_, 401 | 403) => "this user may not do that; change the bucket's policy or the keys",
            (_, 409) => "the object is being changed; run the command again",
            _ => "see the server's documentation for this status",
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "status {} {}", self.status, self.code)?;
        match self.message.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", self.message),
        }
    }
}

/// The error of a machine, such as a capture kernel, that has no certificates of authorities.
fn no_authorities(server: &str) -> ObjectError {
    ObjectError::Settings(format!(
        "{server}: cannot tell whether it is the server that it claims to be: this machine has no \
         certificates of authorities; put the file /etc/ssl/certs/ca-certificates.crt into it, or \
         into its initramfs, or name another one by SSL_CERT_FILE"
    ))
}

fn refused(call: &Call<'_>, refusal: Refusal) -> ObjectError {
    let hint = refusal.hint();
    let message = match refusal.region {
        Some(region) if refusal.message.is_empty() => format!("the bucket is in {region}"),
        Some(region) => format!("{}; the bucket is in {region}", refusal.message),
        None => refusal.message,
    };
    ObjectError::Refused {
        url: call.location.to_string(),
        action: call.action,
        status: refusal.status,
        code: refusal.code,
        message,
        hint,
    }
}
