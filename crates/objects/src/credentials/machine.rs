//! The instance metadata service of a virtual machine, version 2 (Amazon EC2 user guide, "Use the
//! Instance Metadata Service to access instance metadata").

use std::time::Duration;

use serde::Deserialize;

use super::ask::Ask;
use super::keys::{Keys, Secret};
use crate::environment::Environment;
use crate::error::ObjectError;

const ENDPOINT: &str = "http://169.254.169.254";
const TOKEN_SECONDS: &str = "21600";
/// The service is in the machine's host, and answers at once or not at all.
const TIMEOUT: Duration = Duration::from_secs(2);
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// The metadata service.
#[derive(Clone, Debug)]
pub struct Machine {
    endpoint: String,
    ask: Ask,
}

/// The answer that has the keys, of this service and of that of containers.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    access_key_id: String,
    secret_access_key: String,
    token: String,
    expiration: String,
}

/// Reads an answer that has keys; `None` if it has none.
pub fn keys_in(answer: &str) -> Option<Keys> {
    let answer: Answer = serde_json::from_str(answer).ok()?;
    Some(Keys {
        id: answer.access_key_id,
        secret: Secret(answer.secret_access_key),
        token: Some(Secret(answer.token)),
        expires: answer.expiration.parse().ok(),
    })
}

impl Machine {
    /// The service at its usual address, or where the environment says.
    pub fn new(environment: &Environment) -> Self {
        let endpoint = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        Self {
            endpoint: endpoint
                .unwrap_or(ENDPOINT)
                .trim_end_matches('/')
                .to_owned(),
            ask: Ask::nearby(TIMEOUT),
        }
    }

    /// Gets the keys of the machine's role.
    pub fn keys(&self) -> Result<Keys, ObjectError> {
        let error = |reason: String| {
            ObjectError::Settings(format!(
                "no credentials for object storage: the environment and the profile have none, and \
                 the machine's metadata service at {}: {reason}; set AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY, write a profile, or give the machine a role",
                self.endpoint
            ))
        };
        let token = self.token().map_err(error)?;
        let roles = self.get(ROLES, &token).map_err(error)?;
        let role = roles.lines().next().unwrap_or_default().trim();
        if role.is_empty() {
            return Err(error("the machine has no role".to_owned()));
        }
        let path = format!("{ROLES}{}", crate::sign::encode(role, true));
        let answer = self.get(&path, &token).map_err(error)?;
        keys_in(&answer).ok_or_else(|| error("its answer has no keys".to_owned()))
    }

    /// The region of the machine, if it has such a service.
    pub fn region(&self) -> Option<String> {
        let token = self.token().ok()?;
        let region = self
            .get("/latest/meta-data/placement/region", &token)
            .ok()?;
        Some(region.trim().to_owned())
    }

    fn token(&self) -> Result<String, String> {
        let url = format!("{}/latest/api/token", self.endpoint);
        let headers = [("x-aws-ec2-metadata-token-ttl-seconds", TOKEN_SECONDS)];
        self.ask.send("PUT", &url, &headers, "")
    }

    fn get(&self, path: &str, token: &str) -> Result<String, String> {
        let url = format!("{}{path}", self.endpoint);
        let headers = [("x-aws-ec2-metadata-token", token)];
        self.ask.send("GET", &url, &headers, "")
    }
}
