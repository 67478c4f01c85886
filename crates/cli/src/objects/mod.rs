//! Dumps in object storage, by way of a process that has the network.
//!
//! A process that reads an untrusted dump has no network, and one that has the network and the
//! credentials reads no dump: see [`helper`].

#[cfg(feature = "triage")]
pub mod find;
pub mod helper;
#[cfg(feature = "retention")]
pub mod retention;
mod secrets;
mod upload;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
#[cfg(feature = "triage")]
use bigiron_objects::Usage;
use bigiron_objects::{CachedObject, Location, RemoteObject};
#[cfg(any(feature = "triage", feature = "retention"))]
use bigiron_objects::{Listed, Page, Remote};

pub use secrets::forget_secrets;
pub use upload::{complete, taker};

/// An object that is read at random.
pub type Object = CachedObject<RemoteObject>;

/// Objects that were opened together.
pub struct Objects {
    /// Each, with its name.
    pub parts: Vec<(Object, PathBuf)>,
    /// What they cost.
    #[cfg(feature = "triage")]
    pub cost: Cost,
}

/// What is known of the cost of objects that are read.
#[cfg(feature = "triage")]
#[derive(Clone)]
pub struct Cost(Arc<Remote>);

#[cfg(feature = "triage")]
impl Cost {
    /// Bytes and requests until now.
    pub fn usage(&self) -> Option<Usage> {
        self.0.usage().ok()
    }
}

/// Returns true for the name of an object.
pub fn is_object(path: &Path) -> bool {
    path.to_str().is_some_and(bigiron_objects::is_object)
}

/// Opens the objects of one dump, and nothing more after them.
///
/// # Errors
///
/// One of them cannot be read, or is no object.
pub fn open(paths: &[PathBuf]) -> anyhow::Result<Objects> {
    let locations: Vec<Location> = paths
        .iter()
        .map(|path| {
            let name = path.to_str().filter(|_| is_object(path));
            let name = name.with_context(|| {
                format!(
                    "{}: is a file, and other parts of the dump are objects; give all of one kind",
                    path.display()
                )
            })?;
            Ok(name.parse()?)
        })
        .collect::<anyhow::Result<_>>()?;
    let first = locations.first().context("no object is named")?;
    let remote = Arc::new(helper::start(first.scheme)?);
    let parts = locations.iter().zip(paths);
    let parts = parts.map(|(location, path)| Ok((remote.open(location)?, path.clone())));
    let parts = parts.collect::<anyhow::Result<_>>()?;
    remote.seal()?;
    Ok(Objects {
        parts,
        #[cfg(feature = "triage")]
        cost: Cost(remote),
    })
}

/// The name of an object as a location.
///
/// # Errors
///
/// It is none.
fn location(path: &Path) -> anyhow::Result<Location> {
    let name = path.to_str();
    let name = name.with_context(|| format!("{}: its name is not UTF-8", path.display()))?;
    Ok(name.parse()?)
}

/// All objects whose keys begin as that of `prefix`.
///
/// # Errors
///
/// The bucket cannot be listed.
#[cfg(any(feature = "triage", feature = "retention"))]
fn list(remote: &Remote, prefix: &Location) -> anyhow::Result<Vec<Listed>> {
    let (mut found, mut next) = (Vec::new(), None);
    loop {
        let Page {
            objects,
            next: more,
        } = remote.list(prefix, next.take())?;
        found.extend(objects);
        match more {
            Some(more) => next = Some(more),
            None => return Ok(found),
        }
    }
}
