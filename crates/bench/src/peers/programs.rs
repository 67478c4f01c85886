//! The programs that bigiron is compared with, if installed.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bigiron_format::codec::Codec;
use serde::Serialize;

/// A program on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Program {
    /// The program's name.
    pub name: &'static str,
    /// Path of the program; `None` if it is not installed.
    pub path: Option<PathBuf>,
    /// The version that the program reports.
    pub version: String,
    /// The program's complete output about itself.
    #[serde(skip)]
    about: String,
}

impl Program {
    /// Searches $PATH for `name` and runs it with each of `flags` to determine its version.
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

    /// Finds makedumpfile; its help lists the codecs it was built with.
    pub fn makedumpfile() -> Self {
        Self::find("makedumpfile", &["-v", "--help"])
    }

    /// Finds the compressors of whole files.
    pub fn compressors() -> Vec<Self> {
        ["zstd", "lbzip2", "pbzip2"]
            .map(|name| Self::find(name, &["--version"]))
            .into()
    }

    /// Describes the program in one line.
    pub fn line(&self) -> String {
        match (&self.path, self.version.as_str()) {
            (None, _) => format!("{}: not installed", self.name),
            (Some(path), "") => format!("{}: {}", self.name, path.display()),
            (Some(_), version) if version.starts_with(self.name) => version.to_owned(),
            (Some(_), version) => format!("{}: {version}", self.name),
        }
    }

    /// Returns makedumpfile's flag for `codec`, or the reason why it is not available.
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

/// Returns the program's output for `flag`.
fn ask(program: &Path, flag: &str) -> String {
    let asked = Command::new(program)
        .arg(flag)
        .stdin(Stdio::null())
        .output();
    let said = asked.map_or_else(|_| Vec::new(), |said| [said.stdout, said.stderr].concat());
    String::from_utf8_lossy(&said).into_owned()
}

/// True if makedumpfile's help has the line `CODEC support:` followed by `enabled`, or if its
/// version has `CODEC` and `enabled` in one line. makedumpfile ignores -p, -l or -z if it was
/// built without that codec, and then writes an uncompressed dump.
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

    /// Debian's 1.7.2: the output of `makedumpfile -v`, then the head of `--help`.
    const DEBIAN: &str = "makedumpfile: version 1.7.2 (released on 20 Oct 2022)\n\
        lzo\tenabled\nsnappy\tdisabled\nzstd\tdisabled\n\n\
        \nLZO support:\n  enabled\nsnappy support:\n  disabled ('-p' option will be ignored.)\n\
        zstd support:\n  disabled ('-z' option will be ignored.)\n";

    #[test]
    fn codecs_of_makedumpfile_are_parsed_from_its_output() {
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
    fn missing_program_is_reported_as_not_installed() {
        let program = Program::find("no-such-program", &["-v"]);
        assert_eq!(program.line(), "no-such-program: not installed");
        let shell = Program::find("sh", &[]);
        assert!(shell.path.is_some_and(|path| path.is_absolute()));
    }
}
