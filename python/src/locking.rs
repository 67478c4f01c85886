//! Locking of memory by helpers.

use bigiron_memory::{Region, Settings, call, engine, policy};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::of_errno;

/// Locks a region as mlock, with at most `helpers` helpers.
pub fn lock_region(py: Python<'_>, region: Region, helpers: Option<usize>) -> PyResult<()> {
    let policy = policy::Policy {
        settings: settings_of(helpers)?,
        ..policy::Policy::default()
    };
    py.detach(|| call::mlock(&policy, region.start(), region.length()).result)
        .map_err(of_errno)
}

/// Returns the settings of an operation with at most `helpers` helpers.
pub fn settings_of(helpers: Option<usize>) -> PyResult<Settings> {
    engine::prepare();
    let mut settings = Settings::default();
    if let Some(helpers) = helpers {
        if !(1..=64).contains(&helpers) {
            return Err(PyValueError::new_err("helpers: expected 1 to 64"));
        }
        settings.helpers = helpers;
    }
    Ok(settings)
}
