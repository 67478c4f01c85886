//! Pages that Python accesses without a copy.

use std::ffi::{c_int, c_void};

use bigiron_format::memory_limit::Share;
use bigiron_kernel::SharedPages;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The bytes of consecutive pages. `memoryview(pages)` does not copy them. They stay in memory
/// as long as this object or a view of it exists.
#[pyclass(frozen)]
pub struct Pages {
    bytes: SharedPages,
    /// What the caller keeps is not what a dump demands.
    _memory: Share,
}

impl Pages {
    pub fn new(bytes: SharedPages) -> Self {
        Self {
            _memory: Share::new(bytes.len() as u64),
            bytes,
        }
    }
}

#[pymethods]
impl Pages {
    fn __len__(&self) -> usize {
        self.bytes.len()
    }

    // SAFETY: Python passes a view that it owns, to be filled in.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is NULL"));
        }
        let (start, len) = {
            let bytes: &[u8] = &slf.get().bytes;
            (bytes.as_ptr(), bytes.len())
        };
        // SAFETY: the bytes are read-only and do not move while the object exists; the view
        // holds a reference to the object until it is released.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                start.cast_mut().cast::<c_void>(),
                len.cast_signed(),
                1,
                flags,
            )
        };
        match status {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
