//! Bare threads in a process that also forks, cancels threads, and makes calls that the kernel
//! permits only to a process of one thread.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bigiron_helpers::run_bare;

/// Runs `child` in a process of one thread. Returns its exit status, or 128 plus the signal.
fn in_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls `child` and ends; the test's other threads hold no locks that it takes.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let status = child();
        // SAFETY: it does not return.
        unsafe { libc::_exit(status) };
    }
    assert!(pid > 0);
    wait_for(pid)
}

fn wait_for(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the status is this function's.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    if libc::WIFSIGNALED(status) {
        return 128 + libc::WTERMSIG(status);
    }
    libc::WEXITSTATUS(status)
}

fn rest() {
    // SAFETY: a system call without arguments.
    unsafe { libc::syscall(libc::SYS_sched_yield) };
}

#[test]
fn process_has_one_thread_again_when_the_work_is_done() {
    let status = in_child(|| {
        // On one processor a woken thread often runs before the one that ends has gone on.
        // SAFETY: a mask of zeros is valid, and the kernel reads it.
        unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(usize::try_from(libc::sched_getcpu()).unwrap_or(0), &mut one);
            libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
        }
        for _ in 0..300 {
            // The caller waits for the others; the end of the last one wakes it.
            run_bare(3, |_, _| {}, &|number| {
                for _ in 0..number * 100 {
                    rest();
                }
            });
            // Changes nothing, and fails in a process of several threads (check_unshare_flags of kernel/fork.c).
            // SAFETY: as said.
            if unsafe { libc::unshare(libc::CLONE_THREAD) } != 0 {
                return 1;
            }
        }
        0
    });
    assert_eq!(status, 0, "1: helpers are still threads of the process");
}

#[test]
fn thread_is_not_cancelled_while_helpers_work_for_it() {
    static AT_WORK: AtomicUsize = AtomicUsize::new(0);
    static DONE: AtomicUsize = AtomicUsize::new(0);
    static CANCELLED: AtomicBool = AtomicBool::new(false);
    const PTHREAD_CANCEL_ASYNCHRONOUS: i32 = 1;
    unsafe extern "C" {
        fn pthread_setcanceltype(kind: i32, before: *mut i32) -> i32;
        fn pthread_cancel(thread: libc::pthread_t) -> i32;
    }
    extern "C" fn caller(_: *mut c_void) -> *mut c_void {
        let mut before = 0;
        // SAFETY: `before` is this function's; nothing that it calls relies on being unwound.
        unsafe { pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &raw mut before) };
        run_bare(4, |_, _| {}, &|_| {
            AT_WORK.fetch_add(1, Ordering::SeqCst);
            while !CANCELLED.load(Ordering::SeqCst) {
                rest();
            }
            for _ in 0..100 {
                rest();
            }
            DONE.fetch_add(1, Ordering::SeqCst);
        });
        loop {
            rest();
        }
    }
    let status = in_child(|| {
        let mut thread: libc::pthread_t = 0;
        // SAFETY: a thread of this process, cancelled and joined once.
        unsafe {
            libc::pthread_create(&raw mut thread, ptr::null(), caller, ptr::null_mut());
            while AT_WORK.load(Ordering::SeqCst) == 0 {
                rest();
            }
            pthread_cancel(thread);
            CANCELLED.store(true, Ordering::SeqCst);
            libc::pthread_join(thread, ptr::null_mut());
        }
        // All helpers ended before the thread did.
        i32::from(AT_WORK.load(Ordering::SeqCst) != DONE.load(Ordering::SeqCst))
    });
    assert_eq!(status, 0, "1: the caller ended before its helpers");
}

#[test]
fn child_of_a_fork_keeps_no_stacks_of_helpers() {
    let (stack, forked) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut status = -1;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            run_bare(2, |_, _| {}, &|number| {
                if number == 0 {
                    return;
                }
                let local = 0_u8;
                stack.store(ptr::from_ref(&local).addr(), Ordering::SeqCst);
                while !forked.load(Ordering::SeqCst) {
                    rest();
                }
            });
        });
        while stack.load(Ordering::SeqCst) == 0 {
            rest();
        }
        let page = stack.load(Ordering::SeqCst) & !4095;
        let mapped = || {
            // SAFETY: msync with this flag only checks that the page is mapped.
            unsafe {
                libc::msync(ptr::with_exposed_provenance_mut(page), 4096, libc::MS_ASYNC) == 0
            }
        };
        assert!(mapped());
        status = in_child(|| i32::from(mapped()));
        forked.store(true, Ordering::SeqCst);
    });
    assert_eq!(status, 0, "1: the helper's stack is mapped in the child");
}
