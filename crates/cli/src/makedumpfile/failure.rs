//! Exit codes.

use bigiron_dump::DumpError;
use bigiron_kernel::KernelError;

use crate::signals;

/// Success.
pub const COMPLETED: u8 = 0;
/// Failure.
pub const FAILED: u8 = 1;
/// VMLINUX or VMCOREINFO belongs to another kernel than VMCORE.
pub const WRONG_RELEASE: u8 = 2;

/// A given file belongs to another kernel.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongRelease(pub String);

/// Returns the exit code for an error; for a signal, the one that shells expect.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let other_kernel = |cause: &(dyn std::error::Error + 'static)| {
        let kernel_error = match cause.downcast_ref() {
            Some(DumpError::Kernel(cause) | DumpError::Filter { cause, .. }) => Some(cause),
            _ => cause.downcast_ref(),
        };
        matches!(kernel_error, Some(KernelError::OtherKernel { .. })) || cause.is::<WrongRelease>()
    };
    if error.chain().any(other_kernel) {
        return WRONG_RELEASE;
    }
    signals::exit_code(error).unwrap_or(FAILED)
}
