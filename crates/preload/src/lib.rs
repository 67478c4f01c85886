//! What `bigiron mem run` puts in front of the C library: calls that make, lock and
//! destroy large memory, with helpers.
//!
//! Each is one comparison before the plain system call where memory is small. What is done
//! for large memory is in `bigiron_memory::call`; here are only the C library's names, `errno`, the
//! policy out of the environment, and the trace.
//!
//! Where the system gives no threads, advice, files or addresses, calls are the plain ones. What
//! cannot be guarded: a filter of system calls that kills for `clone`, `madvise` or `unshare`
//! instead of refusing them. Not reached are static programs, those that make system calls
//! themselves, what the C library maps for itself, and set-user-id programs, for which
//! the dynamic linker ignores this library.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod allocate;
mod calls;
mod end;
mod own_memory;
mod sanitizer;
mod stack;
mod start;
mod trace;
