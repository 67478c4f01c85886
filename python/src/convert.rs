//! Conversion of results to Python's dictionaries and lists.

use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::Error;

/// Converts `value` to Python's types, with the structure of its JSON form.
pub fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    pythonize::pythonize(py, value).map_err(|error| Error::new_err(error.to_string()))
}
