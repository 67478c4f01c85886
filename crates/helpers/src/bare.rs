//! Threads without a C library, for work inside an allocator.
//!
//! A program's `malloc` may call `mmap`. A preloaded `mmap` that starts ordinary threads would
//! call `malloc` again, for their thread-local memory. Bare threads are created by `clone`
//! alone, on stacks of their own. They live for one piece of work, so a fork never finds them
//! half-way, and the C library does not know them.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};
use rustix::param::page_size;
use rustix::process::{Pid, getpid};
use rustix::thread::{futex, sched_yield};

use crate::signals::HeldSignals;

/// Maximum number of threads of one call, including the caller.
pub const MAX_BARE_THREADS: usize = 64;

/// Stack size of each thread, with an inaccessible page below it. The work is a few frames deep.
/// It is a multiple of the page size, which is at most 64 KiB.
const STACK: usize = 64 << 10;

/// A thread of this kernel, by the number that `sched_setaffinity` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(pub i32);

/// Runs `work` in `count` threads, including this one, and returns the number of threads that
/// ran it. `work` receives its number, from 0 up; 0 is the caller.
///
/// All threads exist and wait before `work` begins in any of them, so that the start of one
/// does not disturb the first steps of another. `place` is called in the caller for each thread
/// once it exists, and may bind it to processors. If the system provides fewer threads than
/// requested, the existing ones do all the work.
///
/// The caller's signals are blocked until all is done, as in one long system call. On return,
/// the process has as many threads as before.
///
/// `work` must not allocate, panic, or use anything of the C library except system calls that
/// leave `errno` alone (rustix's): the threads have no thread-local memory of their own.
/// `errno` of the caller may be changed.
pub fn run_bare<W: Fn(usize) + Sync>(
    count: usize,
    mut place: impl FnMut(usize, ThreadId),
    work: &W,
) -> usize {
    let count = count.clamp(1, MAX_BARE_THREADS);
    let Some(stacks) = (count > 1).then(|| Stacks::new(count - 1)).flatten() else {
        work(0);
        return 1;
    };
    // Bare threads inherit the mask for their whole life: a handler of the program must not run
    // on their stacks.
    let signals = HeldSignals::hold();
    let gate = Gate::default();
    let start = Start { gate: &gate, work };
    let mut started = 1;
    while started < count {
        let Some(id) = spawn(stacks.thread(started - 1), &start, started) else {
            break;
        };
        place(started, id);
        started += 1;
    }
    gate.open_when_ready(started - 1);
    work(0);
    for number in 1..started {
        // SAFETY: `spawn` has put a thread there, and it stays until the stacks are dropped.
        let thread = unsafe { &*stacks.thread::<W>(number - 1) };
        thread.wait_for_end();
    }
    drop(stacks);
    drop(signals);
    started
}

/// State shared by all threads of one call.
struct Start<'a, W> {
    gate: &'a Gate,
    work: &'a W,
}

/// A thread's input and identity. It lies above the thread's stack, to keep little on the
/// caller's stack, which may be small.
struct Thread<'a, W> {
    start: &'a Start<'a, W>,
    number: usize,
    /// 0 until the kernel sets it.
    id: AtomicI32,
    /// 1 until the kernel no longer uses the thread's stack (CLONE_CHILD_CLEARTID).
    alive: AtomicU32,
}

impl<W> Thread<'_, W> {
    fn wait_for_end(&self) {
        while self.alive.load(Ordering::Acquire) != 0 {
            // The kernel wakes it by a shared futex (mm_release of kernel/fork.c).
            let _ = futex::wait(&self.alive, futex::Flags::empty(), 1, None);
        }
        wait_until_gone(ThreadId(self.id.load(Ordering::Relaxed)));
    }
}

/// Waits until a thread that has left its stack is no longer part of the process: until then,
/// system calls that require a process of one thread (unshare and setns of a user namespace)
/// would fail. A debugger that has not reaped the thread keeps it there; the wait ends
/// regardless.
fn wait_until_gone(id: ThreadId) {
    const LOOKS: usize = 1000;
    let Some(thread) = Pid::from_raw(id.0) else {
        return;
    };
    for _ in 0..LOOKS {
        // SAFETY: signal 0 sends nothing: the kernel only looks up the thread.
        let status = unsafe {
            libc::syscall(
                libc::SYS_tgkill,
                getpid().as_raw_pid(),
                thread.as_raw_pid(),
                0,
            )
        };
        if status != 0 {
            return;
        }
        sched_yield();
    }
}

/// Holds threads back until all exist.
#[derive(Default)]
struct Gate {
    ready: AtomicU32,
    open: AtomicU32,
}

impl Gate {
    fn wait(&self) {
        self.ready.fetch_add(1, Ordering::AcqRel);
        let _ = futex::wake(&self.ready, futex::Flags::PRIVATE, 1);
        while self.open.load(Ordering::Acquire) == 0 {
            let _ = futex::wait(&self.open, futex::Flags::PRIVATE, 0, None);
        }
    }

    fn open_when_ready(&self, threads: usize) {
        loop {
            let ready = self.ready.load(Ordering::Acquire);
            if ready as usize >= threads {
                break;
            }
            let _ = futex::wait(&self.ready, futex::Flags::PRIVATE, ready, None);
        }
        self.open.store(1, Ordering::Release);
        let _ = futex::wake(&self.open, futex::Flags::PRIVATE, u32::MAX >> 1);
    }
}

/// Starts the thread stored at `place`, on the stack that ends there.
fn spawn<'a, W: Fn(usize) + Sync>(
    place: *mut Thread<'a, W>,
    start: &'a Start<'a, W>,
    number: usize,
) -> Option<ThreadId> {
    const FLAGS: c_int = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_CHILD_CLEARTID;
    let thread = Thread {
        start,
        number,
        id: AtomicI32::new(0),
        alive: AtomicU32::new(1),
    };
    // SAFETY: the place is mapped, aligned, and not otherwise used. The stack below it is freed
    // after `alive` is 0, which the kernel writes once it has left the stack; the thread's
    // references outlive that too, since `run_bare` waits. The thread's code uses no
    // thread-local memory (see `run_bare`), so sharing the caller's does no harm.
    let (id, thread) = unsafe {
        place.write(thread);
        let thread = &*place;
        let id = libc::clone(
            begin::<W>,
            place.cast(),
            FLAGS,
            place.cast(),
            ptr::null_mut::<c_int>(),
            ptr::null_mut::<c_void>(),
            thread.alive.as_ptr(),
        );
        (id, thread)
    };
    thread.id.store(id, Ordering::Relaxed);
    (id > 0).then_some(ThreadId(id))
}

/// Entry point of a thread.
extern "C" fn begin<W: Fn(usize) + Sync>(thread: *mut c_void) -> c_int {
    // SAFETY: `spawn` passed a reference that outlives the thread.
    let thread = unsafe { &*thread.cast::<Thread<'_, W>>() };
    thread.start.gate.wait();
    (thread.start.work)(thread.number);
    0
}

/// Stacks of threads, each with an inaccessible page below it.
struct Stacks {
    base: *mut c_void,
    bytes: usize,
    /// Size of a stack and of the page below it.
    each: usize,
}

impl Stacks {
    fn new(count: usize) -> Option<Self> {
        let guard = page_size();
        let each = STACK + guard;
        let bytes = count * each;
        // SAFETY: a new mapping, at an address chosen by the kernel.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let stacks = Self {
            base: base.ok()?,
            bytes,
            each,
        };
        // A child forked at this moment would keep them for good. SAFETY: they are not in use
        // yet.
        let _ = unsafe { madvise(stacks.base, bytes, Advice::LinuxDontFork) };
        for number in 0..count {
            let lowest = stacks.base.wrapping_byte_add(number * each);
            // SAFETY: the page below a stack that is not in use yet.
            unsafe { mprotect(lowest, guard, MprotectFlags::empty()) }.ok()?;
        }
        Some(stacks)
    }

    /// Returns the place of a stack's thread: its upper end.
    fn thread<'a, W>(&self, number: usize) -> *mut Thread<'a, W> {
        /// Size of that place: enough for a thread, and a multiple of the alignment of stacks.
        const ROOM: usize = 64;
        const { assert!(size_of::<Thread<'_, W>>() <= ROOM) };
        let end = self.base.wrapping_byte_add((number + 1) * self.each);
        end.wrapping_byte_sub(ROOM).cast()
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // SAFETY: all threads that used it have ended.
        let _ = unsafe { munmap(self.base, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::WorkCursor;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_chunk_is_taken_once() {
        let cursor = WorkCursor::new(100_000);
        let (count, sum) = (AtomicU64::new(0), AtomicU64::new(0));
        let ran = run_bare(8, |_, _| {}, &|_| {
            while let Some(chunk) = cursor.next() {
                count.fetch_add(1, Ordering::Relaxed);
                sum.fetch_add(chunk, Ordering::Relaxed);
            }
        });
        assert!((1..=8).contains(&ran));
        assert_eq!(count.into_inner(), 100_000);
        assert_eq!(sum.into_inner(), 99_999 * 100_000 / 2);
    }

    #[test]
    fn all_threads_start_before_the_work_and_end_after_it() {
        let tasks = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let began = AtomicU32::new(0);
        let mut placed = Vec::new();
        let ran = run_bare(
            4,
            |number, id| {
                assert_eq!(began.load(Ordering::SeqCst), 0);
                assert!(std::path::Path::new(&format!("/proc/self/task/{}", id.0)).exists());
                placed.push(number);
            },
            &|_| {
                began.fetch_add(1, Ordering::SeqCst);
            },
        );
        assert_eq!(began.into_inner() as usize, ran);
        assert_eq!(placed, (1..ran).collect::<Vec<_>>());
        // Other tests have threads too; those of this test are recognised by their stacks,
        // which are unmapped.
        assert!(tasks() >= 1);
    }

    #[test]
    fn concurrent_calls_are_independent() {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let cursor = WorkCursor::new(64);
                        let seen = AtomicU64::new(0);
                        run_bare(4, |_, _| {}, &|_| {
                            while let Some(chunk) = cursor.next() {
                                seen.fetch_or(1 << chunk, Ordering::Relaxed);
                            }
                        });
                        assert_eq!(seen.into_inner(), u64::MAX);
                    }
                });
            }
        });
    }

    #[test]
    fn signals_are_deferred_until_the_work_ends() {
        static HANDLED: AtomicU32 = AtomicU32::new(0);
        extern "C" fn handle(_signal: c_int) {
            HANDLED.fetch_add(1, Ordering::SeqCst);
        }
        // SAFETY: the handler only increments a number.
        unsafe { libc::signal(libc::SIGUSR1, handle as *const () as usize) };
        // SAFETY: this thread's own id.
        let this = unsafe { libc::pthread_self() } as usize;
        run_bare(2, |_, _| {}, &|number| {
            if number == 0 {
                // SAFETY: the thread exists: it waits for this work.
                unsafe { libc::pthread_kill(this as libc::pthread_t, libc::SIGUSR1) };
                assert_eq!(HANDLED.load(Ordering::SeqCst), 0);
            }
        });
        assert_eq!(HANDLED.load(Ordering::SeqCst), 1);
    }
}
