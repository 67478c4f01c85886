//! `bigiron mem run`: runs a program with the preload library.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use bigiron_memory::policy::{Policy, VARIABLE};
use bigiron_memory::preload;
use bigiron_memory::reaper::PROGRAM_VARIABLE;

use super::exec::exec;
use super::program::{self, Reach};
use crate::arguments::memory::RunArguments;
use crate::tell::tell;

/// Exit codes as of env(1) and timeout(1).
const FAILED: u8 = 125;
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;

const PRELOAD: &str = "LD_PRELOAD";

/// Executes the program in this process. Returns only on failure, with the exit code.
pub fn run(arguments: &RunArguments) -> ExitCode {
    let Some(name) = arguments.command.first() else {
        return ExitCode::from(FAILED);
    };
    let variables = match variables(name, arguments) {
        Ok(variables) => variables,
        Err(error) => {
            tell!("bigiron: {error:#}");
            return ExitCode::from(FAILED);
        }
    };
    let error = exec(&arguments.command, &variables);
    tell!("bigiron: {}: {error}", Path::new(name).display());
    ExitCode::from(match error.kind() {
        ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_EXECUTE,
    })
}

/// Returns the environment variables for the program `name`.
fn variables(
    name: &OsStr,
    arguments: &RunArguments,
) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let policy = policy_text(arguments, env::var_os(VARIABLE).as_deref())?;
    let this = env::current_exe().context("cannot find the path of this program")?;
    let library = preload::find(&this)?;
    let mut variables = vec![
        (VARIABLE, policy.into()),
        (PROGRAM_VARIABLE, this.into_os_string()),
    ];
    let reach = program::find(name, env::var_os("PATH").as_deref())
        .map_or(Reach::Whole, |path| program::reach(&path));
    if let Some(why) = reach.why_not() {
        tell!(
            "bigiron: warning: {} {why}; its calls are not accelerated",
            name.display()
        );
    }
    if reach.may_preload() {
        let before = env::var_os(PRELOAD);
        variables.push((PRELOAD, preloaded(&library, before.as_deref())?));
    }
    Ok(variables)
}

/// Returns all assignments in one line: those of the environment, of the file, and of the options.
fn policy_text(arguments: &RunArguments, before: Option<&OsStr>) -> anyhow::Result<String> {
    let mut all = Assignments::default();
    if let Some(before) = before {
        let text = before.to_str().ok_or_else(|| not_text(VARIABLE))?;
        all.add_text(text, |_| VARIABLE.to_owned())?;
    }
    if let Some(path) = &arguments.policy {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("{name}: cannot be read"))?;
        all.add_text(&text, |line| format!("{name}, line {line}"))?;
    }
    let options = [
        ("helpers", &arguments.helpers),
        ("threshold", &arguments.threshold),
        ("attach", &arguments.attach),
        ("destroy", &arguments.destroy),
    ];
    for (key, value) in options {
        if let Some(value) = value {
            all.add_one(&format!("{key}={value}"), &format!("--{key}"))?;
        }
    }
    for assignment in &arguments.set {
        all.add_one(assignment, "--set")?;
    }
    if let Some(trace) = &arguments.trace {
        let trace = trace.to_str().ok_or_else(|| not_text("--trace"))?;
        let place = match trace {
            "stderr" | "no" => PathBuf::from(trace),
            // The program may change its directory.
            path => std::path::absolute(path).with_context(|| format!("--trace={path}"))?,
        };
        all.add_one(&format!("trace={}", place.display()), "--trace")?;
    }
    Ok(all.text)
}

fn not_text(name: &str) -> anyhow::Error {
    anyhow!("{name}: expected text in UTF-8")
}

/// Valid assignments, separated by commas.
#[derive(Debug, Default)]
struct Assignments {
    text: String,
}

impl Assignments {
    /// Adds several lines. `place` returns the location of a line, for errors.
    fn add_text(&mut self, text: &str, place: impl Fn(usize) -> String) -> anyhow::Result<()> {
        for (line, number) in text.lines().zip(1..) {
            let line = line.split('#').next().unwrap_or("");
            for assignment in line.split(',').map(str::trim).filter(|one| !one.is_empty()) {
                self.add_one(assignment, &place(number))?;
            }
        }
        Ok(())
    }

    fn add_one(&mut self, assignment: &str, place: &str) -> anyhow::Result<()> {
        if assignment.contains([',', '#', '\n', '\0']) {
            bail!("{place}: `{assignment}`: expected one assignment without , # or end of line");
        }
        Policy::default()
            .change(assignment)
            .map_err(|error| anyhow!("{place}: {error}"))?;
        if !self.text.is_empty() {
            self.text.push(',');
        }
        self.text.push_str(assignment);
        Ok(())
    }
}

/// Returns the value of LD_PRELOAD: the library, followed by the present value.
fn preloaded(library: &Path, before: Option<&OsStr>) -> anyhow::Result<OsString> {
    if library
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| b" :".contains(byte))
    {
        bail!(
            "{}: {PRELOAD} cannot hold a path with a space or a colon; move the library, or set {} to \
             a link to it",
            library.display(),
            preload::VARIABLE
        );
    }
    let mut all = library.as_os_str().to_owned();
    let others = before.unwrap_or_default().as_bytes();
    for other in others
        .split(|byte| b" :".contains(byte))
        .filter(|other| !other.is_empty() && *other != library.as_os_str().as_bytes())
    {
        all.push(":");
        all.push(OsStr::from_bytes(other));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_that_are_already_preloaded_stay() {
        let library = Path::new("/l/ours.so");
        let with = |before: &str| preloaded(library, Some(OsStr::new(before))).unwrap();
        assert_eq!(preloaded(library, None).unwrap(), "/l/ours.so");
        assert_eq!(with("/a.so /b.so"), "/l/ours.so:/a.so:/b.so");
        assert_eq!(with("/a.so:/l/ours.so"), "/l/ours.so:/a.so");
        assert!(preloaded(Path::new("/l l/ours.so"), None).is_err());
    }

    #[test]
    fn errors_name_the_line() {
        let mut all = Assignments::default();
        let text = "# a policy\nhelpers = 2\n\nattach=lock, exit=plane # no\n";
        let wrong = all
            .add_text(text, |line| format!("p, line {line}"))
            .unwrap_err()
            .to_string();
        assert_eq!(wrong, "p, line 4: `exit=plane`: expected plain or parallel");
        assert_eq!(all.text, "helpers = 2,attach=lock");
        assert!(all.add_one("helpers=2,exit=plain", "--set").is_err());
    }
}
