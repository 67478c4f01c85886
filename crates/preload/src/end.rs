//! The end of the program.

use std::ffi::{c_int, c_void};
use std::ptr;

use bigiron_memory::call::{End, end_of_process};

use crate::sanitizer;
use crate::state::{STATE, addresses, policy};
use crate::trace::{self, Kind};

unsafe extern "C" {
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn fcloseall() -> c_int;
}

/// Registers the exit handler. Handlers run in reverse order: this one after all handlers that
/// the program and later libraries register, and after the destructors of libraries.
pub(crate) fn prepare() {
    // SAFETY: the handler stays valid, because this library is never unloaded.
    unsafe { on_exit(at_exit, ptr::null_mut()) };
}

/// Performs the rest of exit(3), because the private memory is freed here.
extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    if end(Some(close_streams)).is_final {
        leave(status);
    }
}

/// Closes the streams as exit(3) does after all handlers, whatever other threads do meanwhile.
fn close_streams() -> bool {
    if sanitizer::watches_memory() {
        return false;
    }
    // SAFETY: this thread no longer uses streams, and their locks exclude other threads.
    unsafe { fcloseall() };
    true
}

fn end(last_steps: Option<fn() -> bool>) -> End {
    let Some(policy) = policy() else {
        return End::default();
    };
    // SAFETY: belongs to this thread; it is in the C library's data of the thread.
    let thread = unsafe { libc::__errno_location() }.addr();
    let [first, second] = addresses();
    let keep = [first, second, trace::address(), thread];
    let end = end_of_process(policy, &STATE, last_steps, &keep);
    trace::write_call(policy, Kind::Exit, end.outcome);
    trace::write_totals(policy);
    end
}

fn leave(status: c_int) -> ! {
    loop {
        // SAFETY: ends the process.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// _exit(2)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    end(Some(|| true));
    leave(status)
}

/// _Exit(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: the same function under another name.
    unsafe { _exit(status) }
}
