//! Requests that are not signed yet.

use crate::location::Location;

/// Maximum size of an answer that is not the bytes of an object. A list of 1,000 keys of 1 KiB,
/// each byte of which takes six as a reference, is within it.
pub const MAX_ANSWER: u64 = 8 << 20;

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
