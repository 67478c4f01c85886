//! The journal: rows in the order in which they were made, before they become a table.
//!
//! A row is a line of JSON, appended by one write. A run that was killed leaves the journal
//! behind, and the next goes on with it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::FleetError;
use crate::find::Found;
use crate::row::Row;

/// Mode of the files: their contents are those of dumps.
pub const PRIVATE: u32 = 0o600;

/// A journal, and where in it the row of each path is. Only this grows with the number of rows.
pub struct Journal {
    file: File,
    path: PathBuf,
    end: u64,
    rows: BTreeMap<String, Entry>,
}

/// Where a row is, and what it was made of.
#[derive(Clone, Copy)]
struct Entry {
    offset: u64,
    len: usize,
    bytes: i64,
    modified: i64,
    has_failed: bool,
}

impl Journal {
    /// Opens the journal at `path`, or makes it. What another run left unfinished in its last
    /// line is removed.
    ///
    /// # Errors
    ///
    /// It cannot be used, or another run uses it.
    pub fn open(path: &Path) -> Result<Self, FleetError> {
        let error = |action| FleetError::io(path, action);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.mode(PRIVATE);
        let file = options.open(path).map_err(error("open it"))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| FleetError::Busy {
            path: path.to_owned(),
            reason: "another run writes this part of the table; wait for it, or give --shard"
                .into(),
        })?;
        let mut journal = Self {
            file,
            path: path.to_owned(),
            end: 0,
            rows: BTreeMap::new(),
        };
        journal.load().map_err(error("read it"))?;
        Ok(journal)
    }

    fn load(&mut self) -> io::Result<()> {
        let mut lines = BufReader::new(self.file.try_clone()?);
        let mut line = Vec::new();
        loop {
            line.clear();
            let len = lines.read_until(b'\n', &mut line)?;
            let Some(row) = line
                .strip_suffix(b"\n")
                .and_then(|row| serde_json::from_slice(row).ok())
            else {
                break;
            };
            self.enter(&row, len);
        }
        self.file.set_len(self.end)?;
        self.file.seek(SeekFrom::Start(self.end))?;
        Ok(())
    }

    fn enter(&mut self, row: &Row, len: usize) {
        let entry = Entry {
            offset: self.end,
            len,
            bytes: row.bytes,
            modified: row.modified,
            has_failed: row.has_failed(),
        };
        self.rows.insert(row.path.clone(), entry);
        self.end += len as u64;
    }

    /// Adds a row, in the place of an older one of the same path.
    pub fn add(&mut self, row: &Row) -> Result<(), FleetError> {
        let write = || {
            let mut line = serde_json::to_vec(row)?;
            line.push(b'\n');
            (&self.file).write_all(&line)?;
            Ok(line.len())
        };
        let len = write().map_err(FleetError::io(&self.path, "write it"))?;
        self.enter(row, len);
        Ok(())
    }

    /// Returns true if it has a row of this path.
    pub fn has(&self, path: &str) -> bool {
        self.rows.contains_key(path)
    }

    /// Returns true if the row of these files is there, and they have not changed since; with
    /// `retry` only if they could be read.
    pub fn is_done(&self, found: &Found, retry: bool) -> bool {
        self.rows.get(&found.path).is_some_and(|entry| {
            let is_same = (entry.bytes, entry.modified) == (found.bytes, found.modified);
            is_same && !(retry && entry.has_failed)
        })
    }

    /// Passes all rows to `each`, by path.
    pub fn for_each(
        &self,
        each: &mut dyn FnMut(Row) -> Result<(), FleetError>,
    ) -> Result<(), FleetError> {
        let error = || FleetError::io(&self.path, "read it");
        for entry in self.rows.values() {
            let mut line = vec![0; entry.len];
            self.file
                .read_exact_at(&mut line, entry.offset)
                .map_err(error())?;
            let row = serde_json::from_slice(&line).map_err(io::Error::from);
            each(row.map_err(error())?)?;
        }
        Ok(())
    }

    /// The number of rows, and of those that failed.
    pub fn counts(&self) -> (usize, usize) {
        let failed = self.rows.values().filter(|entry| entry.has_failed);
        (self.rows.len(), failed.count())
    }

    /// Removes it, when its rows are in the table.
    pub fn remove(self) -> Result<(), FleetError> {
        fs::remove_file(&self.path).map_err(FleetError::io(&self.path, "remove it"))
    }
}
