//! The order in which keys are looked for.

use std::path::{Path, PathBuf};

use super::container::Container;
use super::keys::{Keys, Secret};
use super::machine::Machine;
use super::profile::Profile;
use super::web_identity::WebIdentity;
use crate::environment::Environment;
use crate::error::ObjectError;

/// Where the keys come from.
#[derive(Clone, Debug)]
pub enum Provider {
    /// The environment, which does not change.
    Environment(Keys),
    /// The user's files, which others may replace.
    Profile(Profile),
    /// A role, for a token in a file.
    WebIdentity(WebIdentity),
    /// The service of a container.
    Container(Container),
    /// The metadata service of a virtual machine.
    Machine(Machine),
}

impl Provider {
    /// Chooses as the AWS command line does: the environment, a token's role, the profile, the
    /// container, the machine.
    ///
    /// # Errors
    ///
    /// There are none, or a setting is wrong.
    pub fn choose(
        environment: &Environment,
        profile: Profile,
        region: &str,
    ) -> Result<Self, ObjectError> {
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
        if let Some(role) = WebIdentity::find(environment, region)? {
            return Ok(Self::WebIdentity(role));
        }
        if profile.has_keys()? {
            return Ok(Self::Profile(profile));
        }
        if let Some(container) = Container::find(environment)? {
            return Ok(Self::Container(container));
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
            Self::WebIdentity(role) => role.keys(),
            Self::Container(container) => container.keys(),
            Self::Machine(machine) => machine.keys(),
        }
    }

    /// Returns true if the keys are some that stay until somebody removes them.
    pub fn has_long_keys(&self) -> bool {
        matches!(self, Self::Environment(_) | Self::Profile(_))
    }

    /// Directories of the files that are read again, besides those of the profile.
    pub fn directories(&self) -> Option<PathBuf> {
        let file = match self {
            Self::WebIdentity(role) => Some(role.file()),
            Self::Container(container) => container.file(),
            _ => None,
        };
        file.and_then(Path::parent).map(ToOwned::to_owned)
    }

    /// Returns true if other keys may be there later.
    pub fn can_change(&self) -> bool {
        !matches!(self, Self::Environment(_))
    }
}
