//! Where the library is that puts helpers in the place of an unchanged program's calls.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The library's file.
pub const LIBRARY: &str = "libbigiron_preload.so";
/// The environment variable that names the library where it is in no usual place.
pub const VARIABLE: &str = "BIGIRON_PRELOAD";

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
pub enum NoLibrary {
    /// What the environment names cannot be had.
    #[error("{VARIABLE}: {}: {error}", path.display())]
    Named {
        /// What it names.
        path: PathBuf,
        /// Why it cannot be had.
        error: io::Error,
    },
    /// It is not installed.
    #[error(
        "{LIBRARY} is neither {} nor {}: install it there, or name it by the environment variable {VARIABLE}",
        beside.display(), packaged.display()
    )]
    Absent {
        /// Where a build has it: beside the program.
        beside: PathBuf,
        /// Where packages have it.
        packaged: PathBuf,
    },
}

/// The library that the program `bigiron` at this path loads into others: the one that the
/// environment names, else the one beside it, else the one of its package.
pub fn find(program: &Path) -> Result<PathBuf, NoLibrary> {
    match env::var_os(VARIABLE).map(PathBuf::from) {
        Some(path) => fs::canonicalize(&path).map_err(|error| NoLibrary::Named { path, error }),
        None => find_installed(program),
    }
}

fn find_installed(program: &Path) -> Result<PathBuf, NoLibrary> {
    let directory = program.parent().unwrap_or(Path::new("/"));
    let [beside, packaged] =
        ["", "../lib/bigiron"].map(|place| directory.join(place).join(LIBRARY));
    fs::canonicalize(&beside)
        .or_else(|_| fs::canonicalize(&packaged))
        .map_err(|_| NoLibrary::Absent { beside, packaged })
}
