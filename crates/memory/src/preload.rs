//! Location of the preload library, which accelerates the calls of unchanged programs.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// File name of the library.
pub const LIBRARY: &str = "libbigiron_preload.so";
/// Environment variable with the path of the library, if it is in none of the usual places.
pub const VARIABLE: &str = "BIGIRON_PRELOAD";

/// Reason why the library was not found.
#[derive(Debug, thiserror::Error)]
pub enum NoLibrary {
    /// The file named by the environment variable is not accessible.
    #[error("{VARIABLE}: {}: {error}", path.display())]
    Named {
        /// Path from the environment variable.
        path: PathBuf,
        /// Error on access to the file.
        error: io::Error,
    },
    /// The library is not installed.
    #[error(
        "{LIBRARY} is neither {} nor {}: install it there, or set the environment variable {VARIABLE} to its path",
        beside.display(), packaged.display()
    )]
    Absent {
        /// Path in a build: next to the program.
        beside: PathBuf,
        /// Path in a package.
        packaged: PathBuf,
    },
}

/// Returns the library that the program `bigiron` at this path loads into others: the one named
/// by the environment variable, or else the one next to the program, or else the one of its
/// package.
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
