//! The reaper: what it holds, and that nobody sees it come or go.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::ffi::{CStr, CString};
use std::fs;
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
const LONG: Duration = Duration::from_secs(20);

/// The tests look at all children and descriptors of this process.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn program() -> CString {
    CString::new(env!("CARGO_BIN_EXE_bigiron")).unwrap()
}

/// A segment that is gone in the end, whatever happens.
struct Segment(i32);

impl Segment {
    fn new() -> Self {
        // SAFETY: it makes a segment.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, SIZE, 0o600 | libc::IPC_CREAT) };
        assert!(id >= 0);
        Self(id)
    }

    fn attach(&self) -> *mut u8 {
        // SAFETY: a new mapping, where the kernel has room.
        let address = unsafe { libc::shmat(self.0, std::ptr::null(), 0) }.cast::<u8>();
        assert_ne!(address.addr(), usize::MAX);
        // SAFETY: all of the mapping, which is this test's.
        unsafe { address.write_bytes(1, SIZE) };
        address
    }

    /// By the kernel's list.
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
    // SAFETY: what `attach` gave, used no more.
    assert_eq!(unsafe { libc::shmdt(address.cast()) }, 0);
}

#[track_caller]
fn eventually(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < LONG, "not after {LONG:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The reapers of this program that hold `word`, by the kernel's list of processes.
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
    // SAFETY: it looks for children, and writes no status.
    let status = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
    if status >= 0 {
        return None;
    }
    std::io::Error::last_os_error().raw_os_error()
}

#[test]
fn a_removed_segment_is_gone_for_all_while_the_reaper_still_works() {
    let _alone = alone();
    let segment = Segment::new();
    let address = segment.attach();
    let reaper = Reaper::start(&program(), &[Held::SystemV(segment.0)], None).unwrap();
    assert_eq!(segment.attached(), Some(2));
    detach(address);
    assert_eq!(segment.attached(), Some(1));
    assert_eq!(segment.remove(), 0);
    let finishing = reaper.go();
    assert!(finishing.wait_until_gone(segment.0));
    assert_eq!(segment.attached(), None);
    assert_eq!(segment.remove(), -1, "it is removed already");
    assert!(finishing.wait(LONG).is_some());
    eventually("the reaper ends", || {
        reapers(&format!("v{}", segment.0)).is_empty()
    });
}

#[test]
fn nothing_of_it_is_seen_in_the_caller() {
    static CHILDREN: AtomicU32 = AtomicU32::new(0);
    extern "C" fn count(_signal: i32) {
        CHILDREN.fetch_add(1, Ordering::SeqCst);
    }
    let _alone = alone();
    // SAFETY: the handler only adds to a number.
    unsafe { libc::signal(libc::SIGCHLD, count as *const () as usize) };
    let segment = Segment::new();
    // Whatever the first one needs once.
    drop(Reaper::start(&program(), &[Held::SystemV(segment.0)], None).unwrap());
    let before = (open_descriptors(), mappings());
    for _ in 0..20 {
        let reaper = Reaper::start(&program(), &[Held::SystemV(segment.0)], None).unwrap();
        assert_eq!(status_of_any_child(), Some(libc::ECHILD));
        assert_eq!(open_descriptors(), before.0 + 1);
        drop(reaper.go());
        assert_eq!((open_descriptors(), mappings()), before);
    }
    assert_eq!(CHILDREN.load(Ordering::SeqCst), 0);
    // SAFETY: no handler is left.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    eventually("all let go", || segment.attached() == Some(0));
}

#[test]
fn it_has_nothing_but_what_it_holds_and_signals_do_not_end_it() {
    let _alone = alone();
    let segment = Segment::new();
    // Inherited, if nobody takes care.
    let file = fs::File::open("/dev/null").unwrap();
    // SAFETY: a flag of this test's descriptor.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) };
    let memory = memory_file();
    let held = [
        Held::SystemV(segment.0),
        Held::Descriptor(memory.as_raw_fd()),
    ];
    let reaper = Reaper::start(&program(), &held, None).unwrap();
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
    thread::sleep(Duration::from_millis(20));
    assert_eq!(segment.attached(), Some(1));
    drop(memory);
    assert!(reaper.go().wait(LONG).is_some());
    assert_eq!(segment.attached(), Some(0));
}

#[test]
fn it_lets_go_when_its_caller_is_gone() {
    let _alone = alone();
    let segment = Segment::new();
    let reaper = Reaper::start(&program(), &[Held::SystemV(segment.0)], None).unwrap();
    assert_eq!(segment.attached(), Some(1));
    drop(reaper);
    eventually("it lets go", || segment.attached() == Some(0));
}

#[test]
fn it_lets_go_when_its_caller_is_gone_and_a_fork_of_it_lives() {
    let _alone = alone();
    let segment = Segment::new();
    let program = program();
    // SAFETY: the child calls what needs neither locks nor memory of the C library, as the reaper's
    // caller does; it is ended by a signal.
    let caller = unsafe { libc::fork() };
    if caller == 0 {
        let reaper = Reaper::start(&program, &[Held::SystemV(segment.0)], None);
        // SAFETY: system calls alone.
        unsafe {
            // The fork has the caller's end of the socket.
            if libc::fork() == 0 {
                libc::sleep(60);
                libc::_exit(0);
            }
            libc::pause();
            std::mem::forget(reaper);
            libc::_exit(1);
        }
    }
    eventually("it is attached", || segment.attached() == Some(1));
    thread::sleep(Duration::from_millis(100));
    let fork = fs::read_to_string(format!("/proc/{caller}/task/{caller}/children")).unwrap();
    let fork: i32 = fork.trim().parse().unwrap();
    // SAFETY: signals to processes that this test has started, which live.
    unsafe {
        assert_eq!(libc::kill(caller, libc::SIGKILL), 0);
        assert_eq!(libc::waitpid(caller, std::ptr::null_mut(), 0), caller);
    }
    eventually("it lets go", || segment.attached() == Some(0));
    // SAFETY: the same.
    unsafe { assert_eq!(libc::kill(fork, libc::SIGKILL), 0) };
}

#[test]
fn threads_that_want_a_reaper_at_once_all_have_one() {
    let _alone = alone();
    let program = &program();
    let before = open_descriptors();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let file = memory_file();
                    let held = [Held::Descriptor(file.as_raw_fd())];
                    match Reaper::start(program, &held, None) {
                        Ok(reaper) => assert!(reaper.go().wait(LONG).is_some()),
                        // On a machine with more to do.
                        Err(error) => assert_eq!(error, Errno::TIMEDOUT),
                    }
                }
            });
        }
    });
    assert_eq!(open_descriptors(), before);
    assert_eq!(status_of_any_child(), Some(libc::ECHILD));
}

#[test]
fn a_killed_reaper_leaves_the_segment_to_the_caller() {
    let _alone = alone();
    let segment = Segment::new();
    let reaper = Reaper::start(&program(), &[Held::SystemV(segment.0)], None).unwrap();
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
    eventually("it is gone", || segment.attached() == Some(0));
    assert_eq!(segment.remove(), 0);
    let finishing = reaper.go();
    assert!(finishing.wait_until_gone(segment.0));
    assert_eq!(finishing.wait(LONG), None);
}

#[test]
fn where_others_are_attached_nobody_waits_for_the_end() {
    let _alone = alone();
    let segment = Segment::new();
    let address = segment.attach();
    let reaper = Reaper::start(&program(), &[Held::SystemV(segment.0)], None).unwrap();
    assert_eq!(segment.remove(), 0);
    assert!(!reaper.go().wait_until_gone(segment.0));
    assert_eq!(segment.attached(), Some(1));
    detach(address);
    assert_eq!(segment.attached(), None);
}

#[test]
fn the_report_says_how_much_was_given_back() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report");
    let path = CString::new(report.to_str().unwrap()).unwrap();
    let files = [memory_file(), memory_file(), memory_file()];
    let held = files
        .each_ref()
        .map(|file| Held::Descriptor(file.as_raw_fd()));
    let reaper = Reaper::start(&program(), &held, Some(&path)).unwrap();
    drop(files);
    assert!(reaper.go().wait(LONG).is_some());
    eventually("there is a report", || {
        let text = fs::read_to_string(&report).unwrap_or_default();
        text.starts_with(&format!(
            "bigiron: reaper: {} bytes given back in ",
            3 * (1 << 20)
        )) && text.ends_with(" ms\n")
    });
}

#[test]
fn a_program_that_is_none_is_not_waited_for() {
    let _alone = alone();
    let segment = Segment::new();
    let held = [Held::SystemV(segment.0)];
    let start = |program: &CStr| Reaper::start(program, &held, None).map(drop);
    assert_eq!(start(c"/no/such/program"), Err(Errno::CHILD));
    assert_eq!(start(c"/bin/false"), Err(Errno::CHILD));
    let directory = tempfile::tempdir().unwrap();
    let slow = directory.path().join("slow");
    fs::write(&slow, "#!/bin/sh\nsleep 0.5\n").unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let slow = CString::new(slow.to_str().unwrap()).unwrap();
    assert_eq!(start(&slow), Err(Errno::TIMEDOUT));
    let gone = Held::SystemV(i32::MAX);
    let nothing = Reaper::start(&program(), &[gone], None).map(drop);
    assert_eq!(nothing, Err(Errno::CHILD));
    let many = [gone; 65];
    let too_many = Reaper::start(&program(), &many, None).map(drop);
    assert_eq!(too_many, Err(Errno::TOOBIG));
    assert_eq!(segment.attached(), Some(0));
}

#[test]
fn by_hand_it_says_what_it_is() {
    let _alone = alone();
    for arguments in [&["mem", "reap"][..], &["mem", "reap", "sx"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bigiron"));
        let output = command.args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stderr.ends_with(b"by bigiron alone\n"));
    }
}

/// A megabyte of memory by a descriptor.
fn memory_file() -> OwnedFd {
    // SAFETY: a new descriptor, or -1, which the next call refuses.
    let file = unsafe { libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: room in this test's own file.
    assert_eq!(unsafe { libc::posix_fallocate(file, 0, 1 << 20) }, 0);
    // SAFETY: nobody else has it.
    unsafe { OwnedFd::from_raw_fd(file) }
}
