//! What differs between the kinds of servers: addresses and signatures.

use std::fmt;
use std::path::PathBuf;

use crate::azure::Azure;
use crate::endpoint::Target;
use crate::environment::Environment;
use crate::error::ObjectError;
use crate::http::Call;
use crate::location::{Location, Scheme};
use crate::settings::Settings;

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

/// Reads the settings of a kind of servers.
///
/// # Errors
///
/// They are wrong, or there are no credentials.
pub fn dialect_of(
    environment: &Environment,
    scheme: Scheme,
) -> Result<Box<dyn Dialect>, ObjectError> {
    Ok(match scheme {
        Scheme::S3 | Scheme::Google => Box::new(Settings::new(environment, scheme)?),
        Scheme::Azure => Box::new(Azure::new(environment)?),
    })
}

/// The whole address of a request; `query` is encoded.
pub fn uri(target: &Target, query: &str) -> String {
    match query {
        "" => format!("{}{}", target.server, target.path),
        query => format!("{}{}?{query}", target.server, target.path),
    }
}
