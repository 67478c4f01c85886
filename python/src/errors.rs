//! Errors, as Python's exceptions.

use bigiron_inspect::InspectError;
use bigiron_kernel::printk::LogError;
use bigiron_kernel::{KernelError, SourceError};
use pyo3::PyErr;
use pyo3::exceptions::{PyException, PyOSError};

pyo3::create_exception!(
    bigiron,
    Error,
    PyException,
    "A dump cannot be opened or understood."
);
pyo3::create_exception!(
    bigiron,
    FaultError,
    Error,
    "The memory is not mapped, not in the dump, or was lost."
);
pyo3::create_exception!(
    bigiron,
    UnknownNameError,
    Error,
    "The kernel has no such symbol, type or member, or does not tell."
);

pub fn of_source(error: SourceError) -> PyErr {
    let text = error.to_string();
    match error {
        SourceError::Absent { .. } | SourceError::Lost { .. } => FaultError::new_err(text),
        SourceError::Io { .. } => PyOSError::new_err(text),
        _ => Error::new_err(text),
    }
}

pub fn of_kernel(error: KernelError) -> PyErr {
    match error {
        KernelError::Source(error) => of_source(error),
        KernelError::NotMapped { .. } => FaultError::new_err(error.to_string()),
        other => Error::new_err(other.to_string()),
    }
}

pub fn of_inspect(error: InspectError) -> PyErr {
    match error {
        InspectError::Kernel(error) => of_kernel(error),
        InspectError::Damaged { .. } => Error::new_err(error.to_string()),
        other => UnknownNameError::new_err(other.to_string()),
    }
}

pub fn of_log(error: LogError) -> PyErr {
    match error {
        LogError::Kernel(error) => of_kernel(error),
        LogError::Write(error) => PyOSError::new_err(error.to_string()),
    }
}
