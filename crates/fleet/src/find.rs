//! Finds dumps and logs.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::error::FleetError;

/// Bytes by which a text is told from a dump.
pub const FRONT: usize = 4096;
/// One byte of this many may be a control character in a text: consoles write zeros when a
/// machine restarts. Compressed data has more.
const TEXT_CONTROLS: usize = 16;
/// The first line of an encrypted dump, which is text.
const ENCRYPTED: &[u8] = b"age-encryption.org/";
/// Maximum length of a line of a list: several paths.
const MAX_LINE: u64 = 64 << 10;
/// Maximum depth of directories.
const MAX_DEPTH: usize = 64;

/// A dump or log that is to be described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it lies: a file, or several files of one dump separated by commas.
    pub path: String,
    /// Size of all its files; 0 if there is none.
    pub bytes: i64,
    /// Last change of its files: milliseconds since 1970.
    pub modified: i64,
}

/// Files that were found by path, and what was left out.
#[derive(Debug, Default)]
struct Files {
    by_path: BTreeMap<String, Found>,
    warnings: Vec<String>,
}

/// Finds the dumps and logs in `sources`: files, several files of one dump separated by commas,
/// and directories, whose files are searched at any depth. They are sorted by path. Returns
/// warnings as well: what cannot be read.
///
/// Of a directory these are left out: empty files, names that begin with a full stop, links,
/// tables of this program, and a copy of the kernel's log (`dmesg` in its name) beside a dump,
/// which has the log itself.
pub fn find(sources: &[PathBuf]) -> (Vec<Found>, Vec<String>) {
    let mut files = Files::default();
    for source in sources {
        match source.to_str() {
            Some(_) if source.is_dir() => files.enter(source, 0),
            Some(path) => files.add(path),
            None => files.warn(source, &"its name is not UTF-8; rename it"),
        }
    }
    (files.by_path.into_values().collect(), files.warnings)
}

/// Reads a list of sources: one in a line.
///
/// # Errors
///
/// The list cannot be read, is not UTF-8, or has a line of more than 64 KiB.
pub fn read_list(list: &mut dyn BufRead, name: &Path) -> Result<Vec<PathBuf>, FleetError> {
    let mut sources = Vec::new();
    loop {
        let mut line = String::new();
        let read = Read::take(&mut *list, MAX_LINE).read_line(&mut line);
        let read = read.map_err(FleetError::io(name, "read the list"))?;
        if read as u64 == MAX_LINE {
            return Err(FleetError::NotATable {
                path: name.to_owned(),
                reason: "has a line of 64 KiB or more; expected a list with one path in a line"
                    .into(),
            });
        }
        match line.trim_end_matches(['\n', '\r']) {
            "" if read == 0 => return Ok(sources),
            "" => {}
            path => sources.push(path.into()),
        }
    }
}

/// Returns true if the first bytes of a file, of which [`FRONT`] suffice, are those of a text.
pub fn is_text(front: &[u8]) -> bool {
    let is_control = |byte: &&u8| match **byte {
        b'\t' | b'\n' | b'\r' | 0x08 | 0x1b => false,
        byte => byte.is_ascii_control(),
    };
    let controls = front.iter().filter(is_control).count();
    let has_few = controls <= front.len() / TEXT_CONTROLS;
    !front.is_empty() && has_few && !front.starts_with(ENCRYPTED)
}

impl Files {
    /// Adds a file, or several of one dump. What cannot be opened has its own row later.
    fn add(&mut self, path: &str) {
        let parts = match Path::new(path).exists() {
            true => vec![path],
            false => path.split(',').collect(),
        };
        let (mut bytes, mut modified) = (0_i64, 0);
        for metadata in parts.iter().filter_map(|part| fs::metadata(part).ok()) {
            bytes = bytes.saturating_add(i64::try_from(metadata.len()).unwrap_or(i64::MAX));
            modified = modified.max(modified_of(&metadata));
        }
        self.insert(path, bytes, modified);
    }

    fn insert(&mut self, path: &str, bytes: i64, modified: i64) {
        let found = Found {
            path: path.to_owned(),
            bytes,
            modified,
        };
        self.by_path.insert(path.to_owned(), found);
    }

    fn enter(&mut self, directory: &Path, depth: usize) {
        if depth == MAX_DEPTH {
            return self.warn(directory, &"is too deep, and left out");
        }
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return self.warn(directory, &format!("cannot read it: {error}")),
        };
        let (mut copies, mut has_dump) = (Vec::new(), false);
        for entry in entries {
            let found =
                entry.and_then(|entry| Ok((entry.path(), entry.file_name(), entry.metadata()?)));
            let (path, name, metadata) = match found {
                Ok(found) => found,
                Err(error) => {
                    self.warn(directory, &format!("an entry cannot be read: {error}"));
                    continue;
                }
            };
            let Some(name) = name.to_str().filter(|_| path.to_str().is_some()) else {
                self.warn(&path, &"its name is not UTF-8; rename it");
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            if metadata.is_dir() {
                self.enter(&path, depth + 1);
            } else if metadata.is_file() && metadata.len() > 0 && !is_table(name) {
                let is_dump = front_of(&path).is_ok_and(|front| !is_text(&front));
                has_dump |= is_dump;
                if !is_dump && name.contains("dmesg") {
                    copies.push((path, metadata));
                } else {
                    self.insert_file(&path, &metadata);
                }
            }
        }
        if !has_dump {
            for (path, metadata) in copies {
                self.insert_file(&path, &metadata);
            }
        }
    }

    fn insert_file(&mut self, path: &Path, metadata: &Metadata) {
        let bytes = i64::try_from(metadata.len()).unwrap_or(i64::MAX);
        if let Some(path) = path.to_str() {
            self.insert(path, bytes, modified_of(metadata));
        }
    }

    fn warn(&mut self, path: &Path, reason: &dyn std::fmt::Display) {
        self.warnings.push(format!("{}: {reason}", path.display()));
    }
}

/// A table, the journal of one, or one that is being written.
pub(crate) fn is_table(name: &str) -> bool {
    let ends = [".parquet", ".parquet.rows", ".parquet.rows.new"];
    ends.iter().any(|end| name.ends_with(end))
}

fn front_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut front = Vec::with_capacity(FRONT);
    File::open(path)?
        .take(FRONT as u64)
        .read_to_end(&mut front)?;
    Ok(front)
}

fn modified_of(metadata: &Metadata) -> i64 {
    let since = metadata.modified().ok();
    let since = since.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let (found, warnings) = find(&[directory.to_owned()]);
        assert_eq!(warnings, Vec::<String>::new());
        let prefix = format!("{}/", directory.display());
        found
            .iter()
            .map(|found| found.path.replace(&prefix, ""))
            .collect()
    }

    #[test]
    fn directories_are_searched_and_copies_of_the_log_left_out() {
        let directory = tempfile::tempdir().unwrap();
        for (name, bytes) in [
            ("b/vmcore", &[0; 100][..]),
            ("b/vmcore-dmesg.txt", b"a log"),
            ("a/vmcore-dmesg.txt", b"a log alone"),
            ("a/console.txt", b"another"),
            ("a/empty", b""),
            (".hidden", b"x"),
            ("crashes-00000-of-00001.parquet", b"PAR1"),
        ] {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        std::os::unix::fs::symlink("b", directory.path().join("link")).unwrap();
        assert_eq!(
            names(directory.path()),
            ["a/console.txt", "a/vmcore-dmesg.txt", "b/vmcore"]
        );
    }

    #[test]
    fn sources_are_files_parts_and_what_does_not_exist() {
        let directory = tempfile::tempdir().unwrap();
        let name = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        fs::write(name("1"), [0; 10]).unwrap();
        fs::write(name("2"), [0; 20]).unwrap();
        let parts = format!("{},{}", name("1"), name("2"));
        let (found, _) = find(&[parts.clone().into(), name("none").into(), name("1").into()]);
        let sizes: Vec<_> = found
            .iter()
            .map(|found| (found.path.clone(), found.bytes))
            .collect();
        assert_eq!(sizes, [(name("1"), 10), (parts, 30), (name("none"), 0)]);
    }

    #[test]
    fn lists_have_a_path_in_each_line() {
        let list = |text: &str| read_list(&mut text.as_bytes(), Path::new("list"));
        assert_eq!(
            list("a\n\nb c\r\nd").unwrap(),
            ["a", "b c", "d"].map(PathBuf::from)
        );
        assert!(list(&"x".repeat(70_000)).is_err());
    }

    #[test]
    fn texts_may_have_a_few_control_characters() {
        assert!(is_text(
            b"a console\0\0\0 whose machine restarted, and went on for long enough"
        ));
        assert!(!is_text(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"));
        let compressed: Vec<u8> = (0..=255).collect();
        assert!(!is_text(&compressed));
        assert!(!is_text(b"") && !is_text(b"age-encryption.org/v1\n"));
    }
}
