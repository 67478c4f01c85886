//! A role that somebody else vouches for by a token in a file, as in Kubernetes (AWS Security Token
//! Service, "AssumeRoleWithWebIdentity").

use std::path::{Path, PathBuf};
use std::time::Duration;

use bigiron_http::Trust;

use super::ask::Ask;
use super::keys::{Keys, Secret, read_token};
use crate::endpoint::Endpoint;
use crate::environment::Environment;
use crate::error::ObjectError;
use crate::sign;
use crate::xml::Element;

/// Name of the session in Amazon's logs, unless AWS_ROLE_SESSION_NAME is another one.
const SESSION: &str = "bigiron";
const TIMEOUT: Duration = Duration::from_secs(30);

/// The role and its token.
#[derive(Clone, Debug)]
pub struct WebIdentity {
    url: String,
    role: String,
    session: String,
    file: PathBuf,
    ask: Ask,
}

impl WebIdentity {
    /// The role that the environment names, if it does.
    ///
    /// # Errors
    ///
    /// The service's address is wrong.
    pub fn find(environment: &Environment, region: &str) -> Result<Option<Self>, ObjectError> {
        let (Some(file), Some(role)) = (
            environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"),
            environment.get("AWS_ROLE_ARN"),
        ) else {
            return Ok(None);
        };
        let named = environment
            .get("AWS_ENDPOINT_URL_STS")
            .or_else(|| environment.get("AWS_ENDPOINT_URL"));
        let domain = match region.starts_with("cn-") {
            true => "amazonaws.com.cn",
            false => "amazonaws.com",
        };
        let amazon = || format!("https://sts.{region}.{domain}");
        let url = named.map_or_else(amazon, ToOwned::to_owned);
        let endpoint = Endpoint::parse(&url, "AWS_ENDPOINT_URL_STS or AWS_ENDPOINT_URL")?;
        let target = endpoint.target("/");
        Ok(Some(Self {
            url: format!("{}{}", target.server, target.path),
            role: role.to_owned(),
            session: environment
                .get("AWS_ROLE_SESSION_NAME")
                .unwrap_or(SESSION)
                .to_owned(),
            file: PathBuf::from(file),
            ask: Ask::over_tls(TIMEOUT, &Trust::of_machine()),
        }))
    }

    /// Gets keys for the role.
    pub fn keys(&self) -> Result<Keys, ObjectError> {
        let body = sign::query(&[
            ("Action", "AssumeRoleWithWebIdentity".to_owned()),
            ("Version", "2011-06-15".to_owned()),
            ("RoleArn", self.role.clone()),
            ("RoleSessionName", self.session.clone()),
            ("WebIdentityToken", read_token(&self.file)?.0),
        ]);
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let answer = self.ask.send("POST", &self.url, &headers, &body);
        let keys = answer
            .and_then(|answer| keys_in(&answer).ok_or_else(|| "its answer has no keys".to_owned()));
        keys.map_err(|reason| {
            ObjectError::Settings(format!(
                "no credentials for object storage: {} does not give the role {} for the token in \
                 {}: {reason}; check AWS_ROLE_ARN and whom the role trusts",
                self.url,
                self.role,
                self.file.display()
            ))
        })
    }

    /// The file of the token, which is replaced before it ends.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

fn keys_in(answer: &str) -> Option<Keys> {
    let root = Element::parse(answer.as_bytes())?;
    let result = root.all("AssumeRoleWithWebIdentityResult").next()?;
    let found = result.all("Credentials").next()?;
    let text = |name: &str| Some(found.text(name).to_owned()).filter(|text| !text.is_empty());
    Some(Keys {
        id: text("AccessKeyId")?,
        secret: Secret(text("SecretAccessKey")?),
        token: Some(Secret(text("SessionToken")?)),
        expires: found.text("Expiration").parse().ok(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    #[test]
    fn keys_are_in_the_answer() {
        // The form of the answer in the service's API reference.
        let text = "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
            <AssumeRoleWithWebIdentityResult><Credentials><SessionToken>t</SessionToken>\
            <SecretAccessKey>s</SecretAccessKey><Expiration>2014-10-24T23:00:23Z</Expiration>\
            <AccessKeyId>i</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>\
            </AssumeRoleWithWebIdentityResponse>";
        let keys = keys_in(text).unwrap();
        assert_eq!((&*keys.id, &*keys.secret.0), ("i", "s"));
        assert_eq!(keys.expires.unwrap().as_second(), 1_414_191_623);
        assert_eq!(keys_in("<a/>"), None);
    }
}
