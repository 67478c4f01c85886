//! The library that `bigiron mem run` preloads in front of the C library: calls that create, lock and
//! destroy large memory, with helper threads.
//!
//! For small memory each costs one comparison before the plain system call. The work for large memory
//! is in `bigiron_memory::call`; this crate holds the C library's names, `errno`, the policy out of the
//! environment, and the trace.
//!
//! If the system refuses threads, advice, files or addresses, calls are the plain ones. One case cannot
//! be guarded against: a seccomp filter that kills the process for `clone`, `madvise` or `unshare` instead
//! of returning an error. Out of reach are static programs, programs that make system calls themselves,
//! the C library's own mappings, and set-user-ID programs, for which the dynamic linker ignores this
//! library.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod allocate;
mod calls;
mod end;
mod own_memory;
mod sanitizer;
mod stack;
mod start;
mod state;
mod trace;
