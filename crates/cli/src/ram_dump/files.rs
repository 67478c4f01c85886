//! The configuration that `bigiron setup ram-dump --write` writes, and `--remove` removes.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::{DEVICE, KeptRange};

/// The first line of each file: files without it are not replaced or removed.
const HEADER: &str = "# Written by `bigiron setup ram-dump --write`; removed by `bigiron setup ram-dump --remove`.\n";
/// Read by grub-mkconfig (Debian's patch mkconfig-ubuntu-distributor and later: /etc/default/grub.d).
const BOOT_LOADER: &str = "etc/default/grub.d/bigiron-ram-dump.cfg";
/// Read by the script of the capture kernel and by bigiron-save.service, after
/// /etc/default/bigiron.
const KIT: &str = "etc/default/bigiron-ram-dump";
/// The setting of kdump-tools that takes the place of the production kernel's command line.
const KDUMP_TOOLS: &str = "etc/default/kdump-tools";

/// Writes both files, and returns their paths below `root`.
///
/// # Errors
/// A file of that name has another origin, or the boot loader reads no such directory.
pub fn write(root: &Path, range: KeptRange) -> anyhow::Result<[PathBuf; 2]> {
    let boot_loader = root.join(BOOT_LOADER);
    let directory = boot_loader.parent().unwrap_or(root);
    ensure!(
        directory.is_dir(),
        "{}: is not there, so the boot loader's command line is not changed; add the word {range} to it yourself, \
         for example by `grubby --update-kernel=ALL --args='{range}'`",
        directory.display()
    );
    let variable = "GRUB_CMDLINE_LINUX_DEFAULT";
    let contents = [
        (
            boot_loader,
            format!("{HEADER}{variable}=\"${variable} {range}\"\n"),
        ),
        (
            root.join(KIT),
            format!(
                "{HEADER}# The device that {range} makes, in place of DEVICE in /etc/default/bigiron.\nDEVICE=/dev/{DEVICE}\n"
            ),
        ),
    ];
    for (path, _) in &contents {
        check_is_ours(path)?;
    }
    for (path, text) in &contents {
        replace(path, text).with_context(|| format!("{}: cannot write it", path.display()))?;
    }
    Ok(contents.map(|(path, _)| path))
}

/// Removes both files, and returns the paths of those that were there.
///
/// # Errors
/// A file of that name has another origin.
pub fn remove(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    for path in [BOOT_LOADER, KIT].map(|name| root.join(name)) {
        check_is_ours(&path)?;
        match fs::remove_file(&path) {
            Ok(()) => removed.push(path),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("{}: cannot remove it", path.display()));
            }
        }
    }
    Ok(removed)
}

/// Returns the range that was written.
///
/// # Errors
/// The file cannot be read, or does not name a range.
pub fn read(root: &Path) -> anyhow::Result<Option<KeptRange>> {
    let path = root.join(BOOT_LOADER);
    let Some(text) = read_if_there(&path)? else {
        return Ok(None);
    };
    let mut words = text.split(|c: char| c.is_whitespace() || c == '"');
    let word = words.find(|word| word.starts_with("memmap="));
    let word = word.with_context(|| format!("{}: names no memmap=", path.display()))?;
    let range = word.parse().map_err(anyhow::Error::msg);
    range.map(Some).with_context(|| path.display().to_string())
}

/// Returns a warning if the capture kernel's command line is set apart from the production
/// kernel's, and lacks the word.
pub fn capture_warning(root: &Path, range: KeptRange) -> anyhow::Result<Option<String>> {
    let path = root.join(KDUMP_TOOLS);
    let text = read_if_there(&path)?.unwrap_or_default();
    let set = text
        .lines()
        .find(|line| line.trim_start().starts_with("KDUMP_CMDLINE="));
    let lacks = set.is_some_and(|line| !line.contains(&range.to_string()));
    Ok(lacks.then(|| {
        format!(
            "{}: KDUMP_CMDLINE replaces the command line of the capture kernel; add {range} to it",
            path.display()
        )
    }))
}

fn read_if_there(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{}: cannot read it", path.display())),
    }
}

fn check_is_ours(path: &Path) -> anyhow::Result<()> {
    let text = read_if_there(path)?;
    ensure!(
        text.is_none_or(|text| text.starts_with(HEADER)),
        "{}: was not written by `bigiron setup ram-dump`; move it away first",
        path.display()
    );
    Ok(())
}

/// Replaces a file as a whole: the boot loader never sees half of it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("bigiron-new");
    fs::write(&new, text)?;
    fs::File::open(&new)?.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    const RANGE: KeptRange = KeptRange {
        start: 4 << 30,
        size: 1 << 30,
    };

    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc/default/grub.d")).unwrap();
        root
    }

    #[test]
    fn files_are_written_twice_alike_and_removed_without_a_trace() {
        let root = root();
        let paths = write(root.path(), RANGE).unwrap();
        let first = paths.clone().map(|path| fs::read_to_string(path).unwrap());
        write(root.path(), RANGE).unwrap();
        assert_eq!(
            paths.clone().map(|path| fs::read_to_string(path).unwrap()),
            first
        );
        assert!(first[0].contains("$GRUB_CMDLINE_LINUX_DEFAULT memmap=1024M!0x100000000\""));
        assert_eq!(read(root.path()).unwrap(), Some(RANGE));
        assert_eq!(remove(root.path()).unwrap(), paths);
        assert_eq!(read(root.path()).unwrap(), None);
        assert!(remove(root.path()).unwrap().is_empty());
        let left = fs::read_dir(root.path().join("etc/default"))
            .unwrap()
            .count();
        assert_eq!(left, 1, "only grub.d");
    }

    #[test]
    fn files_of_another_origin_are_kept_and_nothing_is_written() {
        let root = root();
        let kit = root.path().join(KIT);
        fs::write(&kit, "DEVICE=/dev/sdz\n").unwrap();
        for error in [
            write(root.path(), RANGE).unwrap_err(),
            remove(root.path()).unwrap_err(),
        ] {
            assert!(error.to_string().contains("was not written by"), "{error}");
        }
        assert_eq!(fs::read_to_string(&kit).unwrap(), "DEVICE=/dev/sdz\n");
        assert!(!root.path().join(BOOT_LOADER).exists());
    }

    #[test]
    fn boot_loader_without_the_directory_is_left_to_the_administrator() {
        let root = tempfile::tempdir().unwrap();
        let error = write(root.path(), RANGE).unwrap_err().to_string();
        assert!(
            error.contains("grubby") && error.contains("memmap=1024M!0x100000000"),
            "{error}"
        );
    }

    #[test]
    fn command_line_of_the_capture_kernel_without_the_word_is_reported() {
        let root = root();
        let path = root.path().join(KDUMP_TOOLS);
        assert_eq!(capture_warning(root.path(), RANGE).unwrap(), None);
        fs::write(&path, "# KDUMP_CMDLINE=\"x\"\n").unwrap();
        assert_eq!(capture_warning(root.path(), RANGE).unwrap(), None);
        fs::write(&path, "KDUMP_CMDLINE=\"root=/dev/sda1\"\n").unwrap();
        assert!(
            capture_warning(root.path(), RANGE)
                .unwrap()
                .unwrap()
                .contains("KDUMP_CMDLINE")
        );
        fs::write(&path, format!("KDUMP_CMDLINE=\"root=/dev/sda1 {RANGE}\"\n")).unwrap();
        assert_eq!(capture_warning(root.path(), RANGE).unwrap(), None);
    }
}
