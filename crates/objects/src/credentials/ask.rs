//! Small requests to services that give credentials.

use std::time::Duration;

use bigiron_http::Trust;
use ureq::http;

const ATTEMPTS: u32 = 2;
const MAX_ANSWER: u64 = 64 << 10;

/// A client of such a service.
#[derive(Clone, Debug)]
pub struct Ask(ureq::Agent);

impl Ask {
    /// One without TLS, for a service of the machine's host, which answers within `timeout` or not
    /// at all.
    pub fn nearby(timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(timeout))
            .build();
        Self(config.new_agent())
    }

    /// One with TLS, and with the proxies of the environment.
    pub fn over_tls(timeout: Duration, trust: &Trust) -> Self {
        let settings = trust.settings(timeout).timeout_global(Some(timeout));
        let config = settings.build();
        Self(config.new_agent())
    }

    /// Sends a request with these headers; returns the body of an answer with status 200, or why
    /// there is none.
    pub fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<String, String> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            let mut request = http::Request::builder().method(method).uri(url);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            // The error may have the value of a header.
            let request = request
                .body(body.as_bytes())
                .map_err(|_| "its address or a header has a character that is not allowed")?;
            let answer = self.0.run(request).and_then(|mut answer| {
                let status = answer.status().as_u16();
                let body = answer.body_mut().with_config();
                Ok((status, body.limit(MAX_ANSWER).read_to_string()?))
            });
            match answer {
                Ok((200, text)) => return Ok(text),
                Ok((status, text)) => {
                    last = format!("http status: {status}{}", code_in(&text));
                    if status < 500 {
                        break;
                    }
                }
                Err(error) => last = error.to_string(),
            }
        }
        Err(last)
    }
}

/// The code in an error of Amazon's services, which is XML.
fn code_in(text: &str) -> String {
    let code = text
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"));
    let is_plain = |code: &&str| code.len() < 64 && code.bytes().all(|b| b.is_ascii_alphanumeric());
    code.map(|(code, _)| code)
        .filter(is_plain)
        .map_or_else(String::new, |code| format!(" ({code})"))
}
