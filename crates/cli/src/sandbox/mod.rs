//! Confines a process that reads an untrusted dump.
//!
//! If a parser has a bug that lets a crafted dump run its own code, that code can open no file,
//! reach no network and start no program. Two mechanisms of the kernel overlap:
//!
//! - `landlock`: no file can be opened, created, renamed or removed, except for what [`Needs`]
//!   names.
//! - `seccomp`: system calls that reading a dump does not need fail. On x86-64, aarch64 and
//!   riscv64, which seccompiler knows; other architectures have Landlock alone.
//!
//! A kernel that lacks one of them enforces the other, and a kernel without both runs the
//! command unconfined: old kernels must be able to read dumps.

#[cfg(feature = "sandbox")]
mod landlock;
mod needs;
#[cfg(all(
    feature = "sandbox",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
mod seccomp;

pub use needs::Needs;

/// Confines the calling thread and all threads that it starts. What the kernel does not support
/// is left out.
#[cfg(feature = "sandbox")]
pub fn enter(needs: &Needs<'_>) {
    // The number of processors depends on files of the control group, read once.
    let _ = bigiron_helpers::processor_count();
    let _ = landlock::enter(needs);
    #[cfg(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    ))]
    let _ = seccomp::enter(needs);
}

/// Does nothing: the capture build has no sandbox.
#[cfg(not(feature = "sandbox"))]
pub fn enter(_: &Needs<'_>) {}

#[cfg(all(test, feature = "sandbox"))]
mod tests;
