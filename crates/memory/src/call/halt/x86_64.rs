//! The signal handler that halts a thread, on x86-64.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use super::super::state::fork_sensitive_word;
use super::super::system;
use super::signal::{HALTED, SIGNAL};

/// Futex word that halted threads wait for; it never changes.
static NEVER: AtomicU32 = AtomicU32::new(0);

/// Pointer to a word that is 1 in the process whose threads are halted and 0 in the child of a
/// fork; and the previous handler of the signal.
static IN_PROCESS: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// The kernel's struct sigaction: the C library's `sigaction` refuses its internal signals.
#[repr(C)]
#[derive(Default)]
struct Action {
    handler: usize,
    flags: u64,
    /// Return address of a handler: the kernel requires one (setup_rt_frame of
    /// arch/x86/kernel/signal_64.c).
    restorer: usize,
    held_back: u64,
}

/// Installs [`halt_here`] as the handler. Returns false if the C library has not installed its
/// handler: it has started no thread then.
pub(super) fn catch_signal() -> bool {
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

/// Counts this thread, and makes it wait forever. After the count it uses no memory, not even
/// its stack, which is freed. Its only system call is futex(2), which a seccomp filter of the
/// thread must allow.
///
/// The signal has no effect in the child of a fork that another thread was making.
extern "C" fn halt_here(signal: c_int, about: *mut c_void, context: *mut c_void) {
    // SAFETY: the page is never unmapped.
    let is_child = unsafe { &*IN_PROCESS.load(Ordering::Relaxed) }.load(Ordering::Relaxed) == 0;
    if is_child {
        let before = HANDLER.load(Ordering::Relaxed);
        // SAFETY: calls the C library's handler, as the kernel would.
        unsafe {
            let before: extern "C" fn(c_int, *mut c_void, *mut c_void) = mem::transmute(before);
            before(signal, about, context);
        }
        return;
    }
    // SAFETY: this increments a number that always exists, then waits for another, which never
    // changes, and does not return. The kernel preserves all registers except rax, rcx and r11.
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
