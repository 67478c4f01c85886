//! Requests: signed, sent, and sent again where that can help.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bigiron_http::Trust;
use ureq::http;

use crate::answer::Answer;
use crate::call::{Call, MAX_ANSWER};
use crate::dialect::{Dialect, Signed};
use crate::endpoint::Target;
use crate::error::ObjectError;
use crate::refusal::Refusal;

/// Wait before the second attempt at a request; each further wait is twice as long, and up to as
/// much again.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Maximum wait, before the part that is random.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// Time without a byte in either direction. Ending an upload of many parts takes a server long.
const SILENCE: Duration = Duration::from_secs(60);

/// Why an attempt failed.
enum Failure {
    /// Another attempt may succeed: the reason.
    Again(String),
    /// A refusal.
    Refused(Refusal),
    /// Another attempt cannot succeed.
    Final(ObjectError),
}

/// Sends requests to one server.
#[derive(Debug)]
pub struct Client {
    dialect: Box<dyn Dialect>,
    agent: ureq::Agent,
    /// Number of authorities whose certificates are trusted.
    authorities: usize,
    bytes: AtomicU64,
    requests: AtomicU64,
}

impl Client {
    /// Reads the certificates that this machine trusts.
    pub fn new(dialect: Box<dyn Dialect>) -> Self {
        let trust = Trust::of_machine();
        // A signature is for one host: no redirection is followed.
        let config = trust.settings(SILENCE).build();
        Self {
            dialect,
            agent: config.new_agent(),
            authorities: trust.authorities(),
            bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
        }
    }

    /// How the server is spoken to.
    pub fn dialect(&self) -> &dyn Dialect {
        &*self.dialect
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
        let target = self.dialect.target(call.location);
        if self.authorities == 0 && target.server.starts_with("https:") {
            return Err(no_authorities(&target.server));
        }
        let mut renewed = false;
        let mut last = String::new();
        let attempts = self.dialect.attempts() + call.more_attempts;
        for attempt in 0..attempts {
            let answer = self.attempt(call, &target, allowed);
            match answer.and_then(|answer| check(answer).map_err(Failure::Again)) {
                Ok(answer) => return Ok(answer),
                Err(Failure::Again(reason)) => last = reason,
                Err(Failure::Refused(refusal)) if refusal.is_about_keys() && !renewed => {
                    renewed = true;
                    if !self.dialect.renew() {
                        return Err(refusal.error(call));
                    }
                    continue;
                }
                Err(Failure::Refused(refusal)) => return Err(refusal.error(call)),
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
        let signed = self.dialect.sign(call, target).map_err(Failure::Final)?;
        let request = request(call, signed).map_err(|error| {
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
}

/// Waits double; a part of each is random, so that many clients do not come back at once.
fn wait(attempt: u32) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let part = now.map_or(0, |now| now.subsec_nanos() % 1000);
    let wait = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(attempt));
    let wait = wait.min(MAX_WAIT);
    wait + wait * part / 1000
}

fn request<'c>(
    call: &Call<'c>,
    signed: Signed<'c>,
) -> Result<http::Request<&'c [u8]>, http::Error> {
    let mut request = http::Request::builder().method(call.method).uri(signed.uri);
    for (name, value) in signed.headers {
        // The client adds it itself.
        if name != "host" {
            request = request.header(name, value);
        }
    }
    request.body(call.body)
}

/// The error of a machine, such as a capture kernel, that has no certificates of authorities.
fn no_authorities(server: &str) -> ObjectError {
    ObjectError::Settings(format!(
        "{server}: cannot tell whether it is the server that it claims to be: this machine has no \
         certificates of authorities; put the file /etc/ssl/certs/ca-certificates.crt into it, or \
         into its initramfs, or name another one by SSL_CERT_FILE"
    ))
}
