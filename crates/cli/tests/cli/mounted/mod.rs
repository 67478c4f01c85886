//! Mounts for tests: dumps and scheduler domains.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Outcome, TIME_LIMIT, finish};

/// Returns true if dumps can be mounted here; prints the reason if not.
pub fn can_mount() -> bool {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    if let Err(error) = device {
        println!("skipped: /dev/fuse: {error}");
        return false;
    }
    let directory = tempfile::tempdir().unwrap();
    let probe = Command::new("mount")
        .args(["-t", "tmpfs", "none"])
        .arg(directory.path())
        .output();
    let may = probe.is_ok_and(|output| output.status.success());
    let helper = Command::new("fusermount3").arg("-V").output().is_ok();
    if may {
        let _ = Command::new("umount").arg(directory.path()).status();
    } else if !helper {
        println!("skipped: mounting is not allowed, and fusermount3 is not installed");
    }
    may || helper
}

/// A mounted dump, unmounted on drop.
pub struct Mounted {
    child: Option<Child>,
    directory: PathBuf,
}

impl Mounted {
    /// Mounts the dump, and waits for the message that it is mounted.
    #[track_caller]
    pub fn new(directory: PathBuf, dump: &[&Path], options: &[&str]) -> Self {
        let options = options.iter().map(OsStr::new);
        let dump = dump.iter().map(|dump| dump.as_os_str());
        let words = iter::once(OsStr::new("mount")).chain(options).chain(dump);
        Self::by(directory, words)
    }

    /// Mounts with other arguments than `mount` before the directory.
    #[track_caller]
    pub fn of(directory: PathBuf, words: &[&str]) -> Self {
        Self::by(directory, words)
    }

    #[track_caller]
    fn by(directory: PathBuf, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        fs::create_dir_all(&directory).unwrap();
        // Without the memory limit of other tests: each thread has a large
        // buffer that it never fills.
        let mut child = Command::new(env!("CARGO_BIN_EXE_bigiron"))
            .args(words)
            .arg(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        if !line.contains("is mounted on") {
            panic!("not mounted: {line} {:?}", finish(child));
        }
        Self {
            child: Some(child),
            directory,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub fn is_listed(&self) -> bool {
        let list = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let at = format!(" {} ", self.directory.display());
        list.lines().any(|line| line.contains(&at))
    }

    /// Returns the program's process id.
    pub fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn signal(&self, name: &str) {
        let child = self.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &child]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until the mount has disappeared from the list of mounts.
    #[track_caller]
    pub fn wait_until_gone(&self) {
        let begin = Instant::now();
        while self.is_listed() {
            assert!(begin.elapsed() < TIME_LIMIT, "still mounted");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of the program.
    pub fn end(&mut self) -> Outcome {
        finish(self.child.take().unwrap())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(&self.directory)
            .output();
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
