//! Credentials: from the environment, a profile, or the machine's metadata service.

mod machine;
mod profile;

use std::fmt;

use jiff::Timestamp;

pub use machine::Machine;
pub use profile::Profile;

use crate::environment::Environment;
use crate::error::ObjectError;

/// Keys that expire sooner are replaced before they are used, in seconds.
const MARGIN: i64 = 300;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The keys by which requests are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The access key's id, which each request shows.
    pub id: String,
    /// The secret key.
    pub secret: Secret,
    /// The token of temporary keys.
    pub token: Option<Secret>,
    /// When they end; `None` if that is not known.
    pub expires: Option<Timestamp>,
}

impl Keys {
    /// Returns true if they can be used for some minutes.
    pub fn are_fresh(&self) -> bool {
        let left = self
            .expires
            .map(|expires| expires.as_second() - Timestamp::now().as_second());
        left.is_none_or(|left| left > MARGIN)
    }
}

/// Where the keys come from.
#[derive(Clone, Debug)]
pub enum Provider {
    /// The environment, which does not change.
    Environment(Keys),
    /// The user's files, which others may replace.
    Profile(Profile),
    /// The metadata service of a virtual machine.
    Machine(Machine),
}

impl Provider {
    /// Chooses as the AWS command line does: the environment, the profile, the machine.
    pub fn choose(environment: &Environment, profile: Profile) -> Result<Self, ObjectError> {
        if let (Some(id), Some(secret)) = (
            environment.get("AWS_ACCESS_KEY_ID"),
            environment.get("AWS_SECRET_ACCESS_KEY"),
        ) {
            return Ok(Self::Environment(Keys {
                id: id.to_owned(),
                secret: Secret(secret.to_owned()),
                token: environment
                    .get("AWS_SESSION_TOKEN")
                    .map(|token| Secret(token.to_owned())),
                expires: None,
            }));
        }
        if profile.has_keys()? {
            return Ok(Self::Profile(profile));
        }
        if environment.is_true("AWS_EC2_METADATA_DISABLED") {
            return Err(ObjectError::Settings(format!(
                "no credentials for object storage: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY \
                 are not both set, {profile} has none, and AWS_EC2_METADATA_DISABLED is set; set \
                 the variables, or write the profile"
            )));
        }
        Ok(Self::Machine(Machine::new(environment)))
    }

    /// Gets the keys.
    ///
    /// # Errors
    ///
    /// The files or the service have none now.
    pub fn keys(&self) -> Result<Keys, ObjectError> {
        match self {
            Self::Environment(keys) => Ok(keys.clone()),
            Self::Profile(profile) => profile.keys()?.ok_or_else(|| {
                ObjectError::Settings(format!("no credentials: {profile} has none any more"))
            }),
            Self::Machine(machine) => machine.keys(),
        }
    }

    /// Returns true if other keys may be there later.
    pub fn can_change(&self) -> bool {
        !matches!(self, Self::Environment(_))
    }
}
