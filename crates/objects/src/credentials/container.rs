//! The service that gives a container its role: of ECS, and of EKS Pod Identity (AWS SDKs and Tools
//! Reference Guide, "Container credential provider").

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bigiron_http::Trust;

use super::ask::Ask;
use super::keys::{Keys, Secret, read_token};
use super::machine::keys_in;
use crate::endpoint::Endpoint;
use crate::environment::Environment;
use crate::error::ObjectError;

/// The host of a relative address.
const ECS: &str = "http://169.254.170.2";
/// Hosts without TLS that may be asked besides those of this machine: those of ECS and EKS.
const NEARBY: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
const TIMEOUT: Duration = Duration::from_secs(5);

/// The service.
#[derive(Clone, Debug)]
pub struct Container {
    url: String,
    token: Option<Secret<String>>,
    /// A file whose contents change.
    token_file: Option<PathBuf>,
    ask: Ask,
}

impl Container {
    /// The service that the environment names, if it does.
    ///
    /// # Errors
    ///
    /// It is one that could be anybody's: without TLS, and neither on this machine nor of the
    /// container's host.
    pub fn find(environment: &Environment) -> Result<Option<Self>, ObjectError> {
        let relative = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let full = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI");
        let url = match (relative, full) {
            (Some(path), _) => format!("{ECS}/{}", path.trim_start_matches('/')),
            (None, Some(url)) => url.to_owned(),
            (None, None) => return Ok(None),
        };
        let server = url.split(['?', '#']).next().unwrap_or_default();
        let endpoint = Endpoint::parse(server, "AWS_CONTAINER_CREDENTIALS_FULL_URI")?;
        let is_tls = endpoint.scheme == "https";
        if !is_tls && !is_nearby(&endpoint.host) {
            return Err(ObjectError::Settings(
                "AWS_CONTAINER_CREDENTIALS_FULL_URI names a host without TLS that is not this \
                 machine's, nor that of its containers; expected https://, or http:// and a \
                 loopback address, 169.254.170.2, 169.254.170.23 or fd00:ec2::23"
                    .to_owned(),
            ));
        }
        let token = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN");
        Ok(Some(Self {
            url,
            token: token.map(|token| Secret(token.to_owned())),
            token_file: environment
                .get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
                .map(PathBuf::from),
            ask: match is_tls {
                true => Ask::over_tls(TIMEOUT, &Trust::of_machine()),
                false => Ask::nearby(TIMEOUT),
            },
        }))
    }

    /// Gets the keys.
    pub fn keys(&self) -> Result<Keys, ObjectError> {
        let token = match (&self.token_file, &self.token) {
            (Some(file), _) => Some(read_token(file)?),
            (None, token) => token.clone(),
        };
        let headers: Vec<_> = token
            .iter()
            .map(|token| ("authorization", token.0.as_str()))
            .collect();
        let answer = self.ask.send("GET", &self.url, &headers, "");
        let keys = answer
            .and_then(|answer| keys_in(&answer).ok_or_else(|| "its answer has no keys".to_owned()));
        keys.map_err(|reason| {
            ObjectError::Settings(format!(
                "no credentials for object storage: the service that \
                 AWS_CONTAINER_CREDENTIALS_FULL_URI or AWS_CONTAINER_CREDENTIALS_RELATIVE_URI \
                 names: {reason}; check the role of the container"
            ))
        })
    }

    /// The file that is read again for each token.
    pub fn file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }
}

/// Returns true for the hosts of [`NEARBY`], and addresses of this machine alone; `host` may have a
/// port.
fn is_nearby(host: &str) -> bool {
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_loopback = host
        .parse()
        .is_ok_and(|address: IpAddr| address.is_loopback());
    is_loopback || host == "localhost" || NEARBY.contains(&host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_others_need_tls() {
        let find = |url| {
            Container::find(&Environment::of([(
                "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                url,
            )]))
        };
        for well in [
            "http://127.0.0.1:80/a?b=c",
            "http://localhost:1/a",
            "http://[::1]:1/a",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
        ] {
            assert!(matches!(find(well), Ok(Some(_))), "{well}");
        }
        for wrong in [
            "http://192.168.0.1/a",
            "http://169.254.169.254/a",
            "http://localhost.example/a",
            "http://127.0.0.1.example/a",
            "ftp://127.0.0.1/a",
        ] {
            assert!(find(wrong).is_err(), "{wrong}");
        }
    }
}
