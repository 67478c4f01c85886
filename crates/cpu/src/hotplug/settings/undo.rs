//! How one change is undone.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::hotplug::sys_root::{read, write};

/// A change, with what is needed to undo it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Undo {
    /// A value in a file.
    Value {
        /// The file.
        file: PathBuf,
        /// What was in it.
        before: String,
        /// What was written.
        during: String,
    },
    /// A cgroup that was made.
    Cgroup {
        /// It.
        directory: PathBuf,
        /// The file where `+cpuset` was written for it, if that was needed.
        controller: Option<PathBuf>,
    },
}

/// What came of undoing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It is as it was.
    Yes(String),
    /// There was nothing to undo, since it is as it was already.
    Already,
    /// Somebody else has set it since then, and knows better.
    Left(String),
}

impl Undo {
    /// Puts it back. What somebody else has set meanwhile stays.
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
                        return Ok(Undone::Left(format!("{name} is gone")));
                    }
                    now => now.map_err(failed)?,
                };
                if now == *before {
                    return Ok(Undone::Already);
                }
                if now != *during {
                    let left = format!("{name} is {now} by somebody else; it was {before}");
                    return Ok(Undone::Left(left));
                }
                write(file, before).map_err(failed)?;
                Ok(Undone::Yes(format!("{name} is {before} again")))
            }
            Self::Cgroup {
                directory,
                controller,
            } => remove(directory, controller.as_ref()),
        }
    }
}

/// A partition first becomes a plain cgroup: rmdir alone rebuilds domains some time later
/// (cpuset_css_offline).
fn remove(directory: &PathBuf, controller: Option<&PathBuf>) -> Result<Undone, String> {
    let name = directory.display();
    let _ = write(&directory.join("cpuset.cpus.partition"), "member");
    let is_gone = match fs::remove_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        removed => removed
            .map(|()| false)
            .map_err(|error| format!("{name} is still there: {error}"))?,
    };
    if let Some(file) = controller {
        let has_it = read(file).is_ok_and(|has| has.split(' ').any(|one| one == "cpuset"));
        if has_it {
            let failed = |error| format!("{} still has cpuset: {error}", file.display());
            write(file, "-cpuset").map_err(failed)?;
            return Ok(Undone::Yes(format!("{name} is gone")));
        }
    }
    Ok(match is_gone {
        true => Undone::Already,
        false => Undone::Yes(format!("{name} is gone")),
    })
}
