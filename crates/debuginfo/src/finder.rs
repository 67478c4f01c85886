//! Where debug information is looked for, in order.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::folder;
use crate::server::Servers;
use crate::wanted::Wanted;

/// Folders below which distributions keep debug information: Debian and Fedora, SUSE and Arch Linux for
/// the kernel itself, and those with a kernel that was built here.
const USUAL: [&str; 3] = ["/usr/lib/debug", "/boot", "/"];
/// The folders of these that are read.
const USED: [&str; 4] = [
    "/usr/lib/debug",
    "/boot",
    "/lib/modules",
    "/usr/lib/modules",
];

/// Debug information that was found.
#[derive(Debug)]
pub struct Found {
    /// The file.
    pub file: File,
    /// Its name.
    pub path: PathBuf,
}

/// Looks for debug information.
#[derive(Clone, Debug, Default)]
pub struct Finder {
    given: Vec<PathBuf>,
    cache: Option<Cache>,
    servers: Option<Servers>,
}

impl Finder {
    /// Looks at the files and folders `given`, then into the usual folders, into `cache`, and asks
    /// `servers`.
    pub fn new(given: Vec<PathBuf>, cache: Option<Cache>, servers: Option<Servers>) -> Self {
        Self {
            given,
            cache,
            servers,
        }
    }

    /// The files and folders that it reads.
    pub fn reads(&self) -> Vec<PathBuf> {
        let cache = self.cache.iter().map(|cache| cache.folder().to_owned());
        let given = self.given.iter().cloned();
        given.chain(USED.map(PathBuf::from)).chain(cache).collect()
    }

    /// Finds what is wanted.
    ///
    /// # Errors
    ///
    /// Why it is not there, and what to do.
    pub fn find(&self, wanted: &Wanted) -> Result<Found, String> {
        let found = self
            .given
            .iter()
            .find_map(|path| match path.is_dir() {
                true => folder::find_anywhere(path, wanted),
                false => folder::open(path, wanted),
            })
            .or_else(|| {
                let usual = USUAL.iter().map(Path::new);
                usual
                    .into_iter()
                    .find_map(|path| folder::find(path, wanted))
            })
            .or_else(|| self.cache.as_ref()?.find(wanted));
        if let Some((file, path)) = found {
            return Ok(Found { file, path });
        }
        let what = match wanted.module() {
            Some(module) => format!("of the module {module}"),
            None => "of the kernel".to_owned(),
        };
        let missing = format!(
            "no debug information {what} with the build id {} was found",
            wanted.build_id()
        );
        let Some((servers, cache)) = self.servers.as_ref().zip(self.cache.as_ref()) else {
            return Err(missing);
        };
        match servers.fetch(wanted, cache) {
            Ok((file, path)) => Ok(Found { file, path }),
            Err(reason) => Err(format!("{missing}: {reason}")),
        }
    }
}
