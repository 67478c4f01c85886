//! Names of files that are not complete yet.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::iter;

use super::{Entry, OutputDirectory};
use crate::dump_id::new_dump_id;

/// Temporary names that are tried before a random one.
const MAX_NAMES: u32 = 1000;
/// Attempts at a name that other runs create and remove at the same time.
const ATTEMPTS: u32 = 100;

impl OutputDirectory {
    /// Creates `NAME.incomplete`; if there is something of that name, `NAME.incomplete.1`, and
    /// so on. Returns the file and its name.
    pub fn create_temporary(&self, name: &OsStr) -> io::Result<(File, OsString)> {
        self.first_of(name, |name| match self.create_new(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            result => result.map(Some),
        })
    }

    /// Creates `NAME.incomplete`, or opens the one that a killed run left or another run is
    /// writing: a file that nobody else can have opened. If anything else has that name, it
    /// stays, with a warning, and `NAME.incomplete.1` is taken, and so on. Returns the file and
    /// its name.
    pub fn take_temporary(&self, name: &OsStr) -> io::Result<(File, OsString)> {
        let mut has_warned = false;
        self.first_of(name, |name| match self.create_or_open(name)? {
            Entry::Trusted(file) => Ok(Some(file)),
            Entry::Absent => Ok(None),
            Entry::Distrusted(reason) => {
                if !has_warned {
                    let path = self.path().join(name);
                    self.warn(format!(
                        "{}: {reason}; it stays, and another name is used",
                        path.display()
                    ));
                    has_warned = true;
                }
                Ok(None)
            }
        })
    }

    /// Calls `attempt` with the temporary names of `name` until it returns a file.
    fn first_of(
        &self,
        name: &OsStr,
        mut attempt: impl FnMut(&OsStr) -> io::Result<Option<File>>,
    ) -> io::Result<(File, OsString)> {
        if name.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let with = |end: String| {
            let mut temporary = name.to_owned();
            temporary.push(".incomplete");
            temporary.push(end);
            temporary
        };
        let numbered = (0..MAX_NAMES).map(|number| match number {
            0 => String::new(),
            number => format!(".{number}"),
        });
        // Other users may have taken all of those, but do not know this one.
        let random = iter::once_with(|| format!(".{}", new_dump_id()));
        for temporary in numbered.chain(random).map(with) {
            if let Some(file) = attempt(&temporary)? {
                return Ok((file, temporary));
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn create_or_open(&self, name: &OsStr) -> io::Result<Entry<File>> {
        for _ in 0..ATTEMPTS {
            match self.create_new(name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => return result.map(Entry::Trusted),
            }
            match self.open_private(name) {
                // Another run has just removed or renamed it.
                Entry::Absent => {}
                found => return Ok(found),
            }
        }
        Ok(Entry::Absent)
    }
}
