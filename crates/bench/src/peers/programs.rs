//! The programs that are measured beside bigiron, as far as they are installed.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bigiron_format::codec::Codec;
use serde::Serialize;

/// A program on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Where it is; `None` if it is not installed.
    pub path: Option<PathBuf>,
    /// What it says about its version.
    pub version: String,
    /// What else it says of itself.
    #[serde(skip)]
    about: String,
}

impl Program {
    /// Looks for `name` in $PATH and asks its version by `flags`, one by one.
    pub fn find(name: &'static str, flags: &[&str]) -> Self {
        let path = env::var_os("PATH").and_then(|path| find_in(&path, name));
        let mut about = String::new();
        if let Some(path) = &path {
            for flag in flags {
                about += &ask(path, flag);
                about.push('\n');
            }
        }
        let version = about.lines().map(|line| line.trim_matches([' ', '*']));
        let version = version.into_iter().find(|line| !line.is_empty());
        let version = version.unwrap_or_default().trim_end_matches('.').to_owned();
        Self {
            name,
            path,
            version,
            about,
        }
    }

    /// makedumpfile; its help tells which codecs it was built with.
    pub fn makedumpfile() -> Self {
        Self::find("makedumpfile", &["-v", "--help"])
    }

    /// Compressors of whole files.
    pub fn compressors() -> Vec<Self> {
        ["zstd", "lbzip2", "pbzip2"]
            .map(|name| Self::find(name, &["--version"]))
            .into()
    }

    /// One line for people.
    pub fn line(&self) -> String {
        match (&self.path, self.version.as_str()) {
            (None, _) => format!("{}: not installed", self.name),
            (Some(path), "") => format!("{}: {}", self.name, path.display()),
            (Some(_), version) if version.starts_with(self.name) => version.to_owned(),
            (Some(_), version) => format!("{}: {version}", self.name),
        }
    }

    /// makedumpfile's flag for `codec`, or why it cannot be had.
    pub fn codec_flag(&self, codec: Codec) -> Result<Option<&'static str>, String> {
        let flag = match codec {
            Codec::None => return Ok(None),
            Codec::Zlib => return Ok(Some("-c")),
            Codec::Lzo => "-l",
            Codec::Snappy => "-p",
            Codec::Zstd => "-z",
        };
        if enabled(&self.about, codec.name()) {
            Ok(Some(flag))
        } else {
            Err(format!("this makedumpfile was built without {codec}"))
        }
    }
}

fn find_in(path: &std::ffi::OsStr, name: &str) -> Option<PathBuf> {
    env::split_paths(path)
        .map(|directory| directory.join(name))
        .find(|file| {
            let metadata = file.metadata();
            metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
        })
}

/// What it says when it gets `flag`.
fn ask(program: &Path, flag: &str) -> String {
    let asked = Command::new(program)
        .arg(flag)
        .stdin(Stdio::null())
        .output();
    let said = asked.map_or_else(|_| Vec::new(), |said| [said.stdout, said.stderr].concat());
    String::from_utf8_lossy(&said).into_owned()
}

/// Whether makedumpfile's help has `CODEC support:` and then `enabled`, or its
/// version `CODEC` and `enabled` in one line. A -p, -l or -z that it was not
/// built with it ignores, and the dump is not compressed.
fn enabled(about: &str, codec: &str) -> bool {
    let mut lines = about.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(rest) = line.strip_prefix(codec) else {
            continue;
        };
        let rest = rest.trim();
        if rest == "enabled" || (rest == "support:" && lines.next() == Some("enabled")) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian's 1.7.2: `makedumpfile -v`, then the head of its `--help`.
    const DEBIAN: &str = "makedumpfile: version 1.7.2 (released on 20 Oct 2022)\n\
        lzo\tenabled\nsnappy\tdisabled\nzstd\tdisabled\n\n\
        \nLZO support:\n  enabled\nsnappy support:\n  disabled ('-p' option will be ignored.)\n\
        zstd support:\n  disabled ('-z' option will be ignored.)\n";

    #[test]
    fn the_codecs_that_makedumpfile_was_built_with_is_complete_from_what_it_says() {
        assert!(enabled(DEBIAN, "lzo"));
        assert!(!enabled(DEBIAN, "snappy") && !enabled(DEBIAN, "zstd"));
        assert!(enabled(
            "snappy support:\n  enabled\nzstd support:\n",
            "snappy"
        ));
        assert!(!enabled(
            "snappy support:\n  enabled\nzstd support:\n",
            "zstd"
        ));
        assert!(!enabled("", "lzo"));
    }

    #[test]
    fn a_program_that_is_not_there_is_said_so() {
        let program = Program::find("no-such-program", &["-v"]);
        assert_eq!(program.line(), "no-such-program: not installed");
        let shell = Program::find("sh", &[]);
        assert!(shell.path.is_some_and(|path| path.is_absolute()));
    }
}
