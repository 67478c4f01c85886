#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use rustix::fs::{CWD, FileType, mknodat};

use super::*;

/// A user other than the one who runs the tests, if they are run by root.
const OTHER_USER: u32 = 12345;

fn directory() -> (tempfile::TempDir, OutputDirectory) {
    let root = tempfile::tempdir().unwrap();
    let directory = OutputDirectory::open(root.path()).unwrap();
    (root, directory)
}

fn make(path: &Path, mode: u32) {
    fs::write(path, b"theirs").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Creates, one after the other, the entries that another user may have planted.
fn for_each_planted(root: &Path, name: &str, mut check: impl FnMut(&str)) {
    let (path, precious) = (root.join(name), root.join("precious"));
    make(&path, 0o666);
    check("mode");
    fs::remove_file(&path).unwrap();
    make_pipe(&path);
    check("pipe");
    fs::remove_file(&path).unwrap();
    make(&precious, 0o600);
    symlink(&precious, &path).unwrap();
    check("link");
    fs::remove_file(&path).unwrap();
    symlink("nowhere", &path).unwrap();
    check("dangling link");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    check("directory");
    fs::remove_dir(&path).unwrap();
    make(&path, 0o600);
    if chown(&path, Some(OTHER_USER), None).is_ok() {
        check("owner");
    } else {
        println!("skipped: a file of another user, since only root can make one");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(fs::read(&precious).unwrap(), b"theirs");
}

#[test]
fn new_files_are_private_and_replace_nothing() {
    let (root, directory) = directory();
    let mut file = directory.create_new("a".as_ref()).unwrap();
    file.write_all(b"text").unwrap();
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    symlink("nowhere", root.path().join("b")).unwrap();
    for name in ["a", "b"] {
        let error = directory.create_new(name.as_ref()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{name}");
    }
    make(&root.path().join("c"), 0o600);
    let renamed = directory.rename(&file, "a".as_ref(), "c".as_ref(), false);
    assert_eq!(renamed.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    directory
        .rename(&file, "a".as_ref(), "c".as_ref(), true)
        .unwrap();
    assert_eq!(fs::read(root.path().join("c")).unwrap(), b"text");
}

#[test]
fn own_leftover_is_taken_over() {
    let (root, directory) = directory();
    make(&root.path().join("a.incomplete"), 0o600);
    let (mut file, name) = directory.take_temporary("a".as_ref()).unwrap();
    assert_eq!(name, "a.incomplete");
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "theirs");
    assert_eq!(directory.warnings(), [""; 0]);
    // A new file never is.
    let (_, name) = directory.create_temporary("a".as_ref()).unwrap();
    assert_eq!(name, "a.incomplete.1");
}

#[test]
fn files_that_others_may_have_open_are_left_alone() {
    let (root, directory) = directory();
    for_each_planted(root.path(), "a.incomplete", |at| {
        let (file, name) = directory.take_temporary("a".as_ref()).unwrap();
        assert_eq!(name, "a.incomplete.1", "{at}");
        assert_eq!(file.metadata().unwrap().len(), 0, "{at}");
        let warning = directory.warnings().pop().unwrap();
        assert!(warning.contains("a.incomplete: "), "{at}: {warning}");
    });
    for (name, mode) in [("b", 0o644), ("c", 0o600)] {
        let path = root.path().join(format!("{name}.incomplete"));
        make(&path, mode);
        if name == "c" {
            fs::hard_link(&path, root.path().join("other name")).unwrap();
        }
        let (_, taken) = directory.take_temporary(name.as_ref()).unwrap();
        assert_eq!(taken, *format!("{name}.incomplete.1"));
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
    }
}

#[test]
fn there_is_always_a_name_left() {
    let (root, directory) = directory();
    make(&root.path().join("a.incomplete"), 0o644);
    for number in 1..1000 {
        make(&root.path().join(format!("a.incomplete.{number}")), 0o644);
    }
    for _ in 0..2 {
        let (_, name) = directory.take_temporary("a".as_ref()).unwrap();
        let random = name.to_str().unwrap().strip_prefix("a.incomplete.");
        assert_eq!(random.unwrap().len(), 32);
    }
    directory.create_temporary("a".as_ref()).unwrap();
}

#[test]
fn only_files_of_root_and_this_user_are_read() {
    let (root, directory) = directory();
    let read = |name: &str| directory.read(name.as_ref(), 6);
    assert!(matches!(read("a"), Entry::Absent));
    for_each_planted(root.path(), "a", |at| {
        assert!(matches!(read("a"), Entry::Distrusted(_)), "{at}");
        let looked = directory.look("a".as_ref());
        assert!(matches!(looked, Entry::Distrusted(_)), "{at}");
    });
    make(&root.path().join("a"), 0o644);
    assert_eq!(read("a").trusted().unwrap(), "theirs");
    fs::write(root.path().join("a"), b"theirs!").unwrap();
    assert!(matches!(read("a"), Entry::Distrusted(_)));
}

#[test]
fn directory_in_which_others_can_replace_files_is_reported() {
    let (root, directory) = directory();
    for (mode, is_exposed) in [
        (0o700, false),
        (0o755, false),
        (0o775, false),
        (0o777, true),
        (0o1777, false),
    ] {
        fs::set_permissions(root.path(), fs::Permissions::from_mode(mode)).unwrap();
        let opened = OutputDirectory::open(root.path()).unwrap();
        assert_eq!(!opened.warnings().is_empty(), is_exposed, "{mode:o}");
    }
    if chown(root.path(), None, Some(OTHER_USER)).is_ok() {
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o770)).unwrap();
        let opened = OutputDirectory::open(root.path()).unwrap();
        assert!(opened.warnings()[0].contains("users of its group"));
    }
    drop(directory);
}

#[test]
fn file_that_another_user_replaced_is_not_named() {
    let (root, _) = directory();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let directory = OutputDirectory::open(root.path()).unwrap();
    let (file, name) = directory.create_temporary("a".as_ref()).unwrap();
    fs::remove_file(root.path().join(&name)).unwrap();
    make(&root.path().join(&name), 0o600);
    let renamed = directory.rename(&file, &name, "a".as_ref(), false);
    assert!(renamed.unwrap_err().to_string().contains("replaced"));
    assert!(!root.path().join("a").exists());
}

#[test]
fn open_directory_stays_the_same_one() {
    let (root, _) = directory();
    let (path, moved) = (root.path().join("here"), root.path().join("moved"));
    fs::create_dir(&path).unwrap();
    let directory = OutputDirectory::open(&path).unwrap();
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    let (file, name) = directory.create_temporary("a".as_ref()).unwrap();
    directory.rename(&file, &name, "a".as_ref(), false).unwrap();
    assert!(moved.join("a").exists());
    assert!(!path.join("a").exists());
    let mut names = Vec::new();
    directory
        .for_each_name(|name| names.push(name.to_owned()))
        .unwrap();
    names.sort();
    assert_eq!(names, [".", "..", "a"]);
}
