//! Costs of creating and removing files in memory, as a stand-in for debugfs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Mode, mkdirat, mknodat, statat, statfs, unlinkat};

use super::measured::{Basis, Measured, ROUNDS};

/// Usual mount points of file systems in memory.
const CANDIDATES: [&str; 3] = ["/dev/shm", "/run", "/tmp"];
/// Magic numbers of tmpfs and ramfs (include/uapi/linux/magic.h).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// Number of directories, each of which contains all of [`FILES`].
const DIRECTORIES: usize = 200;
const FILES: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// Seconds per operation.
struct Times {
    directory: f64,
    file: f64,
    remove: f64,
    lookup: f64,
}

pub(super) fn measure(measured: &mut Measured) {
    let debugfs = [
        "debugfs_lookup",
        "debugfs_remove",
        "debugfs_directory",
        "debugfs_file",
    ];
    let sysctl = ["sysctl_remove", "sysctl_table", "sysctl_cpu"];
    let found = CANDIDATES.iter().find_map(|directory| {
        let directory = Path::new(directory);
        Some((directory, in_memory(directory)?, medians(directory).ok()?))
    });
    let Some((directory, kind, times)) = found else {
        let by =
            "value of a POWER10 of 2022: no files can be created in memory (/dev/shm, /run, /tmp)";
        measured.say(&debugfs, Basis::Assumed, by);
        measured.say(&sysctl, Basis::Assumed, by);
        return;
    };
    let costs = &mut measured.costs;
    let faster = times.file / costs.debugfs_file;
    costs.debugfs_lookup = times.lookup;
    costs.debugfs_remove = times.remove;
    costs.debugfs_directory = times.directory;
    costs.debugfs_file = times.file;
    costs.sysctl_remove *= faster;
    costs.sysctl_table *= faster;
    costs.sysctl_cpu *= faster;
    let by = format!(
        "files in {kind} at {} instead of debugfs, without the system call",
        directory.display()
    );
    measured.say(&debugfs, Basis::StandIn, by);
    let by =
        format!("value of a POWER10 of 2022, times {faster:.2}, the ratio of the costs of a file");
    measured.say(&sysctl, Basis::Assumed, by);
}

/// Returns the type of the file system at `directory`, if it is in memory.
fn in_memory(directory: &Path) -> Option<&'static str> {
    let kind = statfs(directory).ok()?.f_type as u64;
    let number = IN_MEMORY.iter().position(|magic| *magic == kind)?;
    ["tmpfs", "ramfs"].get(number).copied()
}

fn medians(directory: &Path) -> io::Result<Times> {
    let all: io::Result<Vec<Times>> = (0..ROUNDS).map(|_| once(directory)).collect();
    let all = all?;
    let median = |of: fn(&Times) -> f64| {
        let mut times: Vec<f64> = all.iter().map(of).collect();
        times.sort_by(f64::total_cmp);
        times.get(ROUNDS / 2).copied().unwrap_or(0.0)
    };
    Ok(Times {
        directory: median(|times| times.directory),
        file: median(|times| times.file),
        remove: median(|times| times.remove),
        lookup: median(|times| times.lookup),
    })
}

/// Directory that is removed on drop, with its contents.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Creates, looks up and removes directories and files, by name in open directories. A lookup
/// costs the system call and the resolution of the name. A kernel that creates files needs
/// neither, so this cost is subtracted from the others.
fn once(parent: &Path) -> io::Result<Times> {
    let own = parent.join(format!("bigiron-simulate-{}", std::process::id()));
    fs::create_dir(&own)?;
    let own = Directory(own);
    let top = fs::File::open(&own.0)?;
    let names: Vec<String> = (0..DIRECTORIES).map(|cpu| format!("cpu{cpu}")).collect();
    let directory = timed(DIRECTORIES, || {
        let mut names = names.iter();
        names.try_for_each(|name| mkdirat(&top, name, Mode::RWXU))
    })?;
    let opened: io::Result<Vec<fs::File>> = names
        .iter()
        .map(|name| fs::File::open(own.0.join(name)))
        .collect();
    let opened = opened?;
    let each = |work: &dyn Fn(&fs::File, &str) -> rustix::io::Result<()>| {
        timed(DIRECTORIES * FILES.len(), || {
            let mut all = opened.iter();
            all.try_for_each(|at| FILES.iter().try_for_each(|name| work(at, name)))
        })
    };
    // debugfs creates files without opening them.
    let file = each(&|at, name| mknodat(at, name, FileType::RegularFile, Mode::RUSR, 0))?;
    let lookup = each(&|at, name| statat(at, name, AtFlags::SYMLINK_NOFOLLOW).map(drop))?;
    let remove = each(&|at, name| unlinkat(at, name, AtFlags::empty()))?;
    let without_call = |time: f64| (time - lookup).max(time / 10.0);
    Ok(Times {
        directory: without_call(directory),
        file: without_call(file),
        remove: without_call(remove),
        lookup,
    })
}

/// Returns the seconds per item of `work`, which handles `count` items.
fn timed(count: usize, mut work: impl FnMut() -> rustix::io::Result<()>) -> io::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() / count as f64)
}
