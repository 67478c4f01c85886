//! Crash dumps and large memory for Python: the classes that `python/bigiron` is written upon.
//!
//! What reads or computes does so without Python's lock, so that threads run at the
//! same time.

mod convert;
mod dump;
mod errors;
mod memory;
mod pages;
mod segment;

use pyo3::prelude::*;

/// The native half of the package `bigiron`.
#[pymodule]
mod _bigiron {
    #[pymodule_export]
    use super::dump::Dump;
    #[pymodule_export]
    use super::errors::{Error, FaultError, UnknownNameError};
    #[pymodule_export]
    use super::memory::{attach, create, explain, lock, populate, prewarm, remove, unlock};
    #[pymodule_export]
    use super::pages::Pages;
    #[pymodule_export]
    use super::segment::MemorySegment;
}
