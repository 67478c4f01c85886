//! Runs one program to its end and measures it.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use bigiron_dump::{DumpError, peak_memory_in};
use bigiron_helpers::Stop;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::Serialize;
use wait4::Wait4;

/// Only the end of what a program says is looked at.
const TAIL_BYTES: u64 = 16 << 10;
/// makedumpfile's last words, which say nothing.
const EMPTY_WORDS: &str = "makedumpfile Failed.";

/// What one run took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Run {
    /// Wall time, by a clock that only goes forward.
    pub seconds: f64,
    /// CPU time of all threads, the kernel's share included.
    pub cpu_seconds: f64,
    /// The most memory that it had at once, in bytes.
    pub peak_bytes: u64,
    /// What its output takes on the file system, in bytes.
    pub output_bytes: u64,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// By exit status 0.
    Done(Run),
    /// By a signal, of this number; its last line.
    Signal(i32, String),
    /// By another exit status; its last line.
    Failed(i32, String),
    /// By us, since it took longer than it may.
    TooSlow,
}

/// A program that is to be run.
pub struct Job<'a> {
    /// Its command line.
    pub command: Command,
    /// What it makes.
    pub output: &'a Path,
    /// Takes what it says.
    pub log: &'a Path,
    /// Whether its standard output is the output.
    pub to_stdout: bool,
    /// How long it may take.
    pub time_limit: Option<Duration>,
}

/// Runs a program to its end.
pub fn run(job: Job, stop: &Stop) -> anyhow::Result<Ending> {
    let Job {
        mut command,
        output,
        log,
        to_stdout,
        time_limit,
    } = job;
    for old in [output, log] {
        if old.exists() {
            fs::remove_file(old).with_context(|| format!("{}: cannot remove", old.display()))?;
        }
    }
    let create = |path: &Path| {
        let mut options = File::options();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.read(true).write(true).create_new(true).open(path);
        file.with_context(|| format!("{}: cannot make it", path.display()))
    };
    let mut said = create(log)?;
    let stdout = if to_stdout {
        create(output)?
    } else {
        said.try_clone()?
    };
    command.stdin(Stdio::null()).stdout(stdout);
    command.stderr(said.try_clone()?);
    let name = command.get_program().to_string_lossy().into_owned();

    let begin = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("{name}: cannot start it"))?;
    let pid = Pid::from_child(&child);
    let watch = Watch {
        pid,
        begin,
        time_limit,
        ended: AtomicBool::new(false),
        killed: AtomicBool::new(false),
        peak: AtomicU64::new(0),
    };
    let seconds = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch.run(stop));
        // It stays a zombie until its watcher is gone: no other process can
        // have its number, and be killed in its place.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
        let seconds = begin.elapsed().as_secs_f64();
        watch.ended.store(true, Ordering::Release);
        watcher.thread().unpark();
        seconds
    });
    let used = child.wait4().with_context(|| format!("{name}: lost it"))?;
    if stop.is_set() {
        return Err(DumpError::Interrupted { kept: None }.into());
    }
    match (used.status.code(), used.status.signal()) {
        (Some(0), _) => Ok(Ending::Done(Run {
            seconds,
            cpu_seconds: (used.rusage.utime + used.rusage.stime).as_secs_f64(),
            peak_bytes: watch.peak.into_inner(),
            output_bytes: fs::metadata(output)
                .with_context(|| format!("{name} made no {}", output.display()))?
                .blocks()
                * 512,
        })),
        (Some(code), _) => Ok(Ending::Failed(code, last_line(&mut said))),
        (None, _) if watch.killed.into_inner() => Ok(Ending::TooSlow),
        (None, signal) => Ok(Ending::Signal(
            signal.unwrap_or_default(),
            last_line(&mut said),
        )),
    }
}

/// Looks now and then how much memory a process has had, and kills it if
/// somebody wants an end or it takes too long.
///
/// wait4's ru_maxrss would be no measure: execve() takes over the peak of the
/// process that forked (setmax_mm_hiwater_rss() in fs/exec.c), so that a small
/// program seems as large as this one.
struct Watch {
    pid: Pid,
    begin: Instant,
    time_limit: Option<Duration>,
    ended: AtomicBool,
    killed: AtomicBool,
    peak: AtomicU64,
}

impl Watch {
    fn run(&self, stop: &Stop) {
        let status = format!("/proc/{}/status", self.pid.as_raw_nonzero());
        while !self.ended.load(Ordering::Acquire) {
            let taken = self.begin.elapsed();
            let too_slow = self.time_limit.is_some_and(|limit| taken > limit);
            if too_slow || stop.is_set() {
                self.killed.store(true, Ordering::Relaxed);
                // If it is gone already there is nothing to kill.
                let _ = kill_process(self.pid, Signal::KILL);
            }
            if let Some(bytes) = peak_memory(&status) {
                self.peak.store(bytes, Ordering::Relaxed);
            }
            // A short run is looked at often, and a long one is not disturbed.
            let pause = taken / 50;
            thread::park_timeout(pause.clamp(Duration::from_millis(2), Duration::from_millis(50)));
        }
    }
}

/// VmHWM of a process: the most resident memory it has had, in bytes.
fn peak_memory(status: &str) -> Option<u64> {
    peak_memory_in(&fs::read_to_string(status).ok()?)
}

/// The last line that says something.
fn last_line(log: &mut File) -> String {
    let mut bytes = Vec::new();
    let size = log.metadata().map_or(0, |metadata| metadata.len());
    let tail = log
        .seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES)))
        .and_then(|_| log.read_to_end(&mut bytes));
    match tail {
        Ok(_) => last_line_of(&String::from_utf8_lossy(&bytes)),
        Err(error) => format!("(what it said is lost: {error})"),
    }
}

/// Progress is written over itself by carriage returns.
fn last_line_of(text: &str) -> String {
    let mut lines = text.rsplit(['\n', '\r']).map(str::trim);
    lines
        .find(|line| !line.is_empty() && *line != EMPTY_WORDS)
        .unwrap_or("(it said nothing)")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, stop: &Stop) -> (Ending, Vec<u8>) {
        let directory = tempfile::tempdir().unwrap();
        let (output, log) = (directory.path().join("out"), directory.path().join("log"));
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(&output);
        let ending = run(job(command, &output, &log), stop).unwrap();
        (ending, fs::read(&output).unwrap_or_default())
    }

    fn job<'a>(command: Command, output: &'a Path, log: &'a Path) -> Job<'a> {
        Job {
            command,
            output,
            log,
            to_stdout: false,
            time_limit: None,
        }
    }

    #[test]
    fn a_run_is_measured_by_its_own_time_and_memory() {
        // So much memory of ours must not count as the program's.
        let ours = vec![1_u8; 64 << 20];
        let (ending, made) = shell("echo made >\"$1\"; sleep 0.2", &Stop::new());
        let Ending::Done(run) = ending else {
            panic!("{ending:?}")
        };
        assert_eq!(made, b"made\n");
        assert!((0.2..5.0).contains(&run.seconds), "{run:?}");
        assert!(run.cpu_seconds < 0.2, "{run:?}");
        assert!((1 << 16..32 << 20).contains(&run.peak_bytes), "{run:?}");
        assert_eq!(
            ours.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
            64 << 20
        );
    }

    #[test]
    fn a_failed_run_gives_its_last_line_and_a_killed_one_its_signal() {
        let script = "echo why >&2; printf 'part 1\\rpart 2\\r\\n'; echo 'makedumpfile Failed.'; ";
        let (failed, _) = shell(&format!("{script} exit 3"), &Stop::new());
        assert!(
            matches!(&failed, Ending::Failed(3, line) if line == "part 2"),
            "{failed:?}"
        );
        let (killed, _) = shell(&format!("{script} kill -ABRT $$"), &Stop::new());
        assert!(
            matches!(&killed, Ending::Signal(6, line) if line == "part 2"),
            "{killed:?}"
        );
        assert_eq!(last_line_of("\r\n"), "(it said nothing)");
    }

    #[test]
    fn a_wish_to_stop_ends_the_program_at_once() {
        let (stop, begin) = (Stop::new(), Instant::now());
        let stopper = stop.clone();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            stopper.set();
        });
        let directory = tempfile::tempdir().unwrap();
        let (output, log) = (directory.path().join("out"), directory.path().join("log"));
        let mut command = Command::new("sleep");
        command.arg("60");
        let error = run(job(command, &output, &log), &stop).unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let (directory, begin) = (tempfile::tempdir().unwrap(), Instant::now());
        let (output, log) = (directory.path().join("out"), directory.path().join("log"));
        let mut command = Command::new("sleep");
        command.arg("60");
        let job = Job {
            time_limit: Some(Duration::from_millis(50)),
            ..job(command, &output, &log)
        };
        let ending = run(job, &Stop::new()).unwrap();
        assert!(matches!(ending, Ending::TooSlow), "{ending:?}");
        assert!(begin.elapsed() < Duration::from_secs(30));
    }
}
