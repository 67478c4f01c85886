//! Other programs that populate memory in advance, if installed.

use std::ffi::{CStr, OsStr};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use serde::Serialize;

use super::held::Held;
use super::settings::Setting;
use crate::results::median;

const QEMU: &str = "qemu-system-x86_64";
const HUGECTL: &str = "hugectl";

/// Median times of another program, in milliseconds per GiB.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Peer {
    /// The program and its mode.
    pub what: String,
    /// Time to populate the memory.
    pub create: Option<f64>,
    /// Time to release it.
    pub destroy: Option<f64>,
    /// Total time; the only figure if the two cannot be separated.
    pub total: f64,
    /// Total time of each round.
    pub rounds: Vec<f64>,
}

/// Runs all peers in each round.
#[derive(Debug)]
pub(super) struct Peers {
    size: usize,
    runs: Vec<(String, How, Vec<Took>)>,
}

#[derive(Clone, Debug)]
enum How {
    /// A memory backend, and its number of threads.
    Qemu(&'static str, usize),
    Fallocate,
    MapPopulate,
    /// This program under hugectl, with which libhugetlbfs makes `shmget` use hugetlb pages.
    Hugectl(PathBuf),
}

impl How {
    fn run(&self, size: usize, allow_huge: bool) -> anyhow::Result<Took> {
        match self {
            Self::Qemu(backend, threads) => {
                let without = qemu(size, backend, None)?;
                let with = qemu(size, backend, Some(*threads))?;
                Ok((with.saturating_sub(without), None))
            }
            Self::Fallocate => fallocate(size),
            Self::MapPopulate => map_populate(size),
            Self::Hugectl(program) => {
                let _pool = allow_huge
                    .then(|| Setting::hugetlb_pool(size))
                    .transpose()?;
                hugectl(program, size)
            }
        }
    }
}

/// Time to create and time to destroy, or the sum of both in the first field.
type Took = (Duration, Option<Duration>);

impl Peers {
    /// Returns the installed peers, and messages about the others. `program` provides `mem
    /// bench --plain-once`, which can run under another program; `pool` is true if hugetlb
    /// pages are available or may be reserved for it.
    pub fn new(size: usize, program: Option<&CStr>, pool: bool) -> (Self, Vec<String>) {
        let (mut runs, mut skipped) = (Vec::new(), Vec::new());
        let mut add = |what: String, how| runs.push((what, how, Vec::new()));
        add(
            "mmap(MAP_SHARED | MAP_POPULATE) of a memfd".into(),
            How::MapPopulate,
        );
        if is_installed("fallocate") && Path::new("/dev/shm").is_dir() {
            add(
                "fallocate of a file in /dev/shm, and its removal".into(),
                How::Fallocate,
            );
        } else {
            skipped.push("fallocate: not installed".into());
        }
        match program.filter(|_| pool && is_installed(HUGECTL)) {
            Some(program) => {
                let program = OsStr::from_bytes(program.to_bytes()).into();
                let what = "libhugetlbfs: the plain calls under hugectl --shm";
                add(what.into(), How::Hugectl(program));
            }
            None => skipped.push(format!(
                "libhugetlbfs: {HUGECTL} is not installed, or there is no pool (--allow-huge)"
            )),
        }
        if is_installed(QEMU) {
            for backend in ["memory-backend-memfd", "memory-backend-ram"] {
                for threads in [1, 2] {
                    let what = format!("QEMU {backend}, prealloc-threads={threads}");
                    add(what, How::Qemu(backend, threads));
                }
            }
        } else {
            skipped.push(format!("QEMU: {QEMU} is not installed"));
        }
        (Self { size, runs }, skipped)
    }

    /// Runs one round. Peers that fail are removed; returns messages about them.
    pub fn round(&mut self, allow_huge: bool) -> Vec<String> {
        let mut failed = Vec::new();
        let size = self.size;
        self.runs.retain_mut(|(what, how, took)| {
            let run = how.run(size, allow_huge);
            let run = run.map(|run| took.push(run));
            if let Err(error) = &run {
                failed.push(format!("{what}: {error:#}"));
            }
            run.is_ok()
        });
        failed
    }

    /// Returns the medians.
    pub fn end(self) -> Vec<Peer> {
        let per_gib =
            |time: Duration| time.as_secs_f64() * 1e3 * f64::from(1 << 30) / self.size as f64;
        let peer = |(what, _, took): (String, How, Vec<Took>)| {
            let apart = |part: fn(&(Duration, Duration)) -> Duration| {
                let apart: Vec<f64> = took
                    .iter()
                    .filter_map(|(create, destroy)| Some((*create, (*destroy)?)))
                    .map(|both| per_gib(part(&both)))
                    .collect();
                (!apart.is_empty()).then(|| median(&apart))
            };
            let total = |(first, second): &Took| per_gib(*first + second.unwrap_or_default());
            let rounds: Vec<f64> = took.iter().map(total).collect();
            Peer {
                what,
                create: apart(|both| both.0),
                destroy: apart(|both| both.1),
                total: median(&rounds),
                rounds,
            }
        };
        self.runs.into_iter().map(peer).collect()
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Returns the runtime of a virtual machine that has only memory.
fn qemu(size: usize, backend: &str, threads: Option<usize>) -> anyhow::Result<Duration> {
    let prealloc = threads.map_or("prealloc=off".into(), |threads| {
        format!("prealloc=on,prealloc-threads={threads}")
    });
    let object = format!("{backend},id=memory,size={size},{prealloc}");
    let arguments = "-M none -nodefaults -display none -S -monitor stdio -object";
    let begin = Instant::now();
    let mut child = Command::new(QEMU)
        .args(arguments.split(' '))
        .arg(object)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut monitor) = child.stdin.take() {
        // A machine that has already failed does not read the command.
        let _ = monitor.write_all(b"quit\n");
    }
    let status = child.wait()?;
    ensure!(status.success(), "{QEMU} ended with {status}");
    Ok(begin.elapsed())
}

/// A file that is removed on drop.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn fallocate(size: usize) -> anyhow::Result<Took> {
    let name = format!("bigiron-bench-{}", std::process::id());
    let file = Removed(Path::new("/dev/shm").join(name));
    let begin = Instant::now();
    let status = Command::new("fallocate")
        .args(["-l", &size.to_string()])
        .arg(&file.0)
        .stderr(Stdio::null())
        .status()?;
    ensure!(
        status.success(),
        "fallocate ended with {status}; /dev/shm may be too small"
    );
    let create = begin.elapsed();
    let begin = Instant::now();
    drop(file);
    Ok((create, Some(begin.elapsed())))
}

/// Runs [`super::plain_once`] in a separate process.
fn hugectl(program: &Path, size: usize) -> anyhow::Result<Took> {
    let output = Command::new(HUGECTL)
        .arg("--shm")
        .arg(program)
        .args(["mem", "bench", "--plain-once", "--size"])
        .arg(size.to_string())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut seconds = text.split_whitespace().map(str::parse);
    match (output.status.success(), seconds.next(), seconds.next()) {
        (true, Some(Ok(create)), Some(Ok(destroy))) => Ok((
            Duration::from_secs_f64(create),
            Some(Duration::from_secs_f64(destroy)),
        )),
        _ => bail!("{HUGECTL} ended with {}", output.status),
    }
}

fn map_populate(size: usize) -> anyhow::Result<Took> {
    let begin = Instant::now();
    let mut held = Held::populated_memfd(size)?;
    let create = begin.elapsed();
    let begin = Instant::now();
    held.destroy()?;
    Ok((create, Some(begin.elapsed())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_each_part() {
        let took = |create, destroy: Option<u64>| {
            (
                Duration::from_millis(create),
                destroy.map(Duration::from_millis),
            )
        };
        let peers = Peers {
            size: 1 << 29,
            runs: vec![
                (
                    "both".into(),
                    How::Fallocate,
                    vec![took(10, Some(5)), took(20, Some(1)), took(15, Some(2))],
                ),
                ("one".into(), How::MapPopulate, vec![took(10, None)]),
            ],
        };
        let peers = peers.end();
        let [both, one] = &peers[..] else {
            panic!("{peers:?}")
        };
        assert_eq!(
            (both.create, both.destroy, both.total),
            (Some(30.0), Some(4.0), 34.0)
        );
        assert_eq!((one.create, one.destroy, one.total), (None, None, 20.0));
    }
}
