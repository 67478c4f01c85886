//! The command line of `savecore`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::tell::tell;

/// Name in messages.
pub(super) const NAME: &str = "savecore";

/// The parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) live: bool,
    pub(super) read_only: bool,
    pub(super) verbose: bool,
    pub(super) disregard_mark: bool,
    pub(super) file: Option<PathBuf>,
    pub(super) directory: Option<PathBuf>,
}

impl Settings {
    /// Parses the options like getopt(3C); an error is a message for the user.
    pub(super) fn parse(arguments: Vec<OsString>) -> Result<Self, String> {
        let mut settings = Self::default();
        let mut arguments = arguments.into_iter().peekable();
        while let Some(word) = arguments.next_if(|word| {
            let bytes = word.as_bytes();
            bytes.len() > 1 && bytes[0] == b'-'
        }) {
            if word == "--" {
                break;
            }
            let mut letters = word.as_bytes()[1..].iter();
            while let Some(letter) = letters.next() {
                match letter {
                    b'L' => settings.live = true,
                    b'r' => settings.read_only = true,
                    b'v' => settings.verbose = true,
                    b'd' => settings.disregard_mark = true,
                    b'f' => {
                        let rest = OsStr::from_bytes(letters.as_slice());
                        let value = match rest.is_empty() {
                            true => arguments.next(),
                            false => Some(rest.to_owned()),
                        };
                        let value = value.ok_or("option -f requires a file")?;
                        settings.file = Some(value.into());
                        break;
                    }
                    other => return Err(format!("unknown option -{}", char::from(*other))),
                }
            }
        }
        settings.directory = arguments.next().map(PathBuf::from);
        if arguments.next().is_some() {
            return Err("at most one directory can be given".into());
        }
        if settings.live && settings.read_only {
            return Err("-L and -r cannot be combined: a live dump has no mark to keep".into());
        }
        Ok(settings)
    }
}

/// Reports the name of the saved log.
pub(super) fn print_log_path(log: Option<&Path>) {
    if let Some(log) = log {
        tell!("{NAME}: saved the kernel log in {}", log.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Settings, String> {
        Settings::parse(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn options_are_parsed_like_getopt() {
        let expected = Settings {
            verbose: true,
            disregard_mark: true,
            file: Some("dump".into()),
            directory: Some("dir".into()),
            ..Settings::default()
        };
        for line in ["-v -d -f dump dir", "-vdfdump dir", "-dvf dump -- dir"] {
            assert_eq!(parse(line).as_ref(), Ok(&expected), "{line}");
        }
        assert_eq!(parse(""), Ok(Settings::default()));
        for line in ["-x", "-f", "one two", "-v one two", "-Lr", "-r -L dir"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
