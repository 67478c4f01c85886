//! What debug information is wanted.

use serde::{Deserialize, Serialize};

/// Lengths of a build id in hexadecimal: 8 to 64 bytes. The linker's default has 20.
const DIGITS: std::ops::RangeInclusive<usize> = 16..=128;
/// Maximum length of a release or a module's name: MODULE_NAME_LEN and __NEW_UTS_LEN of the kernel.
const MAX_NAME: usize = 64;

/// The kernel or a module whose debug information is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Wanted {
    build_id: String,
    release: String,
    module: Option<String>,
}

/// A message that has not been checked.
#[derive(Deserialize)]
struct Unchecked {
    build_id: String,
    release: String,
    module: Option<String>,
}

impl TryFrom<Unchecked> for Wanted {
    type Error = String;

    fn try_from(text: Unchecked) -> Result<Self, String> {
        Self::new(&text.build_id, &text.release, text.module.as_deref())
    }
}

impl Wanted {
    /// Wants the module of that name, or without one the kernel of a release, as `uname -r` prints
    /// it. The build id is in hexadecimal.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be searched for: no build id, or a text that is no file name.
    pub fn new(build_id: &str, release: &str, module: Option<&str>) -> Result<Self, String> {
        let is_digit = |c: char| c.is_ascii_hexdigit();
        if !DIGITS.contains(&build_id.len()) || !build_id.chars().all(is_digit) {
            return Err(format!("\"{}\" is not a build id", build_id.escape_debug()));
        }
        for name in [Some(release), module].into_iter().flatten() {
            let known = |c: char| c.is_ascii_alphanumeric() || "+-._~".contains(c);
            let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            if name.len() > MAX_NAME || !begins || !name.chars().all(known) {
                return Err(format!(
                    "\"{}\" is not the name of a kernel or module",
                    name.escape_debug()
                ));
            }
        }
        Ok(Self {
            build_id: build_id.to_ascii_lowercase(),
            release: release.to_owned(),
            module: module.map(str::to_owned),
        })
    }

    /// Build id, in hexadecimal with small letters.
    pub fn build_id(&self) -> &str {
        &self.build_id
    }

    /// Release of the kernel.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Name of the module; `None` for the kernel.
    pub fn module(&self) -> Option<&str> {
        self.module.as_deref()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    const ID: &str = "0123456789abcdef0123456789ABCDEF01234567";

    #[test]
    fn text_that_leads_out_of_a_folder_is_refused() {
        for (release, module) in [
            ("../6.1", None),
            ("..", None),
            ("6.1/x", None),
            ("", None),
            ("6.1", Some("a/b")),
            ("6.1", Some(".ko")),
            ("6.1", Some("")),
        ] {
            assert!(
                Wanted::new(ID, release, module).is_err(),
                "{release} {module:?}"
            );
        }
        let wanted = Wanted::new(ID, "6.1.0-56-cloud-amd64", Some("virtio_blk")).unwrap();
        assert_eq!(wanted.build_id(), ID.to_ascii_lowercase());
    }

    #[test]
    fn message_is_checked_as_well() {
        let wanted = Wanted::new(ID, "6.1.0", Some("ext4")).unwrap();
        let text = format!(r#"{{"build_id":"{ID}","release":"6.1.0","module":"ext4"}}"#);
        let parse = |text: &str| serde_json::from_str::<Wanted>(text);
        assert_eq!(parse(&text).unwrap(), wanted);
        assert!(parse(&text.replace("ext4", "../ext4")).is_err());
        assert!(parse(&text.replace(ID, "")).is_err());
    }
}
