//! What differs between the kinds of servers: addresses and signatures.

use std::fmt;
use std::path::PathBuf;

use crate::call::Call;
use crate::endpoint::Target;
use crate::error::ObjectError;
use crate::location::Location;

/// Addresses and signs the requests to one kind of server.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// Where requests for an object go; for a bucket without its key.
    fn target(&self, location: &Location) -> Target;

    /// Signs a request.
    ///
    /// # Errors
    ///
    /// There are no keys.
    fn sign<'c>(&self, call: &Call<'c>, target: &Target) -> Result<Signed<'c>, ObjectError>;

    /// Forgets keys that the server has refused; returns true if others may be there.
    fn renew(&self) -> bool;

    /// Maximum number of attempts at a request, 1 or more.
    fn attempts(&self) -> u32;

    /// Host and port of the server, to look up its address.
    fn host(&self) -> String;

    /// Directories whose files are read again when keys have expired.
    fn directories(&self) -> &[PathBuf];
}

/// A request that is signed.
pub struct Signed<'c> {
    /// The whole address.
    pub uri: String,
    /// Names and values.
    pub headers: Vec<(&'c str, String)>,
}

/// The whole address of a request; `query` is encoded.
pub fn uri(target: &Target, query: &str) -> String {
    match query {
        "" => format!("{}{}", target.server, target.path),
        query => format!("{}{}?{query}", target.server, target.path),
    }
}
