//! The directory of saved dumps: their numbers, names and records.

use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use bigiron_format::device::DumpId;
use bigiron_helpers::Stop;
use rustix::fs::StatVfs;

use super::record::Record;
use super::temporary::{Temporary, failed};
use crate::error::DumpError;
use crate::output::{Entry, OutputDirectory};

/// File names that carry a number.
const STEMS: [&str; 6] = ["vmdump", "vmcore", "dmesg", "info", "report", "unix"];
/// The highest number of a dump; files with higher ones are not counted.
const MAX_NUMBER: u64 = u32::MAX as u64;
/// Numbers tried when other processes take them concurrently.
const ATTEMPTS: usize = 10_000;

/// The directory of saved dumps.
pub struct Directory {
    files: OutputDirectory,
}

/// Parses the number after a name's dot, in the form in which this program writes it.
pub fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text && number <= MAX_NUMBER).then_some(number)
}

impl Directory {
    /// Opens the directory, or creates it if its parent exists.
    pub fn open(root: &Path) -> Result<Self, DumpError> {
        let made = fs::DirBuilder::new().mode(0o700).create(root);
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(root, "make the directory", error));
            }
            _ => {}
        }
        let files = OutputDirectory::open(root);
        Ok(Self {
            files: files.map_err(|error| failed(root, "open the directory", error))?,
        })
    }

    pub fn root(&self) -> &Path {
        self.files.path()
    }

    /// Warnings for the user about the directory and the files in it.
    pub fn warnings(&self) -> Vec<String> {
        self.files.warnings()
    }

    /// The path of `STEM.N`.
    pub fn path(&self, stem: &str, number: u64) -> PathBuf {
        self.root().join(name(stem, number))
    }

    /// Size and free space of the file system.
    pub fn space(&self) -> io::Result<StatVfs> {
        self.files.space()
    }

    /// Creates the file for the copy of a dump, or takes over the one of a killed run. Waits
    /// while another run writes it.
    pub fn lock_temporary(
        &self,
        stem: &str,
        id: DumpId,
        stop: &Stop,
    ) -> Result<Temporary<'_>, DumpError> {
        Temporary::lock(&self.files, &format!("{stem}.{id}"), stop)
    }

    /// Creates the file that becomes `STEM.N`, or takes over the one of a killed run. Waits while
    /// another run writes it.
    pub fn lock_numbered(
        &self,
        stem: &str,
        number: u64,
        stop: &Stop,
    ) -> Result<Temporary<'_>, DumpError> {
        Temporary::lock(&self.files, &name(stem, number), stop)
    }

    /// Looks `STEM.N` up.
    pub fn look(&self, stem: &str, number: u64) -> Entry<Metadata> {
        self.files.look(name(stem, number).as_ref())
    }

    /// Removes `STEM.N`.
    pub fn remove(&self, stem: &str, number: u64) -> io::Result<()> {
        self.files.remove(name(stem, number).as_ref())
    }

    /// Size of `STEM.N` in bytes, if it is there and belongs to this user or to root.
    pub fn size_of(&self, stem: &str, number: u64) -> Option<u64> {
        self.look(stem, number)
            .trusted()
            .map(|metadata| metadata.len())
    }

    /// The reason why `STEM.N` is not used, if it is there and does not belong to this user or to
    /// root.
    pub fn distrust_of(&self, stem: &str, number: u64) -> Option<String> {
        match self.look(stem, number) {
            Entry::Distrusted(reason) => Some(reason),
            Entry::Absent | Entry::Trusted(_) => None,
        }
    }

    /// Returns the record of the dump `id` saved as `stem`: the first one whose dump exists,
    /// else the first one. Others' files are left out, with a warning.
    pub fn find(&self, id: DumpId, stem: &str) -> Result<Option<Record>, DumpError> {
        let mut found: Option<Record> = None;
        let mut ignored: Option<(u64, String)> = None;
        let mut more = 0_u64;
        for number in self.numbers(&["info"])? {
            let record = match self
                .files
                .read(name("info", number).as_ref(), Record::MAX_BYTES)
            {
                Entry::Trusted(text) => Record::parse(&text, number),
                Entry::Absent => None,
                Entry::Distrusted(reason) => {
                    more += u64::from(ignored.is_some());
                    ignored = ignored.or(Some((number, reason)));
                    None
                }
            };
            let Some(record) = record.filter(|record| record.id == id && record.stem == stem)
            else {
                continue;
            };
            if self.has_whole(&record) {
                return Ok(Some(record));
            }
            found = found.or(Some(record));
        }
        if let Some((number, reason)) = ignored {
            let path = self.path("info", number);
            let others = match more {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            self.files.warn(format!(
                "{}: {reason}; it is ignored{others}",
                path.display()
            ));
        }
        Ok(found)
    }

    /// Returns true if the dump of this record exists with its full size.
    pub fn has_whole(&self, record: &Record) -> bool {
        self.size_of(&record.stem, record.number) == Some(record.bytes)
    }

    /// Names a finished copy with the next number, or with `own`, the number of its record from
    /// an earlier run.
    pub fn name(
        &self,
        copy: &Temporary,
        mut record: Record,
        own: Option<u64>,
    ) -> Result<u64, DumpError> {
        // Another user may have taken the name since.
        let own = own.filter(|number| self.distrust_of(&record.stem, *number).is_none());
        if let Some(number) = own {
            self.name_as(copy, &record.stem, number)?;
            return Ok(number);
        }
        let used = self.numbers(&STEMS)?;
        for number in unused(&used).take(ATTEMPTS) {
            record.number = number;
            if !self.write(&record)? {
                continue;
            }
            match copy.rename(&name(&record.stem, number)) {
                Ok(()) => {
                    self.sync()?;
                    return Ok(number);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // The name was taken after the names were listed. A record without a dump
                    // is harmless.
                    let _ = self.remove("info", number);
                }
                Err(error) => {
                    return Err(failed(&self.path(&record.stem, number), "make it", error));
                }
            }
        }
        let exists = io::ErrorKind::AlreadyExists.into();
        Err(failed(self.root(), "find a free number", exists))
    }

    /// Names a file `STEM.NUMBER`, permanently.
    pub fn name_as(&self, copy: &Temporary, stem: &str, number: u64) -> Result<(), DumpError> {
        copy.rename(&name(stem, number))
            .map_err(|error| failed(&self.path(stem, number), "make it", error))?;
        self.sync()
    }

    /// Writes a record unless its number is taken; returns true if it was written.
    fn write(&self, record: &Record) -> Result<bool, DumpError> {
        let path = self.path("info", record.number);
        let error = |error| failed(&path, "write it", error);
        // The lock of the copy is that of its record, too.
        let base = format!("info.{}", record.id);
        let (mut file, temporary) = self.files.take_temporary(base.as_ref()).map_err(error)?;
        file.set_len(0).map_err(error)?;
        file.write_all(record.text().as_bytes()).map_err(error)?;
        file.sync_all().map_err(error)?;
        let to = name("info", record.number);
        match self.files.rename(&file, &temporary, to.as_ref(), false) {
            Ok(()) => {
                self.sync()?;
                Ok(true)
            }
            Err(error) => {
                // A leftover file is harmless.
                let _ = self.files.remove(&temporary);
                match error.kind() {
                    io::ErrorKind::AlreadyExists => Ok(false),
                    _ => Err(failed(&path, "make it", error)),
                }
            }
        }
    }

    /// Reads a small text file; anything else of that name is left out, with a warning.
    pub fn read(&self, name: &str, max: u64) -> Option<String> {
        match self.files.read(name.as_ref(), max) {
            Entry::Trusted(text) => Some(text),
            Entry::Absent => None,
            Entry::Distrusted(reason) => {
                let path = self.root().join(name);
                self.files
                    .warn(format!("{}: {reason}; it is ignored", path.display()));
                None
            }
        }
    }

    /// The numbers of the files named `STEM.N`, in ascending order.
    pub fn numbers(&self, stems: &[&str]) -> Result<Vec<u64>, DumpError> {
        let mut numbers = Vec::new();
        let listed = self.files.for_each_name(|name| {
            let parts = name.to_str().and_then(|name| name.split_once('.'));
            let found = parts.filter(|(stem, _)| stems.contains(stem));
            numbers.extend(found.and_then(|(_, end)| number(end)));
        });
        listed.map_err(|error| failed(self.root(), "list it", error))?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Writes the directory to the disk, so that its names are durable.
    pub fn sync(&self) -> Result<(), DumpError> {
        let synced = self.files.sync();
        synced.map_err(|error| failed(self.root(), "make its names durable", error))
    }
}

fn name(stem: &str, number: u64) -> String {
    format!("{stem}.{number}")
}

/// Returns the numbers that follow the last of `used`, which are sorted; then those between them,
/// since any user may have taken the highest.
fn unused(used: &[u64]) -> impl Iterator<Item = u64> {
    let first = used.last().map_or(0, |last| last.saturating_add(1));
    let between = (0..first).filter(|number| used.binary_search(number).is_err());
    (first..=MAX_NUMBER).chain(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form_and_a_maximum() {
        assert_eq!(number("0"), Some(0));
        assert_eq!(number("4294967295"), Some(MAX_NUMBER));
        for text in [
            "",
            "007",
            "-1",
            "+1",
            "4294967296",
            "18446744073709551615",
            "1.incomplete",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn unused_numbers_follow_the_last_and_then_fill_gaps() {
        let first = |used: &[u64]| unused(used).take(3).collect::<Vec<_>>();
        assert_eq!(first(&[]), [0, 1, 2]);
        assert_eq!(first(&[0, 0, 3]), [4, 5, 6]);
        assert_eq!(first(&[1, MAX_NUMBER]), [0, 2, 3]);
        assert_eq!(first(&[0, MAX_NUMBER - 1]), [MAX_NUMBER, 1, 2]);
    }
}
