//! Takers of streams: a dump goes to a place of the caller's, such as an upload.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Takes the bytes of a dump in order.
///
/// One that is dropped before its end keeps what it has for another process, as far as it can.
pub trait Taker: Send + Sync {
    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// They, or earlier ones, were not taken.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the dump durable under its name.
    ///
    /// # Errors
    /// It does not have its name.
    fn finish(&self) -> io::Result<()>;

    /// Keeps what was appended, without its name; nothing is appended any more.
    ///
    /// # Errors
    /// It is not kept.
    fn leave(&self) -> io::Result<()>;

    /// Where what was appended is after [`Taker::leave`], for messages.
    fn left(&self) -> Option<PathBuf>;

    /// Removes what was appended.
    fn discard(&self);
}

/// Begins the stream.
type Begin = dyn Fn() -> io::Result<Box<dyn Taker>> + Send + Sync;

/// A taker that is begun when a dump is written to it.
#[derive(Clone)]
pub struct NamedTaker {
    name: PathBuf,
    begin: Arc<Begin>,
}

impl NamedTaker {
    /// Takes streams by `begin`; messages name it `name`.
    pub fn new(
        name: PathBuf,
        begin: impl Fn() -> io::Result<Box<dyn Taker>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            begin: Arc::new(begin),
        }
    }

    /// Name in messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Begins a stream.
    pub(crate) fn begin(&self) -> io::Result<Box<dyn Taker>> {
        (self.begin)()
    }
}

impl fmt::Debug for NamedTaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedTaker").field(&self.name).finish()
    }
}

impl PartialEq for NamedTaker {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for NamedTaker {}
