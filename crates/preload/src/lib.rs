//! The library that `bigiron mem run` preloads in front of the C library: helper threads for
//! calls that create, lock and destroy large memory.
//!
//! For small memory, a call costs one comparison in addition to the plain system call. The work
//! for large memory is in `bigiron_memory::call`. This crate contains the C library's function
//! names, `errno`, the policy from the environment, and the trace.
//!
//! If the system refuses threads, advice, files or addresses, calls are the plain ones. One
//! case cannot be handled: a seccomp filter that kills the process for `clone`, `madvise` or
//! `unshare` instead of returning an error. Static programs, programs that make system calls
//! directly, the C library's internal mappings, and set-user-ID programs, for which the dynamic
//! linker ignores this library, are out of reach. If such a program is linked with the library,
//! or /etc/ld.so.preload names it, the library ignores the environment and uses the default
//! policy.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod allocate;
mod calls;
mod cancellation;
mod end;
mod errno;
mod own_memory;
mod sanitizer;
mod stack;
mod start;
mod state;
mod trace;
