//! Addresses of servers.

use crate::error::ObjectError;

/// A server: scheme, host and port, and a path in front of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `http` or `https`.
    pub scheme: String,
    /// The host, with the port if it is not the usual one.
    pub host: String,
    /// The path in front of all others: empty, or with a slash in front and none at its end.
    pub path: String,
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

impl Endpoint {
    /// Parses an address, which `setting` has.
    ///
    /// # Errors
    ///
    /// It is none; the error names the setting alone, since an address may have a password.
    pub fn parse(url: &str, setting: &str) -> Result<Self, ObjectError> {
        let wrong = || {
            ObjectError::Settings(format!(
                "{setting} is no address of a server; expected https://HOST or https://HOST:PORT"
            ))
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

impl Endpoint {
    /// Where a request for `path` goes, which is encoded and begins with a slash.
    pub fn target(&self, path: &str) -> Target {
        Target {
            server: format!("{}://{}", self.scheme, self.host),
            host: self.host.clone(),
            path: format!("{}{path}", self.path),
        }
    }
}
