//! The reaper itself: `bigiron mem reap`, which only bigiron starts.

use std::ffi::{OsStr, OsString, c_void};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use std::{io, mem, ptr};

use bigiron_helpers::{WorkCursor, processor_count, run_bare};
use rustix::io::Errno;

use super::{COMMAND, socket};
use crate::plain;

/// A reference to a held object.
#[derive(Clone, Copy, Debug)]
enum Reference {
    /// A segment, attached at an address.
    Attached(usize),
    /// An open descriptor.
    Descriptor(RawFd),
}

/// True if a program's arguments, the first of which is its name, make it a reaper.
pub fn requested(mut arguments: impl Iterator<Item = OsString>) -> bool {
    let is = |argument: Option<OsString>, word: &std::ffi::CStr| {
        argument.is_some_and(|argument| argument.as_bytes() == word.to_bytes())
    };
    arguments.next();
    COMMAND.iter().all(|word| is(arguments.next(), word))
}

/// Holds the objects named by the arguments after `mem reap`, confirms that on the socket, and
/// waits there for a byte or the end of the caller. Then releases all objects, and writes the
/// nanoseconds that this took to the socket. Returns the exit code: 1 if an object cannot be
/// held, 2 for invalid arguments.
pub fn serve(arguments: impl Iterator<Item = OsString>) -> i32 {
    let Some(arguments) = ReaperArguments::parse(arguments.skip(1 + COMMAND.len())) else {
        let text: &[u8] = b"bigiron: mem reap is started only by bigiron\n";
        let _ = io::stderr().write_all(text);
        return 2;
    };
    become_a_daemon(&arguments);
    let Some((references, bytes)) = arguments.hold() else {
        return 1;
    };
    if socket::send(arguments.socket, &[1]).is_err() {
        return 0;
    }
    wait_for_release(arguments.socket);

    let began = Instant::now();
    let cursor = WorkCursor::new(references.len() as u64);
    let threads = references.len().min(processor_count());
    run_bare(threads, |_, _| {}, &|_| {
        while let Some(reference) = cursor.next().and_then(|at| references.get(at as usize)) {
            reference.release();
        }
    });
    let took = began.elapsed();

    let nanoseconds = took.as_nanos() as u64;
    let _ = socket::send(arguments.socket, &nanoseconds.to_le_bytes());
    if let Some(path) = &arguments.report
        && let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path)
    {
        let milliseconds = took.as_secs_f64() * 1e3;
        let line = format!("bigiron: reaper: {bytes} bytes freed in {milliseconds:.1} ms\n");
        let _ = file.write_all(line.as_bytes());
    }
    0
}

/// Waits for the caller's byte, or for the caller's end, which has the same meaning. A child
/// forked by another thread of the caller keeps the socket open; the end of the caller is
/// therefore also checked directly.
fn wait_for_release(socket_to_caller: RawFd) {
    const LOOK: Duration = Duration::from_secs(1);
    let caller = peer(socket_to_caller);
    let is_there = |caller| {
        // SAFETY: signal 0 is not delivered.
        let status = unsafe { libc::kill(caller, 0) };
        status == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
    };
    while socket::receive(socket_to_caller, &mut [0], LOOK) == Err(Errno::TIMEDOUT)
        && caller.is_none_or(is_there)
    {}
}

/// Returns the process that created the socket.
fn peer(socket: RawFd) -> Option<i32> {
    let mut who = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes a structure of the given size.
    let status = unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &mut size,
        )
    };
    // 0: the process is outside of this namespace.
    (status == 0 && who.pid > 0).then_some(who.pid)
}

/// Parsed arguments.
#[derive(Debug)]
struct ReaperArguments {
    socket: RawFd,
    segments: Vec<i32>,
    descriptors: Vec<RawFd>,
    report: Option<OsString>,
}

impl ReaperArguments {
    fn parse(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let (mut socket, mut report) = (None, None);
        let (mut segments, mut descriptors) = (Vec::new(), Vec::new());
        for argument in arguments {
            let (kind, rest) = argument.as_bytes().split_first()?;
            let number = || str::from_utf8(rest).ok()?.parse().ok();
            match kind {
                b's' => socket = Some(number()?),
                b'v' => segments.push(number()?),
                b'd' => descriptors.push(number()?),
                b'r' => report = Some(OsStr::from_bytes(rest).to_owned()),
                _ => return None,
            }
        }
        Some(Self {
            socket: socket?,
            segments,
            descriptors,
            report,
        })
    }

    fn keeps(&self, descriptor: RawFd) -> bool {
        descriptor == self.socket || self.descriptors.contains(&descriptor)
    }

    /// Holds all objects and returns their total size in bytes; `None` if one cannot be held.
    fn hold(&self) -> Option<(Vec<Reference>, u64)> {
        let (mut references, mut bytes) = (Vec::new(), 0);
        for id in &self.segments {
            // SAFETY: creates a new mapping at an address that the kernel chooses, and a
            // structure that the kernel fills.
            let (address, state) = unsafe {
                let mut address = libc::shmat(*id, ptr::null(), libc::SHM_RDONLY);
                if address.addr() == usize::MAX {
                    // The segment may be writable but not readable.
                    address = libc::shmat(*id, ptr::null(), 0);
                }
                let mut state: libc::shmid_ds = mem::zeroed();
                libc::shmctl(*id, libc::IPC_STAT, &mut state);
                (address.addr(), state)
            };
            if address == usize::MAX {
                return None;
            }
            bytes += state.shm_segsz as u64;
            references.push(Reference::Attached(address));
        }
        for descriptor in &self.descriptors {
            // SAFETY: the descriptor is only inspected, and not closed here.
            let file = mem::ManuallyDrop::new(unsafe { File::from_raw_fd(*descriptor) });
            bytes += file.metadata().ok()?.blocks() * 512;
            references.push(Reference::Descriptor(*descriptor));
        }
        Some((references, bytes))
    }
}

impl Reference {
    /// Releases the object. Does not allocate, as required of bare threads.
    fn release(self) {
        match self {
            Self::Attached(address) => {
                let address = ptr::with_exposed_provenance::<c_void>(address);
                // SAFETY: the attached memory is not in use.
                unsafe { plain::shmdt(address) };
            }
            // SAFETY: the descriptor was inherited for this purpose.
            Self::Descriptor(descriptor) => drop(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        }
    }
}

/// Detaches from terminal, directory and other descriptors, ignores signals that would end the
/// release halfway, and disables core dumps.
fn become_a_daemon(arguments: &ReaperArguments) {
    // SAFETY: calls on this process, which has one thread, and on sets and limits of this
    // function. Failures are harmless.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, ptr::null_mut());
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
    }
    let mut kept: Vec<RawFd> = arguments.descriptors.clone();
    kept.push(arguments.socket);
    kept.sort_unstable();
    let mut first = 0;
    for descriptor in kept.into_iter().chain([RawFd::MAX]) {
        close_range(first, descriptor - 1, arguments);
        first = descriptor.saturating_add(1);
    }
}

fn close_range(first: RawFd, last: RawFd, arguments: &ReaperArguments) {
    if first > last {
        return;
    }
    // SAFETY: this program does not use those descriptors.
    let status = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if status != 0 {
        // Before Linux 5.9: up to the usual maximum number.
        for descriptor in (first..=last.min(4095)).filter(|number| !arguments.keeps(*number)) {
            // SAFETY: as above.
            unsafe { libc::close(descriptor) };
        }
    }
}
