//! The reaper: the memory it holds, and the absence of side effects in the caller.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::ffi::{CStr, CString};
use std::fs;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bigiron_memory::Errno;
use bigiron_memory::reaper::{Held, Reaper};

const SIZE: usize = 64 << 20;
/// Time limit for conditions that must become true.
const LONG: Duration = Duration::from_secs(600);

/// Serialises the tests, since they inspect all children and descriptors of this process.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn program() -> CString {
    CString::new(env!("CARGO_BIN_EXE_bigiron")).unwrap()
}

/// Starts a reaper with a long time limit: that of `Reaper::start` is for programs that can do
/// without one.
fn start(held: &[Held]) -> Result<Reaper, Errno> {
    Reaper::start_within(&program(), held, None, LONG)
}

/// A segment, removed on drop.
struct Segment(i32);

impl Segment {
    fn new() -> Self {
        // SAFETY: creates a segment.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, SIZE, 0o600 | libc::IPC_CREAT) };
        assert!(id >= 0);
        Self(id)
    }

    fn attach(&self) -> *mut u8 {
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let address = unsafe { libc::shmat(self.0, std::ptr::null(), 0) }.cast::<u8>();
        assert_ne!(address.addr(), usize::MAX);
        // SAFETY: the whole mapping, which belongs to this test.
        unsafe { address.write_bytes(1, SIZE) };
        address
    }

    /// Returns its number of attachments from the kernel's list.
    fn attached(&self) -> Option<u32> {
        let list = fs::read_to_string("/proc/sysvipc/shm").unwrap();
        let line = list.lines().skip(1).find(|line| {
            line.split_ascii_whitespace().nth(1) == Some(self.0.to_string().as_str())
        })?;
        line.split_ascii_whitespace().nth(6)?.parse().ok()
    }

    fn remove(&self) -> i32 {
        // SAFETY: a command without an argument.
        unsafe { libc::shmctl(self.0, libc::IPC_RMID, std::ptr::null_mut()) }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.remove();
    }
}

fn detach(address: *mut u8) {
    // SAFETY: `attach` returned the address, which is not used again.
    assert_eq!(unsafe { libc::shmdt(address.cast()) }, 0);
}

#[track_caller]
fn eventually(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < LONG, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the directories in /proc of the reapers of this program that hold `word`.
fn reapers(word: &str) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        words.get(1..3) == Some(&[&b"mem"[..], b"reap"]) && words.contains(&word.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|entry| entry.path())
        .filter(is_ours)
        .collect()
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .count()
}

fn status_of_any_child() -> Option<i32> {
    // SAFETY: looks for children, and writes no status.
    let status = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
    if status >= 0 {
        return None;
    }
    std::io::Error::last_os_error().raw_os_error()
}

#[test]
fn removed_segment_is_gone_while_the_reaper_still_works() {
    let _alone = alone();
    let segment = Segment::new();
    let address = segment.attach();
    let reaper = start(&[Held::SystemV(segment.0)]).unwrap();
    assert_eq!(segment.attached(), Some(2));
    detach(address);
    assert_eq!(segment.attached(), Some(1));
    assert_eq!(segment.remove(), 0);
    let finishing = reaper.go();
    eventually("the id is gone", || finishing.wait_until_gone(segment.0));
    assert_eq!(segment.attached(), None);
    assert_eq!(segment.remove(), -1, "it is removed already");
    assert!(finishing.wait(LONG).is_some());
    eventually("the reaper ends", || {
        reapers(&format!("v{}", segment.0)).is_empty()
    });
}

/// Runs in a process of its own, since threads of other tests map and unmap their stacks.
#[test]
fn reaper_changes_nothing_in_its_caller() {
    const ALONE: &str = "BIGIRON_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return check_caller_is_unchanged();
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "reaper_changes_nothing_in_its_caller"])
        .args(["--test-threads", "1"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn check_caller_is_unchanged() {
    static CHILDREN: AtomicU32 = AtomicU32::new(0);
    extern "C" fn count(_signal: i32) {
        CHILDREN.fetch_add(1, Ordering::SeqCst);
    }
    let _alone = alone();
    // SAFETY: the handler only increments a counter.
    unsafe { libc::signal(libc::SIGCHLD, count as *const () as usize) };
    let segment = Segment::new();
    // The first start initialises state that later ones reuse.
    drop(start(&[Held::SystemV(segment.0)]).unwrap());
    let before = (open_descriptors(), mappings());
    for _ in 0..20 {
        let reaper = start(&[Held::SystemV(segment.0)]).unwrap();
        assert_eq!(status_of_any_child(), Some(libc::ECHILD));
        assert_eq!(open_descriptors(), before.0 + 1);
        drop(reaper.go());
        assert_eq!((open_descriptors(), mappings()), before);
    }
    assert_eq!(CHILDREN.load(Ordering::SeqCst), 0);
    // SAFETY: restores the default action.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    eventually("all reapers detach", || segment.attached() == Some(0));
}

#[test]
fn reaper_inherits_only_what_it_holds_and_survives_signals() {
    let _alone = alone();
    let segment = Segment::new();
    // A descriptor without close-on-exec.
    let file = fs::File::open("/dev/null").unwrap();
    // SAFETY: sets a flag of this test's descriptor.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) };
    let memory = memory_file();
    let held = [
        Held::SystemV(segment.0),
        Held::Descriptor(memory.as_raw_fd()),
    ];
    let reaper = start(&held).unwrap();
    let found = reapers(&format!("v{}", segment.0));
    let [process] = &found[..] else {
        panic!("{found:?}");
    };
    let descriptors = fs::read_dir(process.join("fd")).unwrap().count();
    assert_eq!(descriptors, 2, "the socket and the file");
    assert_eq!(
        fs::read_link(process.join("cwd")).unwrap(),
        PathBuf::from("/")
    );
    let stat = fs::read_to_string(process.join("stat")).unwrap();
    let fields: Vec<_> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let number = process.file_name().unwrap().to_str().unwrap();
    assert_eq!(
        (fields[2], fields[3]),
        (number, number),
        "its own leader in both"
    );
    assert_ne!(
        fields[1],
        std::process::id().to_string(),
        "no child of this process"
    );
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGQUIT,
    ] {
        // SAFETY: a signal to a process that this test has started.
        assert_eq!(unsafe { libc::kill(number.parse().unwrap(), signal) }, 0);
    }
    assert_eq!(segment.attached(), Some(1));
    drop(memory);
    assert!(reaper.go().wait(LONG).is_some());
    assert_eq!(segment.attached(), Some(0));
}

#[test]
fn reaper_detaches_when_its_caller_has_ended() {
    let _alone = alone();
    let segment = Segment::new();
    let reaper = start(&[Held::SystemV(segment.0)]).unwrap();
    assert_eq!(segment.attached(), Some(1));
    drop(reaper);
    eventually("the reaper detaches", || segment.attached() == Some(0));
}

#[test]
fn reaper_detaches_when_its_caller_has_ended_but_a_fork_of_it_lives() {
    let _alone = alone();
    let segment = Segment::new();
    let (from_fork, to_test) = std::io::pipe().unwrap();
    // SAFETY: the child calls what needs neither locks nor memory of the C library, as the reaper's
    // caller does; it is ended by a signal.
    let caller = unsafe { libc::fork() };
    if caller == 0 {
        let _reaper = start(&[Held::SystemV(segment.0)]);
        // SAFETY: system calls alone.
        unsafe {
            // The fork inherits the caller's end of the socket.
            if libc::fork() == 0 {
                let id = libc::getpid().to_ne_bytes();
                libc::write(to_test.as_raw_fd(), id.as_ptr().cast(), id.len());
            }
            loop {
                libc::pause();
            }
        }
    }
    let mut id = [0; 4];
    (&from_fork).read_exact(&mut id).unwrap();
    let fork = i32::from_ne_bytes(id);
    assert_eq!(segment.attached(), Some(1));
    // SAFETY: signals to processes that this test has started, which live.
    unsafe {
        assert_eq!(libc::kill(caller, libc::SIGKILL), 0);
        assert_eq!(libc::waitpid(caller, std::ptr::null_mut(), 0), caller);
    }
    eventually("the reaper detaches", || segment.attached() == Some(0));
    // SAFETY: the same.
    unsafe { assert_eq!(libc::kill(fork, libc::SIGKILL), 0) };
}

#[test]
fn threads_can_start_reapers_concurrently() {
    let _alone = alone();
    let before = open_descriptors();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let file = memory_file();
                    let held = [Held::Descriptor(file.as_raw_fd())];
                    assert!(start(&held).unwrap().go().wait(LONG).is_some());
                }
            });
        }
    });
    assert_eq!(open_descriptors(), before);
    assert_eq!(status_of_any_child(), Some(libc::ECHILD));
}

#[test]
fn killed_reaper_leaves_the_segment_to_the_caller() {
    let _alone = alone();
    let segment = Segment::new();
    let reaper = start(&[Held::SystemV(segment.0)]).unwrap();
    let found = reapers(&format!("v{}", segment.0));
    let number = found[0]
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    // SAFETY: a signal to a process that this test has started.
    assert_eq!(unsafe { libc::kill(number, libc::SIGKILL) }, 0);
    eventually("the reaper is gone", || segment.attached() == Some(0));
    assert_eq!(segment.remove(), 0);
    let finishing = reaper.go();
    assert!(finishing.wait_until_gone(segment.0));
    assert_eq!(finishing.wait(LONG), None);
}

#[test]
fn caller_does_not_wait_while_others_are_attached() {
    let _alone = alone();
    let segment = Segment::new();
    let address = segment.attach();
    let reaper = start(&[Held::SystemV(segment.0)]).unwrap();
    assert_eq!(segment.remove(), 0);
    assert!(!reaper.go().wait_until_gone(segment.0));
    assert_eq!(segment.attached(), Some(1));
    detach(address);
    assert_eq!(segment.attached(), None);
}

#[test]
fn report_has_the_bytes_that_were_freed() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report");
    let path = CString::new(report.to_str().unwrap()).unwrap();
    let files = [memory_file(), memory_file(), memory_file()];
    let held = files
        .each_ref()
        .map(|file| Held::Descriptor(file.as_raw_fd()));
    let reaper = Reaper::start_within(&program(), &held, Some(&path), LONG).unwrap();
    drop(files);
    assert!(reaper.go().wait(LONG).is_some());
    eventually("there is a report", || {
        let text = fs::read_to_string(&report).unwrap_or_default();
        text.starts_with(&format!(
            "bigiron: reaper: {} bytes freed in ",
            3 * (1 << 20)
        )) && text.ends_with(" ms\n")
    });
}

#[test]
fn other_programs_are_rejected_as_reaper() {
    let _alone = alone();
    let segment = Segment::new();
    let held = [Held::SystemV(segment.0)];
    let start_program = |program: &CStr| Reaper::start_within(program, &held, None, LONG).map(drop);
    assert_eq!(start_program(c"/no/such/program"), Err(Errno::CHILD));
    assert_eq!(start_program(c"/bin/false"), Err(Errno::CHILD));
    let directory = tempfile::tempdir().unwrap();
    let slow = directory.path().join("slow");
    fs::write(&slow, "#!/bin/sh\nexec sleep 60\n").unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let slow = CString::new(slow.to_str().unwrap()).unwrap();
    let too_late = Reaper::start(&slow, &held, None).map(drop);
    assert_eq!(too_late, Err(Errno::TIMEDOUT));
    let gone = Held::SystemV(i32::MAX);
    assert_eq!(start(&[gone]).map(drop), Err(Errno::CHILD));
    assert_eq!(start(&[gone; 65]).map(drop), Err(Errno::TOOBIG));
    assert_eq!(segment.attached(), Some(0));
}

#[test]
fn manual_start_is_rejected() {
    let _alone = alone();
    for arguments in [&["mem", "reap"][..], &["mem", "reap", "sx"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bigiron"));
        let output = command.args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stderr.ends_with(b"only by bigiron\n"));
    }
}

/// Returns a memfd with a megabyte of memory.
fn memory_file() -> OwnedFd {
    // SAFETY: a new descriptor, or -1, which the next call refuses.
    let file = unsafe { libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: allocates space in this test's own file.
    assert_eq!(unsafe { libc::posix_fallocate(file, 0, 1 << 20) }, 0);
    // SAFETY: nothing else owns the descriptor.
    unsafe { OwnedFd::from_raw_fd(file) }
}
