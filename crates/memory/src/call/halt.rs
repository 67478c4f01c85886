//! The other threads of a process that ends, halted for good.
//!
//! At the end of a process the kernel ends its threads wherever they are (exit_group). Halted a
//! moment before, none of them sees that its memory is already given back: a signal that the C
//! library lets no program hold back brings each into two instructions that use no memory.

use std::ffi::{CStr, c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, RawDir, open, readlinkat_raw};
use rustix::io::Errno;
use rustix::thread::gettid;
use rustix::time::Timespec;

use super::HeldSignals;
use super::state::fork_sensitive_word;
use super::system;
use crate::c_string_buf::CStringBuf;
use crate::engine::now;
use crate::machine::{read_text, status};

/// The signal by which the C library has all threads change their user (SIGSETXID of
/// sysdeps/unix/sysv/linux/internal-signals.h of glibc).
const SIGNAL: usize = 33;

/// How many threads are halted.
static HALTED: AtomicU32 = AtomicU32::new(0);

/// What they wait for.
static NEVER: AtomicU32 = AtomicU32::new(0);

/// 1 in the process whose threads are halted, 0 in the child of a fork; and what handled the signal
/// before.
static IN_PROCESS: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Whether somebody has begun to halt the others.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Halts all threads but this one, and tells whether that succeeded and nobody else uses the memory of this
/// process, neither another process nor the kernel. In any case this process must end then,
/// without waiting for any thread.
///
/// Not tried where somebody watches the process who would see the signals, where a filter of
/// system calls may end it, and while another thread does the same. `within` is for all of it.
pub(super) fn halt_others(_held: &HeldSignals, within: Duration) -> bool {
    let deadline = now() + within;
    !is_watched()
        && !BEGUN.swap(true, Ordering::AcqRel)
        && catch_signal()
        && halt(deadline)
        && !others_need_memory(deadline)
}

/// How many threads this process has.
pub(super) fn count_threads() -> usize {
    status(["Threads:"]).map_or(usize::MAX, |[count]| count as usize)
}

/// By a debugger, or by a filter of system calls.
fn is_watched() -> bool {
    status(["TracerPid:", "Seccomp:"]) != Some([0, 0])
}

/// struct kernel_sigaction. `sigaction` of the C library refuses its own signals.
#[repr(C)]
#[derive(Default)]
struct Action {
    handler: usize,
    flags: u64,
    /// Where a handler returns to: the kernel wants one (setup_rt_frame of
    /// arch/x86/kernel/signal_64.c).
    restorer: usize,
    held_back: u64,
}

/// Not where the C library has no handler of its own: it has started no thread then.
#[cfg(target_arch = "x86_64")]
fn catch_signal() -> bool {
    const SA_RESTORER: u64 = 0x0400_0000;
    let change = |new: usize, old: &mut Action| {
        let arguments = [SIGNAL, new, ptr::from_mut(old).addr(), size_of::<u64>()];
        system::call(libc::SYS_rt_sigaction, arguments).is_ok()
    };
    let mut before = Action::default();
    if !change(0, &mut before)
        || before.flags & SA_RESTORER == 0
        || [libc::SIG_DFL, libc::SIG_IGN].contains(&before.handler)
    {
        return false;
    }
    let word = fork_sensitive_word();
    if word.is_null() {
        return false;
    }
    // SAFETY: the page is never unmapped.
    unsafe { &*word }.store(1, Ordering::Relaxed);
    IN_PROCESS.store(word, Ordering::Relaxed);
    HANDLER.store(before.handler, Ordering::Relaxed);
    let action = Action {
        handler: halt_here as *const () as usize,
        flags: (libc::SA_ONSTACK | libc::SA_SIGINFO) as u64 | SA_RESTORER,
        restorer: before.restorer,
        held_back: u64::MAX,
    };
    change((&raw const action).addr(), &mut before)
}

/// Elsewhere threads go on.
#[cfg(not(target_arch = "x86_64"))]
fn catch_signal() -> bool {
    false
}

/// Counts this thread, and has it wait for ever. From the count on it uses no memory, not even
/// its stack, which is given back. It makes no system call but futex(2), which a filter that a thread
/// has for itself must let through.
///
/// In the child of a fork that another thread was making it is as if nothing had been caught.
#[cfg(target_arch = "x86_64")]
extern "C" fn halt_here(signal: c_int, about: *mut c_void, context: *mut c_void) {
    // SAFETY: the page is never unmapped.
    let is_child = unsafe { &*IN_PROCESS.load(Ordering::Relaxed) }.load(Ordering::Relaxed) == 0;
    if is_child {
        let before = HANDLER.load(Ordering::Relaxed);
        // SAFETY: the C library's handler, as the kernel would call it.
        unsafe {
            let before: extern "C" fn(c_int, *mut c_void, *mut c_void) = mem::transmute(before);
            before(signal, about, context);
        }
        return;
    }
    // SAFETY: it adds to a number that is always there, and then waits for another to change, which
    // nobody does; it never returns. The kernel keeps all registers but rax, rcx and r11.
    unsafe {
        std::arch::asm!(
            "lock inc dword ptr [{halted}]",
            "2:",
            "mov eax, {futex}",
            "syscall",
            "jmp 2b",
            halted = in(reg) HALTED.as_ptr(),
            futex = const libc::SYS_futex,
            in("rdi") NEVER.as_ptr(),
            in("rsi") libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            in("rdx") 0,
            in("r10") 0,
            options(noreturn),
        )
    }
}

/// Asks all others to halt until all have.
fn halt(deadline: Duration) -> bool {
    const FIRST_WAIT: Duration = Duration::from_millis(1);
    let mut rounds = 0;
    let mut wait = FIRST_WAIT;
    while now() < deadline {
        // In this order: those that are halted stay in the list. A thread that another made while
        // the list was read, and that is not in it, is in the next one.
        let halted = HALTED.load(Ordering::Acquire);
        let Some(others) = count_others() else {
            return false;
        };
        rounds = if others == halted { rounds + 1 } else { 0 };
        if rounds == 2 {
            return true;
        }
        if rounds == 0 {
            signal_others();
            // Not for ever: one of them may have ended instead.
            wait_for(others, deadline.min(now() + wait));
            let is_late = HALTED.load(Ordering::Acquire) < others;
            if is_late && wait == FIRST_WAIT && has_workers_of_kernel() {
                return false;
            }
            wait *= 2;
        }
    }
    false
}

fn wait_for(halted: u32, deadline: Duration) {
    const STEP: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 50_000,
    };
    while HALTED.load(Ordering::Acquire) < halted && now() < deadline {
        let _ = rustix::thread::nanosleep(&STEP);
    }
}

/// Whether the kernel itself has threads in this process, of io_uring or vhost: signals do not
/// halt them.
fn has_workers_of_kernel() -> bool {
    /// PF_IO_WORKER and PF_USER_WORKER of include/linux/sched.h.
    const WORKERS: u64 = 0x10 | 0x4000;
    let mut found = false;
    for_each_thread(|thread| {
        let mut text = [0; 1024];
        let stat = read_of_thread(thread, "stat", &mut text).unwrap_or_default();
        // Behind the name, which may hold anything: state, parent, group, session, terminal, its group.
        let flags = stat.rsplit(')').next().unwrap_or_default();
        let flags = flags.split_ascii_whitespace().nth(6);
        found = flags
            .and_then(|flags| flags.parse().ok())
            .is_some_and(|flags: u64| flags & WORKERS != 0);
        !found
    });
    found
}

/// Threads of this process but this one, and but the first where that has ended: it stays
/// in the list until the process ends.
fn count_others() -> Option<u32> {
    let mut threads = 0_u32;
    for_each_thread(|_| {
        threads += 1;
        true
    })?;
    let mut text = [0; 4096];
    let first = read_text(c"/proc/self/status", &mut text).ok()?;
    let ended = u32::from(first.lines().any(|line| line.starts_with("State:\tZ")));
    threads.checked_sub(1 + ended)
}

fn signal_others() {
    let this = gettid().as_raw_nonzero().get();
    let process = system::process() as usize;
    for_each_thread(|thread| {
        if thread != this {
            let _ = system::call(libc::SYS_tgkill, [process, thread as usize, SIGNAL]);
        }
        true
    });
}

/// Whether something would still use private memory though no thread does.
fn others_need_memory(deadline: Duration) -> bool {
    let mut needed = false;
    let has_children = has_children();
    let threads = for_each_thread(|thread| {
        needed = holds_robust_locks(thread) || has_children && has_child_in_memory(thread);
        !needed && now() < deadline
    });
    needed || threads.is_none() || handles_page_faults(deadline) || now() >= deadline
}

/// Whether a thread, 0 for this one, holds locks of which the kernel tells others at its end: it
/// finds them by a list that may go through private memory (exit_robust_list of kernel/futex).
/// Of a thread that runs the list may change at any time.
pub(super) fn holds_robust_locks(thread: i32) -> bool {
    let (mut head, mut length) = (0_usize, 0_usize);
    let arguments = [
        thread as usize,
        (&raw mut head).addr(),
        (&raw mut length).addr(),
    ];
    if system::call(libc::SYS_get_robust_list, arguments).is_err() {
        return true;
    }
    if head == 0 {
        return false;
    }
    // SAFETY: the list that the C library registered for the thread begins with a
    // pointer, to itself where it is empty. It stays while the thread does.
    let first = unsafe { ptr::with_exposed_provenance::<usize>(head).read() };
    first != head
}

/// Whether any thread of this process has a child, of any kind.
fn has_children() -> bool {
    let any = libc::P_ALL as usize;
    let how = (libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL) as usize;
    system::call(libc::SYS_waitid, [any, 0, 0, how]) != Err(Errno::CHILD)
}

/// Whether a child of a thread runs in this memory (CLONE_VM without CLONE_THREAD).
fn has_child_in_memory(thread: i32) -> bool {
    const KCMP_VM: usize = 1;
    const LIST: usize = 4096;
    let mut list = [0; LIST];
    let process = system::process() as usize;
    let children = read_of_thread(thread, "children", &mut list);
    let Some(children) = children.filter(|children| children.len() < LIST) else {
        return true;
    };
    children.split_ascii_whitespace().any(|child| {
        let child = child.parse::<usize>().unwrap_or(process);
        // 0 is the same memory; it is no error that the child has ended.
        match system::call(libc::SYS_kcmp, [process, child, KCMP_VM]) {
            Ok(order) => order == 0,
            Err(error) => error != Errno::SRCH,
        }
    })
}

/// Whether this process handles page faults of its own memory: giving that back would wait until
/// one of the halted threads has heard of it (userfaultfd_remove of fs/userfaultfd.c).
fn handles_page_faults(deadline: Duration) -> bool {
    let mut found = false;
    let seen = for_each_name(c"/proc/thread-self/fd", |folder, descriptor| {
        let mut target = [0; 64];
        found = readlinkat_raw(folder, descriptor, &mut target[..])
            .is_ok_and(|length| target.get(..length) == Some(b"anon_inode:[userfaultfd]"));
        !found && now() < deadline
    });
    found || seen.is_none()
}

/// What a file of a thread's folder in /proc says.
fn read_of_thread<'a>(thread: i32, name: &str, room: &'a mut [u8]) -> Option<&'a str> {
    let path = CStringBuf::<48>::format(format_args!("/proc/self/task/{thread}/{name}"))?;
    read_text(path.as_c_str(), room).ok()
}

/// Gives each thread of this process to `see`, until that wants no more. `None` where they cannot
/// be told.
fn for_each_thread(mut see: impl FnMut(i32) -> bool) -> Option<()> {
    for_each_name(c"/proc/self/task", |_, name| {
        let number = name.to_str().ok().and_then(|name| name.parse().ok());
        number.is_none_or(&mut see)
    })
}

/// Gives each name in a folder to `see`, with the folder, until that wants no more. `None` where
/// the folder cannot be read.
fn for_each_name(path: &CStr, mut see: impl FnMut(BorrowedFd<'_>, &CStr) -> bool) -> Option<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(path, flags, Mode::empty()).ok()?;
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&folder, &mut room);
    while let Some(entry) = entries.next() {
        if !see(folder.as_fd(), entry.ok()?.file_name()) {
            break;
        }
    }
    Some(())
}
