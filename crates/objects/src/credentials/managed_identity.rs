//! The identity of a virtual machine of Azure, by its metadata service (Microsoft Entra, "How to use
//! managed identities for Azure resources on an Azure VM to acquire an access token").

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use super::ask::Ask;
use super::keys::{MARGIN, Secret};
use crate::environment::Environment;
use crate::error::ObjectError;
use crate::sign;

const ENDPOINT: &str = "http://169.254.169.254";
const PATH: &str = "/metadata/identity/oauth2/token";
const VERSION: &str = "2018-02-01";
const STORAGE: &str = "https://storage.azure.com/";
/// The service is in the machine's host, but asks others.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The metadata service.
#[derive(Debug)]
pub struct ManagedIdentity {
    url: String,
    ask: Ask,
}

/// A token that shows who sends a request.
#[derive(Debug)]
pub struct Token {
    /// The token.
    pub text: Secret<String>,
    /// When it ends, in seconds since 1970.
    expires: i64,
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    /// Seconds since 1970, as a text.
    expires_on: String,
}

impl Token {
    /// Returns true if it can be used for some minutes.
    pub fn is_fresh(&self) -> bool {
        self.expires.saturating_sub(Timestamp::now().as_second()) > MARGIN
    }
}

impl ManagedIdentity {
    /// The service at its usual address, or where the environment says; with the identity
    /// AZURE_CLIENT_ID of several.
    pub fn new(environment: &Environment) -> Self {
        let endpoint = environment.get("AZURE_POD_IDENTITY_AUTHORITY_HOST");
        let endpoint = endpoint.unwrap_or(ENDPOINT).trim_end_matches('/');
        let mut query = vec![
            ("api-version", VERSION.to_owned()),
            ("resource", STORAGE.to_owned()),
        ];
        let client = environment.get("AZURE_CLIENT_ID");
        query.extend(client.map(|client| ("client_id", client.to_owned())));
        Self {
            url: format!("{endpoint}{PATH}?{}", sign::query(&query)),
            ask: Ask::nearby(TIMEOUT),
        }
    }

    /// Gets a token.
    pub fn token(&self) -> Result<Token, ObjectError> {
        let answer = self.ask.send("GET", &self.url, &[("metadata", "true")], "");
        let token = answer.and_then(|answer| {
            token_in(&answer).ok_or_else(|| "its answer has no token".to_owned())
        });
        token.map_err(|reason| {
            ObjectError::Settings(format!(
                "no credentials for az://: the environment has none, and the machine's metadata \
                 service: {reason}; set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or \
                 AZURE_STORAGE_CONNECTION_STRING, or give the machine an identity"
            ))
        })
    }
}

fn token_in(answer: &str) -> Option<Token> {
    let answer: Answer = serde_json::from_str(answer).ok()?;
    Some(Token {
        text: Secret(answer.access_token),
        expires: answer.expires_on.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    #[test]
    fn tokens_are_in_the_answer() {
        // The form of the answer in Microsoft's documentation.
        let text = r#"{"access_token": "eyJ0eXAi", "refresh_token": "", "expires_in": "3599",
            "expires_on": "1506484173", "not_before": "1506480273",
            "resource": "https://storage.azure.com/", "token_type": "Bearer"}"#;
        let token = token_in(text).unwrap();
        assert_eq!((&*token.text.0, token.is_fresh()), ("eyJ0eXAi", false));
        assert!(!format!("{token:?}").contains("eyJ0"));
    }
}
