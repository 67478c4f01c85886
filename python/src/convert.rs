//! What is known of a dump, as Python's dictionaries and lists.

use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::Error;

/// `value` as its JSON would be, in Python's own types.
pub fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    pythonize::pythonize(py, value).map_err(|error| Error::new_err(error.to_string()))
}
