//! The directory of saved dumps: their numbers, names and records.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bigiron_format::device::DumpId;
use bigiron_helpers::Stop;
use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

use crate::error::DumpError;

/// File names that carry a number.
const STEMS: [&str; 5] = ["vmdump", "vmcore", "dmesg", "info", "unix"];
/// Delay between two attempts to lock.
const LOCK_WAIT: Duration = Duration::from_millis(50);
/// Maximum size of a record; longer files are not records.
const MAX_RECORD: u64 = 64 << 10;
/// Numbers tried when other processes take them concurrently.
const ATTEMPTS: u64 = 10_000;

/// The directory of saved dumps.
pub struct Directory {
    root: PathBuf,
}

/// A copy that has no number yet, with its lock.
pub struct Temporary {
    file: File,
    path: PathBuf,
}

/// The contents of `info.N`.
#[derive(Clone, Debug)]
pub struct Record {
    pub id: DumpId,
    pub number: u64,
    /// The name of the dump's file before its number.
    pub stem: String,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// The reason why the dump is incomplete.
    pub damage: Option<String>,
    /// More names and values, informational.
    pub about: Vec<(&'static str, String)>,
}

/// Parses the number after a name's dot, in the form in which this program writes it.
pub fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
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
        Ok(Self {
            root: root.to_owned(),
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of `STEM.N`.
    pub fn path(&self, stem: &str, number: u64) -> PathBuf {
        self.root.join(format!("{stem}.{number}"))
    }

    /// Creates the file for the copy of a dump, or takes over the one of a killed run. Waits
    /// while another run writes it.
    pub fn lock_temporary(
        &self,
        stem: &str,
        id: DumpId,
        stop: &Stop,
    ) -> Result<Temporary, DumpError> {
        let path = self.root.join(format!("{stem}.{id}.incomplete"));
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(&path)
                .map_err(|error| failed(&path, "make it", error))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP) => {}
                Err(Errno::WOULDBLOCK) => {
                    if stop.is_set() {
                        return Err(DumpError::Interrupted { kept: None });
                    }
                    thread::sleep(LOCK_WAIT);
                    continue;
                }
                Err(error) => return Err(failed(&path, "lock it", error.into())),
            }
            // The previous owner may have renamed or removed it.
            let inode = |metadata: io::Result<fs::Metadata>| metadata.map(|m| m.ino()).ok();
            if inode(file.metadata()) != inode(fs::symlink_metadata(&path)) {
                continue;
            }
            file.set_len(0)
                .map_err(|error| failed(&path, "empty it", error))?;
            return Ok(Temporary { file, path });
        }
    }

    /// Returns the record of the dump `id` saved as `stem`: the first one whose dump exists,
    /// else the first one.
    pub fn find(&self, id: DumpId, stem: &str) -> Result<Option<Record>, DumpError> {
        let mut found: Option<Record> = None;
        for number in self.numbers("info")? {
            let Some(record) = self.read(number) else {
                continue;
            };
            if record.id != id || record.stem != stem {
                continue;
            }
            if record.is_whole(self) {
                return Ok(Some(record));
            }
            found = found.or(Some(record));
        }
        Ok(found)
    }

    /// Names a finished copy with the next number, or with `own`, the number of its record from
    /// an earlier run.
    pub fn name(
        &self,
        copy: &Temporary,
        mut record: Record,
        own: Option<u64>,
    ) -> Result<u64, DumpError> {
        if let Some(number) = own {
            record.number = number;
            self.name_as(copy, &record.stem, number)?;
            return Ok(number);
        }
        let all = STEMS.iter().map(|stem| self.numbers(stem));
        let used = all.collect::<Result<Vec<_>, _>>()?;
        let last = used.into_iter().flatten().max();
        let first = last.map_or(0, |last| last.saturating_add(1));
        for number in first..first.saturating_add(ATTEMPTS) {
            record.number = number;
            if self.write(&record)? {
                self.name_as(copy, &record.stem, number)?;
                return Ok(number);
            }
        }
        let exists = io::ErrorKind::AlreadyExists.into();
        Err(failed(&self.root, "find a free number", exists))
    }

    /// Names a copy `STEM.NUMBER`, permanently.
    pub fn name_as(&self, copy: &Temporary, stem: &str, number: u64) -> Result<(), DumpError> {
        let path = self.path(stem, number);
        rename_new(&copy.path, &path).map_err(|error| failed(&path, "make it", error))?;
        self.sync()
    }

    /// Writes a record unless its number is taken; returns true if it was written.
    fn write(&self, record: &Record) -> Result<bool, DumpError> {
        let path = self.path("info", record.number);
        let temporary = self.root.join(format!("info.{}.incomplete", record.id));
        let error = |error| failed(&temporary, "write it", error);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&temporary)
            .map_err(error)?;
        file.write_all(record.text().as_bytes()).map_err(error)?;
        file.sync_all().map_err(error)?;
        let named = rename_new(&temporary, &path);
        match named {
            Ok(()) => {
                self.sync()?;
                Ok(true)
            }
            Err(error) => {
                // A leftover file is harmless.
                let _ = fs::remove_file(&temporary);
                match error.kind() {
                    io::ErrorKind::AlreadyExists => Ok(false),
                    _ => Err(failed(&path, "make it", error)),
                }
            }
        }
    }

    fn read(&self, number: u64) -> Option<Record> {
        let mut text = String::new();
        let file = File::open(self.path("info", number)).ok()?;
        file.take(MAX_RECORD).read_to_string(&mut text).ok()?;
        let value = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        Some(Record {
            id: parse_id(value("dump")?)?,
            number,
            stem: value("file")?.split_once('.')?.0.to_owned(),
            bytes: value("bytes")?.parse().ok()?,
            damage: value("incomplete").map(ToOwned::to_owned),
            about: Vec::new(),
        })
    }

    /// The numbers of the files named `STEM.N`.
    fn numbers(&self, stem: &str) -> Result<Vec<u64>, DumpError> {
        let error = |error| failed(&self.root, "list it", error);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(error)? {
            let name = entry.map_err(error)?.file_name();
            let end = name.to_str().and_then(|name| name.strip_prefix(stem));
            let found = end.and_then(|end| end.strip_prefix('.')).and_then(number);
            numbers.extend(found);
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Makes the names durable.
    fn sync(&self) -> Result<(), DumpError> {
        let synced = File::open(&self.root).and_then(|root| root.sync_all());
        synced.map_err(|error| failed(&self.root, "make its names durable", error))
    }
}

impl Temporary {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Duplicates the open file, for a caller that closes it.
    pub fn file(&self) -> Result<File, DumpError> {
        self.file
            .try_clone()
            .map_err(|error| failed(&self.path, "use it", error))
    }

    /// Size in bytes.
    pub fn len(&self) -> Result<u64, DumpError> {
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(|error| failed(&self.path, "look at it", error))?;
        Ok(metadata.len())
    }

    /// Makes the contents durable.
    pub fn sync(&self) -> Result<(), DumpError> {
        self.file
            .sync_all()
            .map_err(|error| failed(&self.path, "make it durable", error))
    }

    /// Removes the copy.
    pub fn discard(&self) {
        // A leftover file is harmless; the next run takes it over.
        let _ = fs::remove_file(&self.path);
    }
}

impl Record {
    /// Returns true if the dump of this record exists with its full size.
    pub fn is_whole(&self, directory: &Directory) -> bool {
        let file = fs::symlink_metadata(directory.path(&self.stem, self.number));
        file.is_ok_and(|file| file.is_file() && file.len() == self.bytes)
    }

    fn text(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut lines = vec![
            ("dump", self.id.to_string()),
            ("file", format!("{}.{}", self.stem, self.number)),
            ("bytes", self.bytes.to_string()),
        ];
        lines.extend(self.damage.clone().map(|why| ("incomplete", why)));
        lines.extend(self.about.iter().cloned());
        lines.push(("saved", now.unwrap_or_default().as_secs().to_string()));
        let lines = lines.iter().map(|(name, value)| {
            let value = value.replace(|c: char| c.is_control(), " ");
            format!("{name}: {value}\n")
        });
        lines.collect()
    }
}

fn parse_id(text: &str) -> Option<DumpId> {
    let number = u128::from_str_radix(text, 16).ok()?;
    (text.len() == 32).then(|| DumpId(number.to_be_bytes()))
}

fn failed(path: &Path, action: &'static str, source: io::Error) -> DumpError {
    DumpError::output(path, action, "")(source)
}

/// Renames atomically, without replacing a file that appeared meanwhile.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not all file systems support this, for example NFS; most have hard links.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        result => return Ok(result?),
    }
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // FAT has neither. An empty file reserves the name until it is replaced.
        Err(_) => {
            OpenOptions::new().write(true).create_new(true).open(to)?;
            fs::rename(from, to)
        }
    }
}
