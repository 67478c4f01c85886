//! Plain system calls whose form depends on the architecture.
//!
//! Each function returns what the C library's `syscall` returns: -1 and `errno`, or the result. The
//! ABI says that none unwinds, so that callers need no landing pads: the preload library's
//! functions must not have any.

use std::ffi::{c_int, c_long, c_void};

/// Memory to map: the arguments of mmap(2).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Mmap {
    /// Wanted address, or 0.
    pub address: usize,
    /// Length in bytes.
    pub length: usize,
    /// PROT_… flags.
    pub protection: c_long,
    /// MAP_… flags.
    pub flags: c_long,
    /// File descriptor, or -1.
    pub descriptor: c_long,
    /// Offset in the file.
    pub offset: i64,
}

/// mmap(2).
///
/// # Safety
/// The mapping replaces none that is in use.
pub unsafe extern "C" fn mmap(arguments: &Mmap) -> c_long {
    // The kernel of s390x reads the arguments from memory (struct s390_mmap_arg_struct of
    // arch/s390/kernel/syscall.c). SAFETY: as for this function; the structure is the kernel's.
    #[cfg(target_arch = "s390x")]
    return unsafe { libc::syscall(libc::SYS_mmap, std::ptr::from_ref(arguments)) };
    // SAFETY: as for this function.
    #[cfg(not(target_arch = "s390x"))]
    return unsafe {
        libc::syscall(
            libc::SYS_mmap,
            arguments.address,
            arguments.length,
            arguments.protection,
            arguments.flags,
            arguments.descriptor,
            arguments.offset,
        )
    };
}

pub use shared_memory::{shmat, shmctl, shmdt, shmget};

#[cfg(not(any(target_arch = "powerpc64", target_arch = "s390x")))]
mod shared_memory {
    use super::{c_int, c_long, c_void};

    /// shmget(2).
    pub extern "C" fn shmget(key: c_int, size: usize, flags: c_int) -> c_long {
        // SAFETY: creates or finds a segment.
        unsafe { libc::syscall(libc::SYS_shmget, key, size, flags) }
    }

    /// shmat(2).
    ///
    /// # Safety
    /// The mapping replaces none that is in use.
    pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> c_long {
        // SAFETY: as for this function.
        unsafe { libc::syscall(libc::SYS_shmat, id, address, flags) }
    }

    /// shmdt(2).
    ///
    /// # Safety
    /// The memory is not in use.
    pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_long {
        // SAFETY: as for this function.
        unsafe { libc::syscall(libc::SYS_shmdt, address) }
    }

    /// shmctl(2).
    ///
    /// # Safety
    /// `argument` points to what the command reads and writes.
    pub unsafe extern "C" fn shmctl(id: c_int, command: c_int, argument: *mut c_void) -> c_long {
        // SAFETY: as for this function.
        unsafe { libc::syscall(libc::SYS_shmctl, id, command, argument) }
    }
}

/// Here these calls have numbers of their own only since Linux 5.1 (commit 0d6040d46817); ipc(2)
/// makes them on all kernels (ksys_ipc of ipc/syscall.c).
#[cfg(any(target_arch = "powerpc64", target_arch = "s390x"))]
mod shared_memory {
    use super::{c_int, c_long, c_void};

    // include/uapi/linux/ipc.h
    const SHMAT: c_int = 21;
    const SHMDT: c_int = 22;
    const SHMGET: c_int = 23;
    const SHMCTL: c_int = 24;
    /// Flag of a command: its argument is the current struct shmid64_ds.
    const IPC_64: c_int = 0x100;

    /// shmget(2).
    pub extern "C" fn shmget(key: c_int, size: usize, flags: c_int) -> c_long {
        // SAFETY: creates or finds a segment.
        unsafe { libc::syscall(libc::SYS_ipc, SHMGET, key, size, c_long::from(flags), 0) }
    }

    /// shmat(2).
    ///
    /// # Safety
    /// The mapping replaces none that is in use.
    pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> c_long {
        let mut place: c_long = -1;
        // SAFETY: as for this function; the kernel writes the address to `place`.
        let status = unsafe {
            libc::syscall(
                libc::SYS_ipc,
                SHMAT,
                id,
                c_long::from(flags),
                &raw mut place,
                address,
            )
        };
        if status == -1 { status } else { place }
    }

    /// shmdt(2).
    ///
    /// # Safety
    /// The memory is not in use.
    pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_long {
        // SAFETY: as for this function.
        unsafe { libc::syscall(libc::SYS_ipc, SHMDT, 0, 0_usize, 0_usize, address) }
    }

    /// shmctl(2).
    ///
    /// # Safety
    /// `argument` points to what the command reads and writes.
    pub unsafe extern "C" fn shmctl(id: c_int, command: c_int, argument: *mut c_void) -> c_long {
        let command = c_long::from(command | IPC_64);
        // SAFETY: as for this function.
        unsafe { libc::syscall(libc::SYS_ipc, SHMCTL, id, command, 0_usize, argument) }
    }
}
