//! Folders in which distributions and people keep debug information.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::build_id;
use crate::wanted::Wanted;

/// Maximum depth of folders below the one that is searched for a module.
const MAX_DEPTH: usize = 12;
/// Maximum number of files that are looked at; a distribution's kernel has some 5,000 modules.
const MAX_FILES: usize = 200_000;
/// Ends of the names of files with a module and its debug information.
const ENDS: [&str; 2] = [".ko", ".ko.debug"];

/// Finds what is wanted in a folder: a module among those of its kernel.
pub fn find(folder: &Path, wanted: &Wanted) -> Option<(File, PathBuf)> {
    names(folder, wanted)
        .into_iter()
        .find_map(|path| open(&path, wanted))
        .or_else(|| {
            let mut folders = modules(folder, wanted).into_iter();
            folders.find_map(|folder| module_below(&folder, wanted))
        })
}

/// The same; a module at any depth, if the folder has none of its kernel.
pub fn find_anywhere(folder: &Path, wanted: &Wanted) -> Option<(File, PathBuf)> {
    find(folder, wanted).or_else(|| {
        let mut folders = modules(folder, wanted).into_iter();
        let has_modules = folders.any(|folder| folder.is_dir());
        (!has_modules)
            .then(|| module_below(folder, wanted))
            .flatten()
    })
}

/// Opens a file if it has the build id that is wanted.
pub fn open(path: &Path, wanted: &Wanted) -> Option<(File, PathBuf)> {
    let file = File::open(path).ok()?;
    let fits = file.metadata().ok()?.is_file() && build_id::is_of(&file, wanted.build_id());
    fits.then(|| (file, path.to_owned()))
}

/// Names that the file may have in a folder such as /usr/lib/debug.
fn names(folder: &Path, wanted: &Wanted) -> Vec<PathBuf> {
    let mut names = Vec::new();
    if let Some((start, rest)) = wanted.build_id().split_at_checked(2) {
        names.push(format!(".build-id/{start}/{rest}.debug"));
    }
    let release = wanted.release();
    if wanted.module().is_none() {
        names.push("vmlinux".into());
        names.push(format!("vmlinux-{release}"));
        names.push(format!("boot/vmlinux-{release}"));
        names.push(format!("boot/vmlinux-{release}.debug"));
        names.push(format!("lib/modules/{release}/vmlinux"));
        names.push(format!("lib/modules/{release}/vmlinux.debug"));
        names.push(format!("usr/lib/modules/{release}/vmlinux.debug"));
    }
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// The folders with the modules of a kernel.
fn modules(folder: &Path, wanted: &Wanted) -> [PathBuf; 2] {
    ["lib/modules", "usr/lib/modules"].map(|name| folder.join(name).join(wanted.release()))
}

/// Finds a module by its name at any depth.
fn module_below(folder: &Path, wanted: &Wanted) -> Option<(File, PathBuf)> {
    let mut left = MAX_FILES;
    let mut paths = Vec::new();
    collect(folder, wanted.module()?, MAX_DEPTH, &mut left, &mut paths);
    paths.iter().find_map(|path| open(path, wanted))
}

fn collect(folder: &Path, module: &str, depth: usize, left: &mut usize, found: &mut Vec<PathBuf>) {
    let Some(deeper) = depth.checked_sub(1) else {
        return;
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Some(rest) = left.checked_sub(1) else {
            return;
        };
        *left = rest;
        // Links are not followed: they may lead in circles.
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            collect(&entry.path(), module, deeper, left, found);
        } else if kind.is_file()
            && entry
                .file_name()
                .to_str()
                .is_some_and(|name| is_of(name, module))
        {
            found.push(entry.path());
        }
    }
}

/// Returns true if a file of that name may be of the module: `-` and `_` are equal in names of
/// modules (scripts/Makefile.lib of the kernel).
fn is_of(name: &str, module: &str) -> bool {
    let mut ends = ENDS.iter().filter_map(|end| name.strip_suffix(end));
    ends.any(|stem| stem.replace('-', "_") == module.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    #[test]
    fn module_is_found_by_its_name() {
        assert!(is_of("virtio-blk.ko", "virtio_blk") && is_of("ext4.ko.debug", "ext4"));
        assert!(!is_of("ext4.ko.xz", "ext4") && !is_of("ext4", "ext4"));
    }

    #[test]
    fn file_with_another_build_id_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        // This test itself is an ELF file, of another build id or none.
        let own = std::env::current_exe().unwrap();
        fs::copy(own, folder.path().join("vmlinux")).unwrap();
        fs::write(folder.path().join("vmlinux-6.1"), "text").unwrap();
        let wanted = Wanted::new(&"1f".repeat(20), "6.1", None).unwrap();
        assert!(find(folder.path(), &wanted).is_none());
    }
}
