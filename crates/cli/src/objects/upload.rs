//! Dumps that are uploaded while they are made.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bigiron_dump::{NamedTaker, Taker};
use bigiron_objects::{CompletedUpload, ObjectError, RemoteUpload};

use super::{helper, location};

/// An upload that takes a dump.
struct Upload {
    upload: RemoteUpload,
    name: String,
}

/// Returns the taker of a dump that becomes the object `path`.
///
/// # Errors
///
/// It is not the name of an object.
pub fn taker(path: &Path, overwrite: bool) -> anyhow::Result<NamedTaker> {
    let location = location(path)?;
    let begin = move || -> io::Result<Box<dyn Taker>> {
        let remote = Arc::new(helper::start(location.scheme).map_err(io::Error::other)?);
        let upload = remote.upload(&location, overwrite);
        Ok(Box::new(Upload {
            upload: upload.map_err(io::Error::other)?,
            name: location.to_string(),
        }))
    };
    Ok(NamedTaker::new(path.to_owned(), begin))
}

/// Makes an object of what another process uploaded for it.
///
/// # Errors
///
/// There is no such upload, or there is such an object.
pub fn complete(path: &Path, overwrite: bool) -> anyhow::Result<CompletedUpload> {
    let location = location(path)?;
    Ok(helper::start(location.scheme)?.complete(&location, overwrite)?)
}

fn error(error: ObjectError) -> io::Error {
    io::Error::other(error)
}

impl Taker for Upload {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.upload.append(bytes).map_err(error)
    }

    fn finish(&self) -> io::Result<()> {
        self.upload.finish().map_err(error)
    }

    fn leave(&self) -> io::Result<()> {
        self.upload.leave().map_err(error)
    }

    fn left(&self) -> Option<PathBuf> {
        let name = &self.name;
        Some(format!("an upload, which `bigiron save --complete {name}` makes an object,").into())
    }

    fn discard(&self) {
        let _ = self.upload.abort();
    }
}
