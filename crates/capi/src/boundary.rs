//! The boundary between C and Rust: error codes, extensible structs, and containment of panics.

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bigiron_memory::Errno;

/// Runs `work` and returns 0 or its error as a negative errno value. `errno` is unchanged.
///
/// A panic is a bug in this library and becomes ENOTRECOVERABLE.
pub fn enter(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    let _errno = ErrnoGuard::new();
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => 0,
        Ok(Err(errno)) => -errno.raw_os_error(),
        Err(_) => -libc::ENOTRECOVERABLE,
    }
}

/// The calling thread's `errno`, restored on drop.
struct ErrnoGuard(c_int);

impl ErrnoGuard {
    fn new() -> Self {
        // SAFETY: the C library returns the address of this thread's errno.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for ErrnoGuard {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// A C struct that begins with its size in bytes, a `usize`, and may grow at its end.
///
/// # Safety
/// All-zero bits must be valid, as well as any value that a program may set. The first field
/// must be the size, and there must be no padding.
pub unsafe trait ExtensibleStruct: Copy {
    /// Size of the first version in bytes.
    const FIRST_SIZE: usize;

    /// Copies the program's struct at `given`. Fields that an older version lacks are zero; for
    /// NULL all fields are. EINVAL if the struct is smaller than the first version; E2BIG if
    /// the program sets fields unknown to this library, as in the kernel's
    /// copy_struct_from_user.
    ///
    /// # Safety
    /// `given` must be NULL, or readable for the number of bytes in its first field.
    unsafe fn copied(given: *const Self) -> Result<Self, Errno> {
        let own = size_of::<Self>();
        // SAFETY: zeros are valid, by the trait's contract.
        let mut copy: Self = unsafe { std::mem::zeroed() };
        if given.is_null() {
            return Ok(copy);
        }
        if !given.is_aligned() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the struct begins with the size, by the caller's contract.
        let size = unsafe { given.cast::<usize>().read() };
        if size < Self::FIRST_SIZE || size > MAX_STRUCT_SIZE {
            return Err(Errno::INVAL);
        }
        // SAFETY: the program's struct has `size` bytes, and `copy` has `own` bytes.
        unsafe {
            let room = (&raw mut copy).cast::<u8>();
            room.copy_from_nonoverlapping(given.cast::<u8>(), size.min(own));
        }
        // SAFETY: the bytes of the program's struct after the known ones.
        let rest = unsafe {
            let unknown = given.cast::<u8>().add(size.min(own));
            std::slice::from_raw_parts(unknown, size - size.min(own))
        };
        if rest.iter().any(|byte| *byte != 0) {
            return Err(Errno::TOOBIG);
        }
        Ok(copy)
    }

    /// Writes `self` to the program's struct, as far as that has space.
    ///
    /// # Safety
    /// As for [`ExtensibleStruct::copied`]; the struct must also be writable.
    unsafe fn give(self, place: *mut Self) -> Result<(), Errno> {
        // SAFETY: by the caller's contract.
        let size = unsafe {
            Self::copied(place)?;
            if place.is_null() {
                return Ok(());
            }
            place.cast::<usize>().read()
        };
        let skip = size_of::<usize>();
        // SAFETY: both structs have this many bytes after the size.
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

/// Upper limit of a struct's size in bytes. Larger values indicate a size that was never set.
const MAX_STRUCT_SIZE: usize = 4096;

/// Converts a C string. EINVAL for NULL and for invalid UTF-8.
///
/// # Safety
/// `text` must be NULL, or a NUL-terminated string that does not change while the result is
/// used.
pub unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Errno> {
    if text.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: by the caller's contract.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    text.to_str().map_err(|_| Errno::INVAL)
}
