//! Aliases: program names that select another command line, and the arguments with which the
//! program starts helper processes of its own. They are matched before the command line is
//! parsed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[cfg(feature = "hotplug")]
use crate::commands::cpu;
use crate::commands::dmesg;
#[cfg(feature = "inspect")]
use crate::debug_info;
#[cfg(feature = "mount")]
use crate::fuse;
#[cfg(feature = "objects")]
use crate::objects;
use crate::{makedumpfile, savecore};

/// Pattern by which an alias is recognised.
enum Name {
    /// File name of the program, such as that of a link to it.
    Program(&'static str),
    /// File name of the program, or its first argument: `bigiron makedumpfile …`.
    ProgramOrCommand(&'static str),
    /// Leading arguments of a helper process that the program starts.
    #[cfg(any(
        feature = "hotplug",
        feature = "inspect",
        feature = "memory",
        feature = "mount",
        feature = "objects"
    ))]
    Arguments(&'static [&'static str]),
}

/// A name and the function that runs under it. The function receives the program's path and
/// the arguments after the name, and returns the exit code.
struct Alias {
    name: Name,
    run: fn(&Path, Vec<OsString>) -> u8,
}

/// All aliases, in matching order; those that must start fast come first.
const ALIASES: &[Alias] = &[
    #[cfg(feature = "memory")]
    Alias {
        name: Name::Arguments(&["mem", "reap"]),
        run: reap,
    },
    #[cfg(feature = "hotplug")]
    Alias {
        name: Name::Arguments(&["cpu", cpu::WATCHDOG]),
        run: |_, arguments| cpu::run_watchdog(&arguments),
    },
    #[cfg(feature = "mount")]
    Alias {
        name: Name::Arguments(&fuse::helper::HELPER),
        run: |_, arguments| fuse::helper::run(&arguments),
    },
    #[cfg(feature = "objects")]
    Alias {
        name: Name::Arguments(&objects::helper::HELPER),
        run: |_, arguments| objects::helper::run(&arguments),
    },
    #[cfg(feature = "inspect")]
    Alias {
        name: Name::Arguments(&debug_info::HELPER),
        run: |_, arguments| debug_info::helper::run(arguments),
    },
    Alias {
        name: Name::Program("vmcore-dmesg"),
        run: |program, arguments| dmesg::run_as_alias(program, &arguments),
    },
    Alias {
        name: Name::ProgramOrCommand("makedumpfile"),
        run: |_, arguments| makedumpfile::run_as_alias(arguments),
    },
    Alias {
        name: Name::ProgramOrCommand("savecore"),
        run: |_, arguments| savecore::run_as_alias(arguments),
    },
];

/// Runs the alias that the command line selects, if any; returns its exit code.
pub fn run() -> Option<u8> {
    let mut arguments = std::env::args_os();
    let program = PathBuf::from(arguments.next()?);
    let arguments: Vec<OsString> = arguments.collect();
    let (alias, skip) = find(&program, &arguments)?;
    Some((alias.run)(&program, arguments[skip..].to_vec()))
}

/// Returns the alias for a command line, and the number of arguments that belong to its name.
fn find(program: &Path, arguments: &[OsString]) -> Option<(&'static Alias, usize)> {
    ALIASES
        .iter()
        .find_map(|alias| Some((alias, alias.name.matches(program, arguments)?)))
}

impl Name {
    /// Returns the number of arguments that belong to the name, if it matches.
    fn matches(&self, program: &Path, arguments: &[OsString]) -> Option<usize> {
        let is_program = |name: &str| program.file_name().is_some_and(|file| file == name);
        match self {
            Self::Program(name) => is_program(name).then_some(0),
            Self::ProgramOrCommand(name) if is_program(name) => Some(0),
            Self::ProgramOrCommand(name) => {
                let is_command = arguments.first().is_some_and(|argument| argument == name);
                is_command.then_some(1)
            }
            #[cfg(any(
                feature = "hotplug",
                feature = "memory",
                feature = "mount",
                feature = "objects"
            ))]
            Self::Arguments(words) => {
                let front = arguments.get(..words.len())?;
                let matches = front.iter().zip(*words).all(|(one, other)| one == other);
                matches.then_some(words.len())
            }
        }
    }
}

/// Runs the reaper process of `bigiron mem`.
#[cfg(feature = "memory")]
fn reap(_program: &Path, _arguments: Vec<OsString>) -> u8 {
    let code = bigiron_memory::reaper::serve(std::env::args_os());
    u8::try_from(code).unwrap_or(crate::errors::FAILED)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    fn found(line: &[&str]) -> Option<(&'static str, usize)> {
        let arguments: Vec<OsString> = line[1..].iter().map(OsString::from).collect();
        let (alias, skip) = find(Path::new(line[0]), &arguments)?;
        let name = match &alias.name {
            Name::Program(name) | Name::ProgramOrCommand(name) => name,
            #[cfg(any(feature = "hotplug", feature = "memory", feature = "mount"))]
            Name::Arguments(words) => words.last().unwrap(),
        };
        Some((name, skip))
    }

    #[test]
    fn aliases_match_the_program_name_or_the_leading_arguments() {
        assert_eq!(
            found(&["/bin/makedumpfile", "-l"]),
            Some(("makedumpfile", 0))
        );
        assert_eq!(
            found(&["bigiron", "makedumpfile", "-l"]),
            Some(("makedumpfile", 1))
        );
        assert_eq!(found(&["bigiron", "savecore"]), Some(("savecore", 1)));
        assert_eq!(
            found(&["./vmcore-dmesg", "vmcore"]),
            Some(("vmcore-dmesg", 0))
        );
        assert_eq!(found(&["bigiron", "vmcore-dmesg"]), None);
        assert_eq!(found(&["bigiron", "dump", "makedumpfile"]), None);
        assert_eq!(found(&["bigiron"]), None);
    }

    #[cfg(feature = "memory")]
    #[test]
    fn reaper_is_found_by_its_arguments() {
        assert_eq!(found(&["bigiron", "mem", "reap", "1"]), Some(("reap", 2)));
        assert_eq!(found(&["bigiron", "mem", "run"]), None);
    }
}
