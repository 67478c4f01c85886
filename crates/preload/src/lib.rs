//! What `bigiron mem run` puts in front of the C library: calls that make, lock and
//! destroy large memory, with helpers.
//!
//! Each is one comparison before the plain system call where memory is small. What is done
//! for large memory is in `bigiron_memory::call`; here are only the C library's names, `errno`, the
//! policy out of the environment, and the trace.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod allocate;
mod calls;
mod end;
mod own_memory;
mod stack;
mod start;
mod trace;
