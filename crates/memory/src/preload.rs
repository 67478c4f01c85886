//! Location of the library that uses helpers for the calls of an unchanged program.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// File name of the library.
pub const LIBRARY: &str = "libbigiron_preload.so";
/// Environment variable with the path of the library, if it is in no usual place.
pub const VARIABLE: &str = "BIGIRON_PRELOAD";

/// The reason why the library is missing.
#[derive(Debug, thiserror::Error)]
pub enum NoLibrary {
    /// The file that the environment names is not available.
    #[error("{VARIABLE}: {}: {error}", path.display())]
    Named {
        /// Path in the environment.
        path: PathBuf,
        /// Error on access to it.
        error: io::Error,
    },
    /// It is not installed.
    #[error(
        "{LIBRARY} is neither {} nor {}: install it there, or name it by the environment variable {VARIABLE}",
        beside.display(), packaged.display()
    )]
    Absent {
        /// Path in a build: beside the program.
        beside: PathBuf,
        /// Path in a package.
        packaged: PathBuf,
    },
}

/// Returns the library that the program `bigiron` at this path loads into others: the one named
/// by the environment, else the one beside it, else the one of its package.
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
