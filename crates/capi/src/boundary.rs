//! Between C and Rust: results as C has them, structs that may grow, no panic that gets out.

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bigiron_memory::Errno;

/// Runs `work` and gives 0, or its error as C has it, negative. `errno` stays as it is.
///
/// A panic would be a mistake of this library; it becomes ENOTRECOVERABLE.
pub fn enter(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    let _errno = ErrnoGuard::new();
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => 0,
        Ok(Err(errno)) => -errno.raw_os_error(),
        Err(_) => -libc::ENOTRECOVERABLE,
    }
}

/// The calling thread's `errno`, put back at the end.
struct ErrnoGuard(c_int);

impl ErrnoGuard {
    fn new() -> Self {
        // SAFETY: the C library gives the place of this thread's errno.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for ErrnoGuard {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// A struct of C that begins with its own size in bytes, a `usize`, and may grow at its end.
///
/// # Safety
/// All bits zero is valid for it, and so is whatever a program puts there; its first field
/// is the size; it has no padding.
pub unsafe trait ExtensibleStruct: Copy {
    /// Bytes of its first version.
    const FIRST_SIZE: usize;

    /// The struct that the program has at `given`; zeros for what an older one lacks, and all
    /// zeros for NULL. EINVAL if it is smaller than the first version, E2BIG if the program sets
    /// something that this library does not know, as with the kernel's own (copy_struct_from_user).
    ///
    /// # Safety
    /// `given` is NULL, or as many bytes can be read there as its first field says.
    unsafe fn copied(given: *const Self) -> Result<Self, Errno> {
        let own = size_of::<Self>();
        // SAFETY: zeros are valid, by the trait.
        let mut copy: Self = unsafe { std::mem::zeroed() };
        if given.is_null() {
            return Ok(copy);
        }
        if !given.is_aligned() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the size comes first, and the program says that it is there.
        let size = unsafe { given.cast::<usize>().read() };
        if size < Self::FIRST_SIZE || size > MAX_STRUCT_SIZE {
            return Err(Errno::INVAL);
        }
        // SAFETY: the program has `size` bytes there, and `copy` has room for its own.
        unsafe {
            let room = (&raw mut copy).cast::<u8>();
            room.copy_from_nonoverlapping(given.cast::<u8>(), size.min(own));
        }
        // SAFETY: of the program's bytes those behind what is known here.
        let rest = unsafe {
            let unknown = given.cast::<u8>().add(size.min(own));
            std::slice::from_raw_parts(unknown, size - size.min(own))
        };
        if rest.iter().any(|byte| *byte != 0) {
            return Err(Errno::TOOBIG);
        }
        Ok(copy)
    }

    /// Writes `self` to the program's struct, as much of it as that has room for.
    ///
    /// # Safety
    /// As for [`ExtensibleStruct::copied`], and the bytes may be written.
    unsafe fn give(self, place: *mut Self) -> Result<(), Errno> {
        // SAFETY: as the caller promises.
        let size = unsafe {
            Self::copied(place)?;
            if place.is_null() {
                return Ok(());
            }
            place.cast::<usize>().read()
        };
        let skip = size_of::<usize>();
        // SAFETY: both have so many bytes behind their size.
        unsafe {
            let from = (&raw const self).cast::<u8>().add(skip);
            let bytes = size.min(size_of::<Self>()) - skip;
            place
                .cast::<u8>()
                .add(skip)
                .copy_from_nonoverlapping(from, bytes);
        }
        Ok(())
    }
}

/// No struct of any version is larger: a size beyond it was never set.
const MAX_STRUCT_SIZE: usize = 4096;

/// A text of C. EINVAL for NULL and for what is no UTF-8.
///
/// # Safety
/// `text` is NULL, or ends by a NUL and stays as it is for as long as the result is used.
pub unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Errno> {
    if text.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    text.to_str().map_err(|_| Errno::INVAL)
}
