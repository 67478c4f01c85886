//! Credentials: from the environment, a profile, or a service of the container or the machine.

mod ask;
mod container;
mod machine;
mod managed_identity;
mod profile;
mod web_identity;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

pub use container::Container;
pub use machine::Machine;
pub use managed_identity::{ManagedIdentity, Token};
pub use profile::Profile;
pub use web_identity::WebIdentity;

use crate::environment::Environment;
use crate::error::ObjectError;

/// Keys that expire sooner are replaced before they are used, in seconds.
const MARGIN: i64 = 300;
/// Maximum size of a file that has a token.
const MAX_TOKEN: u64 = 64 << 10;

/// What is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(pub T);

impl<T> fmt::Debug for Secret<T> {
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
    pub secret: Secret<String>,
    /// The token of temporary keys.
    pub token: Option<Secret<String>>,
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
        region: Option<&str>,
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
        let region = region.unwrap_or(crate::settings::REGION);
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

/// Reads a token from a file, which others replace.
fn read_token(path: &Path) -> Result<Secret<String>, ObjectError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_TOKEN).read_to_string(&mut text));
    read.map_err(|error| {
        ObjectError::Settings(format!(
            "{}: cannot read the token for object storage: {error}",
            path.display()
        ))
    })?;
    Ok(Secret(text.trim().to_owned()))
}
