//! Creation and release of large memory by helpers.

use std::ops::ControlFlow;
use std::path::PathBuf;

use bigiron_memory::explain::Explanation;
use bigiron_memory::operation::{self, Access};
use bigiron_memory::segment::{Huge, Kind, Numa, Removal, Request, Segment, SegmentError, Target};
use bigiron_memory::{Region, mapped};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::to_python;
use crate::errors::{of_errno, of_segment};
use crate::locking::{lock_region, settings_of};
use crate::segment::MemorySegment;

/// An optional progress callback, called with the number of bytes done.
type Progress = Option<Py<PyAny>>;

/// Creates a segment.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // the Python part of the package has keyword arguments
pub fn create(
    py: Python<'_>,
    kind: &str,
    bytes: usize,
    name: Option<PathBuf>,
    key: Option<i32>,
    mode: u32,
    page_size: Option<usize>,
    stripes: usize,
    numa: &str,
    populate: bool,
    lock: bool,
    helpers: Option<usize>,
    progress: Progress,
) -> PyResult<MemorySegment> {
    let mut request = Request::new(kind_of(kind, name, key)?, bytes);
    request.mode = mode;
    request.huge = pages_of(page_size);
    request.stripes = stripes;
    request.numa = Numa::parse(numa).map_err(of_segment)?;
    request.populate = populate;
    request.lock = lock;
    request.settings = settings_of(helpers)?;
    let made = watched(py, progress, |step| Segment::create(&request, step))?;
    Ok(MemorySegment::new(made, false, true))
}

/// Maps existing memory.
#[pyfunction]
pub fn attach(
    py: Python<'_>,
    what: &str,
    read_only: bool,
    page_size: Option<usize>,
    helpers: Option<usize>,
) -> PyResult<MemorySegment> {
    let settings = settings_of(helpers)?;
    let attached = py.detach(|| {
        Segment::attach(
            &Target::find(what)?,
            pages_of(page_size),
            read_only,
            &settings,
        )
    });
    Ok(MemorySegment::new(
        attached.map_err(of_segment)?,
        read_only,
        false,
    ))
}

/// Populates the pages of an object with a buffer: an mmap, an array, a segment.
#[pyfunction]
pub fn populate(
    py: Python<'_>,
    buffer: &Bound<'_, PyAny>,
    write: Option<bool>,
    helpers: Option<usize>,
) -> PyResult<()> {
    let held = PyUntypedBuffer::get(buffer)?;
    let region = region_of(&held)?;
    let settings = settings_of(helpers)?;
    let parts = match write {
        None => mapped::parts(region).map_err(of_errno)?,
        Some(true) => vec![(region, Access::Write)],
        Some(false) => vec![(region, Access::Read)],
    };
    py.detach(|| {
        parts.into_iter().try_for_each(|(region, access)| {
            let outcome = operation::populate(&mut [region.into()], access, &settings);
            outcome.result().map(drop)
        })
    })
    .map_err(of_errno)
}

/// Locks the pages of a buffer.
#[pyfunction]
pub fn lock(py: Python<'_>, buffer: &Bound<'_, PyAny>, helpers: Option<usize>) -> PyResult<()> {
    let held = PyUntypedBuffer::get(buffer)?;
    lock_region(py, region_of(&held)?, helpers)
}

/// Unlocks the pages of a buffer.
#[pyfunction]
pub fn unlock(py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
    let held = PyUntypedBuffer::get(buffer)?;
    let region = region_of(&held)?;
    // SAFETY: unlocking does not change the contents of memory.
    py.detach(|| unsafe { rustix::mm::munlock(region.pointer(), region.length()) })
        .map_err(of_errno)
}

/// Populates existing memory or an existing file; returns the number of bytes.
#[pyfunction]
pub fn prewarm(
    py: Python<'_>,
    what: &str,
    page_size: Option<usize>,
    helpers: Option<usize>,
    progress: Progress,
) -> PyResult<u64> {
    let settings = settings_of(helpers)?;
    watched(py, progress, |step| {
        let warmed = Target::find(what)?.prewarm(pages_of(page_size), &settings, step)?;
        Ok(warmed.bytes)
    })
}

/// Removes existing memory.
#[pyfunction]
pub fn remove(py: Python<'_>, what: &str) -> PyResult<()> {
    py.detach(|| Target::find(what)?.remove(&Removal::default()).map(drop))
        .map_err(of_segment)
}

/// Returns the output of `bigiron mem explain --json` for this process. `program` is the path
/// of `bigiron`.
#[pyfunction]
pub fn explain(py: Python<'_>, program: Option<PathBuf>) -> PyResult<Bound<'_, PyAny>> {
    // Converted by way of JSON's types, so that all keys are strings.
    let told = py.detach(|| serde_json::to_value(Explanation::find(program.as_deref())));
    to_python(
        py,
        &told.map_err(|error| PyValueError::new_err(error.to_string()))?,
    )
}

/// Runs `work` without the GIL, and calls `progress` at intervals. Python's signals are handled
/// there as well, so that Ctrl-C ends the operation. An exception raised by either is the
/// result.
pub fn watched<T: Send>(
    py: Python<'_>,
    progress: Progress,
    work: impl FnOnce(&mut (dyn FnMut(usize) -> ControlFlow<()> + '_)) -> Result<T, SegmentError> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let result = py.detach(|| {
        let mut step = |done: usize| {
            let told = Python::attach(|py| {
                py.check_signals()?;
                progress
                    .as_ref()
                    .map_or(Ok(()), |tell| tell.call1(py, (done,)).map(drop))
            });
            match told {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    raised = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        work(&mut step)
    });
    match raised {
        Some(error) => Err(error),
        None => result.map_err(of_segment),
    }
}

fn kind_of(kind: &str, name: Option<PathBuf>, key: Option<i32>) -> PyResult<Kind> {
    let text = || {
        let name = name.as_ref().and_then(|name| name.to_str());
        let name =
            name.ok_or_else(|| PyValueError::new_err(format!("{kind} memory requires a name")));
        name.map(str::to_owned)
    };
    match kind {
        "system-v" => Ok(Kind::SystemV { key }),
        "posix" => Ok(Kind::Posix { name: text()? }),
        "memfd" => Ok(Kind::Memfd { name: text()? }),
        "file" => Ok(Kind::File {
            path: PathBuf::from(text()?),
        }),
        "anonymous" => Ok(Kind::Anonymous),
        _ => Err(PyValueError::new_err(format!(
            "{kind}: expected system-v, posix, memfd, file or anonymous"
        ))),
    }
}

/// Converts a page size; 0 requests small pages.
pub fn pages_of(page_size: Option<usize>) -> Huge {
    match page_size {
        None => Huge::Auto,
        Some(0) => Huge::Never,
        Some(size) => Huge::Pool(size),
    }
}

/// Returns the whole pages that contain a buffer.
fn region_of(buffer: &PyUntypedBuffer) -> PyResult<Region> {
    if !buffer.is_c_contiguous() && !buffer.is_fortran_contiguous() {
        return Err(PyValueError::new_err("the buffer is not contiguous"));
    }
    let region = Region::new(buffer.buf_ptr().addr(), buffer.len_bytes());
    region
        .and_then(|region| region.to_pages(rustix::param::page_size()))
        .ok_or_else(|| PyValueError::new_err("the buffer exceeds the address space"))
}
