//! The files `credentials` and `config` of the AWS tools.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::keys::{Keys, Secret};
use crate::environment::Environment;
use crate::error::ObjectError;

/// Maximum size of a file in bytes.
const MAX_SIZE: u64 = 1 << 20;
/// Settings of profiles that get keys in ways that this program does not know.
const OTHER_WAYS: [&str; 5] = [
    "role_arn",
    "credential_process",
    "sso_session",
    "sso_start_url",
    "web_identity_token_file",
];

/// A profile of the user's files.
#[derive(Clone, Debug)]
pub struct Profile {
    name: String,
    credentials: PathBuf,
    config: PathBuf,
    /// Settings in `config`, as it was in the beginning.
    settings: HashMap<String, String>,
    is_named: bool,
}

impl Profile {
    /// Finds the profile that the environment names, or `default`.
    ///
    /// # Errors
    ///
    /// A file cannot be read; one that does not exist is empty.
    pub fn find(environment: &Environment) -> Result<Self, ObjectError> {
        let home = environment.get("HOME").map(PathBuf::from);
        let file = |variable, name: &str| match environment.get(variable) {
            Some(path) => PathBuf::from(path),
            None => home.clone().unwrap_or_default().join(".aws").join(name),
        };
        let named = environment
            .get("AWS_PROFILE")
            .or_else(|| environment.get("AWS_DEFAULT_PROFILE"));
        let name = named.unwrap_or("default").to_owned();
        let config = file("AWS_CONFIG_FILE", "config");
        // Of other profiles than the default the section's name has a word in front.
        let sections = [format!("profile {name}"), name.clone()];
        let section = match name.as_str() {
            "default" => &sections[..],
            _ => &sections[..1],
        };
        Ok(Self {
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            settings: read_section(&config, section)?,
            config,
            name,
            is_named: named.is_some(),
        })
    }

    /// A setting of `config`.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// The directories of its files.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        [&self.credentials, &self.config]
            .into_iter()
            .filter_map(|file| file.parent())
    }

    /// Returns true if it has keys.
    ///
    /// # Errors
    ///
    /// It was asked for and has none, or has those of another way.
    pub fn has_keys(&self) -> Result<bool, ObjectError> {
        if self.keys()?.is_some() {
            return Ok(true);
        }
        if let Some(way) = OTHER_WAYS
            .into_iter()
            .find(|way| self.settings.contains_key(*way))
        {
            return Err(ObjectError::Settings(format!(
                "no credentials: {self} has {way}, which this program cannot use; set the \
                 variables that `aws configure export-credentials --format env` prints"
            )));
        }
        match self.is_named {
            true => Err(ObjectError::Settings(format!(
                "no credentials: {self} has no aws_access_key_id and aws_secret_access_key; \
                 correct AWS_PROFILE or the file"
            ))),
            false => Ok(false),
        }
    }

    /// Reads its keys, which other programs may have replaced.
    pub fn keys(&self) -> Result<Option<Keys>, ObjectError> {
        let own = read_section(&self.credentials, std::slice::from_ref(&self.name))?;
        Ok(keys_in(&own).or_else(|| keys_in(&self.settings)))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the profile {} in {} and {}",
            self.name,
            self.credentials.display(),
            self.config.display()
        )
    }
}

fn keys_in(settings: &HashMap<String, String>) -> Option<Keys> {
    Some(Keys {
        id: settings.get("aws_access_key_id")?.clone(),
        secret: Secret(settings.get("aws_secret_access_key")?.clone()),
        token: settings.get("aws_session_token").cloned().map(Secret),
        expires: None,
    })
}

/// Reads the settings of the first section with one of these names.
fn read_section(path: &Path, names: &[String]) -> Result<HashMap<String, String>, ObjectError> {
    let error = |cause| {
        ObjectError::Settings(format!(
            "{}: cannot read the settings of object storage: {cause}",
            path.display()
        ))
    };
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file
            .take(MAX_SIZE)
            .read_to_string(&mut text)
            .map_err(error)?,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(cause) => return Err(error(cause)),
    };
    let found = names.iter().find_map(|name| section(&text, name));
    Ok(found.unwrap_or_default())
}

/// The settings of a section. Lines with a blank in front belong to the setting above them, and
/// are left out.
fn section(text: &str, name: &str) -> Option<HashMap<String, String>> {
    let header = |line: &str| {
        let inside = line.trim().strip_prefix('[')?.split(']').next()?;
        Some(inside.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let mut lines = text.lines();
    lines.find(|line| header(line).as_deref() == Some(name))?;
    let own = lines.take_while(|line| header(line).is_none());
    let pairs = own.filter(|line| !line.starts_with([' ', '\t', '#', ';']));
    let pairs = pairs.filter_map(|line| line.split_once('='));
    Some(
        pairs
            .map(|(key, value)| (key.trim().to_lowercase(), value.trim().to_owned()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use std::fs;

    use super::*;

    /// The form of the files in the AWS command line's user guide.
    const CREDENTIALS: &str = "\
[default]
aws_access_key_id = ID1
aws_secret_access_key=a=b/c+d

[crashes]
# a comment
aws_access_key_id = ID2
aws_secret_access_key = SECRET2
aws_session_token = TOKEN2
";
    const CONFIG: &str = "\
[default]
region = eu-central-1
s3 =
  addressing_style = path
[profile crashes]
region = eu-west-3
endpoint_url = http://localhost:9000
[profile role]
role_arn = arn:aws:iam::1:role/a
";

    /// The profile, and the directory of its files, which are read again for keys.
    fn find(pairs: &[(&str, &str)]) -> (Profile, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("credentials"), CREDENTIALS).unwrap();
        fs::write(path("config"), CONFIG).unwrap();
        let (credentials, config) = (path("credentials"), path("config"));
        let files = [
            ("AWS_SHARED_CREDENTIALS_FILE", &*credentials),
            ("AWS_CONFIG_FILE", &*config),
        ];
        let profile = Profile::find(&Environment::of(files.iter().chain(pairs).copied())).unwrap();
        (profile, directory)
    }

    #[test]
    fn default_profile_is_found() {
        let (profile, _files) = find(&[]);
        let keys = profile.keys().unwrap().unwrap();
        assert_eq!((&*keys.id, &*keys.secret.0), ("ID1", "a=b/c+d"));
        assert_eq!(profile.setting("region"), Some("eu-central-1"));
        assert_eq!(profile.setting("addressing_style"), None);
    }

    #[test]
    fn named_profile_has_its_own_settings() {
        let (profile, _files) = find(&[("AWS_PROFILE", "crashes")]);
        let keys = profile.keys().unwrap().unwrap();
        assert_eq!(keys.token, Some(Secret("TOKEN2".to_owned())));
        assert_eq!(
            profile.setting("endpoint_url"),
            Some("http://localhost:9000")
        );
        assert!(!format!("{keys:?}").contains("SECRET2"));
    }

    #[test]
    fn profile_without_keys_is_an_error_that_says_what_to_do() {
        let (role, _files) = find(&[("AWS_PROFILE", "role")]);
        let error = role.has_keys().unwrap_err().to_string();
        assert!(
            error.contains("role_arn") && error.contains("export-credentials"),
            "{error}"
        );
        let (none, _files) = find(&[("AWS_PROFILE", "none")]);
        assert!(none.has_keys().is_err());
    }
}
