//! The functions that allocate large aligned memory.
//!
//! While all new memory is locked, an allocator's own mapping is populated and locked inside
//! its mmap call, where helpers cannot take part; they can only do so from outside. malloc is
//! not replaced, because that would slow down every program.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use bigiron_memory::call::{self, Block};

use crate::calls::is_small;
use crate::errno::{errno, set_errno};
use crate::state::{STATE, policy};
use crate::trace::{self, Kind};

/// A function of the next allocator, looked up once.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn get(&self) -> *mut c_void {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: only looks up a symbol.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Ordering::Relaxed);
        }
        found
    }
}

static POSIX_MEMALIGN: Next = Next::new(c"posix_memalign");
static ALIGNED_ALLOC: Next = Next::new(c"aligned_alloc");
static MEMALIGN: Next = Next::new(c"memalign");

type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
type Aligned = unsafe extern "C" fn(usize, usize) -> *mut c_void;

/// Calls an allocator, with helpers for a large block. `errno` is the allocator's.
fn allocate<T>(length: usize, plain: impl FnOnce() -> Block<T>) -> T {
    if !is_small(length)
        && let Some(policy) = policy()
    {
        let mut code = errno();
        let (result, outcome) = call::allocate(policy, &STATE, length, || {
            set_errno(code);
            let block = plain();
            code = errno();
            block
        });
        trace::write_call(policy, Kind::Allocate, outcome);
        set_errno(code);
        return result;
    }
    plain().result
}

/// posix_memalign(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    alignment: usize,
    length: usize,
) -> c_int {
    let next = POSIX_MEMALIGN.get();
    if next.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the function of this name has this type.
    let next: PosixMemalign = unsafe { std::mem::transmute(next) };
    allocate(length, || {
        // SAFETY: the program's own arguments.
        let result = unsafe { next(place, alignment, length) };
        let address = if result == 0 {
            // SAFETY: written by the successful call.
            unsafe { *place }.addr()
        } else {
            0
        };
        Block { result, address }
    })
}

/// Calls `next`, an allocator function with the type of aligned_alloc.
unsafe fn aligned(next: &Next, alignment: usize, length: usize) -> *mut c_void {
    let next = next.get();
    if next.is_null() {
        set_errno(libc::ENOMEM);
        return ptr::null_mut();
    }
    // SAFETY: the function has this type.
    let next: Aligned = unsafe { std::mem::transmute(next) };
    allocate(length, || {
        // SAFETY: the program's own arguments.
        let result = unsafe { next(alignment, length) };
        let address = result.addr();
        Block { result, address }
    })
}

/// aligned_alloc(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, length: usize) -> *mut c_void {
    // SAFETY: the function of this name has this type.
    unsafe { aligned(&ALIGNED_ALLOC, alignment, length) }
}

/// memalign(3)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, length: usize) -> *mut c_void {
    // SAFETY: the function of this name has this type.
    unsafe { aligned(&MEMALIGN, alignment, length) }
}
