//! Undoing a single change.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::hotplug::sys_root::{read, write};

/// Change, with the information needed to undo it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Undo {
    /// Value written to a file.
    Value {
        /// Path of the file.
        file: PathBuf,
        /// Value before the change.
        before: String,
        /// Value written.
        during: String,
    },
    /// Created cgroup.
    Cgroup {
        /// Directory of the cgroup.
        directory: PathBuf,
        /// File to which `+cpuset` was written for the cgroup, if that was necessary.
        controller: Option<PathBuf>,
    },
}

/// Result of undoing a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The change was undone.
    Yes(String),
    /// Nothing was left to undo.
    Already,
    /// The current state was kept, because another process has changed it since.
    Left(String),
}

impl Undo {
    /// Undoes the change. A value that another process has set since is kept.
    pub(super) fn undo(&self) -> Result<Undone, String> {
        match self {
            Self::Value {
                file,
                before,
                during,
            } => {
                let name = file.display();
                let failed = |error: io::Error| format!("{name} to {before}: {error}");
                let now = match read(file) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Ok(Undone::Left(format!("{name} no longer exists")));
                    }
                    now => now.map_err(failed)?,
                };
                if now == *before {
                    return Ok(Undone::Already);
                }
                if now != *during {
                    let left = format!(
                        "{name} was set to {now} by another process and is kept; it was {before}"
                    );
                    return Ok(Undone::Left(left));
                }
                write(file, before).map_err(failed)?;
                Ok(Undone::Yes(format!("{name} restored to {before}")))
            }
            Self::Cgroup {
                directory,
                controller,
            } => remove(directory, controller.as_ref()),
        }
    }
}

/// Removes a cgroup. A partition first becomes a plain cgroup: rmdir alone rebuilds the domains
/// only some time later (cpuset_css_offline).
fn remove(directory: &PathBuf, controller: Option<&PathBuf>) -> Result<Undone, String> {
    let name = directory.display();
    let _ = write(&directory.join("cpuset.cpus.partition"), "member");
    let is_gone = match fs::remove_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        removed => removed
            .map(|()| false)
            .map_err(|error| format!("{name} cannot be removed: {error}"))?,
    };
    if let Some(file) = controller {
        let has_it = read(file).is_ok_and(|has| has.split(' ').any(|one| one == "cpuset"));
        if has_it {
            let failed = |error| format!("{} still has cpuset: {error}", file.display());
            write(file, "-cpuset").map_err(failed)?;
            return Ok(Undone::Yes(format!("{name} removed")));
        }
    }
    Ok(match is_gone {
        true => Undone::Already,
        false => Undone::Yes(format!("{name} removed")),
    })
}
