//! Conversion of errors to Python's exceptions.

use bigiron_inspect::InspectError;
use bigiron_kernel::printk::LogError;
use bigiron_kernel::{KernelError, SourceError};
use bigiron_memory::Errno;
use bigiron_memory::segment::SegmentError;
use pyo3::PyErr;
use pyo3::exceptions::{PyException, PyOSError, PyValueError};

pyo3::create_exception!(
    bigiron,
    Error,
    PyException,
    "A dump cannot be opened or interpreted."
);
pyo3::create_exception!(
    bigiron,
    FaultError,
    Error,
    "The memory is not mapped, not in the dump, or lost."
);
pyo3::create_exception!(
    bigiron,
    UnknownNameError,
    Error,
    "The kernel has no such symbol, type or member, or provides no information about it."
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
        InspectError::Damaged { .. } | InspectError::TooManySteps | InspectError::Types { .. } => {
            Error::new_err(error.to_string())
        }
        other => UnknownNameError::new_err(other.to_string()),
    }
}

pub fn of_log(error: LogError) -> PyErr {
    match error {
        LogError::Kernel(error) => of_kernel(error),
        LogError::Write(error) => PyOSError::new_err(error.to_string()),
    }
}

pub fn closed() -> PyErr {
    PyValueError::new_err("the segment is closed")
}

pub fn of_segment(error: SegmentError) -> PyErr {
    match error {
        SegmentError::Wrong { .. } => PyValueError::new_err(error.to_string()),
        error => PyOSError::new_err((error.errno().raw_os_error(), error.to_string())),
    }
}

pub fn of_errno(errno: Errno) -> PyErr {
    std::io::Error::from(errno).into()
}
