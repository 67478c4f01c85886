//! Crash dumps and large memory for Python: the native classes of the package `python/bigiron`.
//!
//! Reads and computations release the GIL, so that threads run concurrently.

mod convert;
mod dump;
mod errors;
mod locking;
mod memory;
mod memory_limit;
mod pages;
mod segment;

use pyo3::prelude::*;

/// The native part of the package `bigiron`; an implementation detail.
#[pymodule]
mod _bigiron {
    #[pymodule_export]
    use super::dump::Dump;
    #[pymodule_export]
    use super::errors::{Error, FaultError, UnknownNameError};
    #[pymodule_export]
    use super::memory::{attach, create, explain, lock, populate, prewarm, remove, unlock};
    #[pymodule_export]
    use super::memory_limit::set_memory_limit;
    #[pymodule_export]
    use super::pages::Pages;
    #[pymodule_export]
    use super::segment::MemorySegment;
}
