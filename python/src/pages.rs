//! Pages that Python looks at without a copy.

use std::ffi::{c_int, c_void};

use bigiron_kernel::SharedPages;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The bytes of pages that follow each other: `memoryview(pages)` copies nothing.
/// They stay in memory for as long as this or a view of it is there.
#[pyclass(frozen)]
pub struct Pages {
    bytes: SharedPages,
}

impl Pages {
    pub fn new(bytes: SharedPages) -> Self {
        Self { bytes }
    }
}

#[pymethods]
impl Pages {
    fn __len__(&self) -> usize {
        self.bytes.len()
    }

    // SAFETY: Python calls it with a view that it owns, to be filled in.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill in"));
        }
        let (start, len) = {
            let bytes: &[u8] = &slf.get().bytes;
            (bytes.as_ptr(), bytes.len())
        };
        // SAFETY: the bytes are read-only and stay where they are for as long as the
        // object does; the view holds a reference to the object until it is released.
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
