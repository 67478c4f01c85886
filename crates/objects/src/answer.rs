//! Answers of servers.

use ureq::http;

/// The answer to a request that succeeded.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status: 200 to 299, or one that the caller allowed.
    pub status: u16,
    /// The headers.
    pub headers: http::HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header that is a text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}
