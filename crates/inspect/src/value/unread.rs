//! Short reasons why a value could not be read.

use bigiron_kernel::{KernelError, SourceError};

use crate::error::InspectError;

/// Describes briefly why something could not be read.
pub fn why_unread(error: &InspectError) -> String {
    match error {
        InspectError::Kernel(KernelError::NotMapped { .. }) => "not mapped".into(),
        InspectError::Kernel(KernelError::Source(SourceError::Absent { frame, .. })) => {
            format!("page frame {frame} is not in the dump")
        }
        InspectError::Kernel(KernelError::Source(SourceError::Lost { frame, .. })) => {
            format!("page frame {frame} was lost when the dump was written")
        }
        other => other.to_string(),
    }
}
