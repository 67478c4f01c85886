//! Removes older dumps from a directory of saved dumps. Their logs and records stay.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::choice::{Choice, Fate, Retention};
use super::directory::Directory;
use crate::error::DumpError;

/// Files with the pages of a dump.
const DUMPS: [&str; 2] = ["vmdump", "vmcore"];
/// Size of the units in which a file's room is counted, whatever the file system's.
const BLOCK: u64 = 512;

/// What was removed.
#[derive(Clone, Debug, Default)]
pub struct Removed {
    /// The files.
    pub files: Vec<PathBuf>,
    /// Dumps that stay only because they are the first of their crash.
    pub firsts: Vec<PathBuf>,
    /// The room that the removed files took, in bytes.
    pub bytes: u64,
    /// What could not be removed, and files that were left alone.
    pub warnings: Vec<String>,
}

/// The files of a dump that has a number.
struct SavedDump {
    number: u64,
    /// The file that is described, if there are two.
    stem: &'static str,
    /// When the last of them was written.
    time: Duration,
    bytes: u64,
}

impl Retention {
    /// Removes dumps in `root` until the others are within the limits, as [`Self::choose`] says;
    /// the one with the number `saved` is the newest. Files of other users, links and directories
    /// are not counted and not touched.
    ///
    /// `fingerprint` names the crash of the dump in a file.
    ///
    /// # Errors
    /// The directory cannot be read, or `fingerprint` fails; nothing is removed then. A file that
    /// cannot be removed is a warning.
    pub fn apply(
        self,
        root: &Path,
        saved: Option<u64>,
        mut fingerprint: impl FnMut(&Path) -> Result<Option<String>, DumpError>,
    ) -> Result<Removed, DumpError> {
        let directory = Directory::open(root)?;
        let mut dumps = find(&directory)?;
        // The newest first; numbers begin again when the highest is in use.
        dumps.sort_by_key(|dump| {
            std::cmp::Reverse((Some(dump.number) == saved, dump.time, dump.number))
        });
        let sizes: Vec<_> = dumps.iter().map(|dump| dump.bytes).collect();
        let path = |dump: &SavedDump| directory.path(dump.stem, dump.number);
        let Choice { fates, bytes } = self.choose(&sizes, |place| match dumps.get(place) {
            Some(dump) => fingerprint(&path(dump)),
            None => Ok(None),
        })?;
        let mut removed = Removed::default();
        for (dump, fate) in dumps.iter().zip(fates) {
            match fate {
                Fate::Stays => {}
                Fate::StaysAsFirst => removed.firsts.push(path(dump)),
                Fate::Goes => removed.remove(&directory, dump),
            }
        }
        if let Some(most) = self.bytes.filter(|most| bytes > *most) {
            removed.warnings.push(format!(
                "{}: the newest dump alone takes {bytes} bytes, more than the {most} allowed",
                root.display()
            ));
        }
        if !removed.files.is_empty() {
            directory.sync()?;
        }
        removed.warnings.extend(directory.warnings());
        Ok(removed)
    }
}

/// Finds the dumps of this user and of root.
fn find(directory: &Directory) -> Result<Vec<SavedDump>, DumpError> {
    let mut numbers = directory.numbers(&DUMPS)?;
    numbers.dedup();
    let dumps = numbers.into_iter().filter_map(|number| {
        let look = |stem| Some((stem, directory.look(stem, number).trusted()?));
        let (stems, files): (Vec<_>, Vec<_>) = DUMPS.into_iter().filter_map(look).unzip();
        let since_epoch = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let times = files.iter().filter_map(|file| file.modified().ok());
        Some(SavedDump {
            number,
            stem: stems.first()?,
            time: times.map(since_epoch).max()?,
            bytes: files
                .iter()
                .map(|file| file.blocks().saturating_mul(BLOCK))
                .sum(),
        })
    });
    Ok(dumps.collect())
}

impl Removed {
    fn remove(&mut self, directory: &Directory, dump: &SavedDump) {
        for stem in DUMPS {
            let Some(found) = directory.look(stem, dump.number).trusted() else {
                continue;
            };
            let path = directory.path(stem, dump.number);
            match directory.remove(stem, dump.number) {
                Ok(()) => {
                    self.files.push(path);
                    self.bytes += found.blocks().saturating_mul(BLOCK);
                }
                // Another run removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self
                    .warnings
                    .push(format!("{}: cannot remove it: {error}", path.display())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use super::*;

    const BYTES: usize = 64 << 10;

    /// Makes a file with data, written so many seconds after 1970.
    fn file(root: &Path, name: &str, seconds: u64) {
        let path = root.join(name);
        fs::write(&path, vec![1; BYTES]).unwrap();
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(time)
            .unwrap();
    }

    fn names(root: &Path) -> Vec<String> {
        let entries = fs::read_dir(root).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    fn apply(root: &Path, dumps: Option<u64>, bytes: Option<u64>, saved: Option<u64>) -> Removed {
        Retention { dumps, bytes }
            .apply(root, saved, |_| Ok(None))
            .unwrap()
    }

    #[test]
    fn newest_dumps_stay_with_all_logs_and_records() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for number in 0..4 {
            file(root, &format!("vmdump.{number}"), 100 + number);
            file(root, &format!("dmesg.{number}"), 100);
            file(root, &format!("info.{number}"), 100);
        }
        file(root, "vmcore.1", 900);
        let removed = apply(root, Some(2), None, None);
        assert_eq!(
            removed.files,
            [root.join("vmdump.2"), root.join("vmdump.0")]
        );
        assert!(removed.bytes >= 2 * BYTES as u64 && removed.warnings.is_empty());
        let left = names(root);
        assert_eq!(left.len(), 8 + 3, "{left:?}");
        for name in ["vmcore.1", "vmdump.1", "vmdump.3", "dmesg.0", "info.0"] {
            assert!(left.iter().any(|left| left == name), "{name}: {left:?}");
        }
        assert!(apply(root, Some(2), None, None).files.is_empty());
    }

    #[test]
    fn room_is_counted_without_holes_and_the_newest_stays_whatever_its_size() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for number in 0..3 {
            file(root, &format!("vmdump.{number}"), 100 + number);
        }
        let sparse = File::create(root.join("vmcore.9")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        sparse
            .set_modified(UNIX_EPOCH + Duration::from_secs(50))
            .unwrap();
        let most = 2 * BYTES as u64 + 4096;
        assert_eq!(apply(root, None, Some(most), None).files.len(), 1);
        assert_eq!(names(root), ["vmcore.9", "vmdump.1", "vmdump.2"]);
        let removed = apply(root, None, Some(1), None);
        assert_eq!(names(root), ["vmdump.2"]);
        assert!(removed.warnings[0].contains("more than the 1 allowed"));
        assert_eq!(apply(root, Some(0), None, None).files.len(), 0);
    }

    #[test]
    fn dump_that_was_saved_now_stays_even_if_the_clock_was_wrong() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        file(root, "vmdump.4", 5_000_000_000);
        file(root, "vmdump.5", 100);
        apply(root, Some(1), None, Some(5));
        assert_eq!(names(root), ["vmdump.5"]);
    }

    #[test]
    fn first_of_a_crash_stays_and_is_reported() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        // The numbers began again; the times tell the order.
        for (name, seconds) in [
            ("vmcore.2", 1),
            ("vmdump.3", 2),
            ("vmdump.0", 3),
            ("vmdump.1", 4),
        ] {
            file(root, name, seconds);
        }
        let limits = Retention {
            dumps: Some(1),
            bytes: None,
        };
        let stopped = || DumpError::Interrupted { kept: None };
        assert!(limits.apply(root, None, |_| Err(stopped())).is_err());
        assert_eq!(names(root).len(), 4);
        let one = |_: &Path| Ok(Some("one".to_owned()));
        let removed = limits.apply(root, None, one).unwrap();
        assert_eq!(removed.firsts, [root.join("vmcore.2")]);
        assert_eq!(names(root), ["vmcore.2", "vmdump.1"]);
    }

    #[test]
    fn links_directories_and_strange_names_are_not_counted_and_not_touched() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let elsewhere = tempfile::tempdir().unwrap();
        file(elsewhere.path(), "precious", 1);
        symlink(elsewhere.path().join("precious"), root.join("vmdump.0")).unwrap();
        fs::create_dir(root.join("vmcore.1")).unwrap();
        for name in [
            "vmdump.01",
            "vmdump.2.incomplete",
            "vmdump.-1",
            "vmdump.99999999999",
            "vmdump",
        ] {
            file(root, name, 1);
        }
        file(root, "vmdump.7", 10);
        file(root, "vmdump.8", 11);
        let removed = apply(root, Some(1), None, None);
        assert_eq!(removed.files, [root.join("vmdump.7")]);
        assert_eq!(names(root).len(), 8);
        assert!(elsewhere.path().join("precious").exists());
    }

    #[test]
    fn dump_that_a_reader_has_open_can_be_read_to_its_end() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        file(root, "vmdump.0", 1);
        file(root, "vmdump.1", 2);
        let mut open = File::open(root.join("vmdump.0")).unwrap();
        apply(root, Some(1), None, None);
        assert_eq!(names(root), ["vmdump.1"]);
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut open, &mut bytes).unwrap();
        assert_eq!(bytes, vec![1; BYTES]);
    }

    #[test]
    fn directory_that_is_none_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        file(root.path(), "file", 1);
        let error = Retention::default()
            .apply(&root.path().join("file"), None, |_| Ok(None))
            .unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}
