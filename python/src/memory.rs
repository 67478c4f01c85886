//! Large memory, made and given back by helpers.

use std::ops::ControlFlow;
use std::path::PathBuf;

use bigiron_memory::explain::Explanation;
use bigiron_memory::operation::{self, Access};
use bigiron_memory::segment::{Huge, Kind, Numa, Removal, Request, Segment, SegmentError, Target};
use bigiron_memory::{Errno, Region, Settings, call, engine, mapped, policy};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::convert::to_python;
use crate::segment::MemorySegment;

/// What is told of an operation as it goes: a function of the bytes that are done.
type Progress = Option<Py<PyAny>>;

/// Makes a segment.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // Python's own half gives them names
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

/// Maps one that exists.
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

/// Makes the pages of what has a buffer: an mmap, an array, a segment.
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

/// Locks them in memory.
#[pyfunction]
pub fn lock(py: Python<'_>, buffer: &Bound<'_, PyAny>, helpers: Option<usize>) -> PyResult<()> {
    let held = PyUntypedBuffer::get(buffer)?;
    lock_region(py, region_of(&held)?, helpers)
}

pub fn lock_region(py: Python<'_>, region: Region, helpers: Option<usize>) -> PyResult<()> {
    let policy = policy::Policy {
        settings: settings_of(helpers)?,
        ..policy::Policy::default()
    };
    py.detach(|| call::mlock(&policy, region.start(), region.length()).result)
        .map_err(of_errno)
}

/// Unlocks them.
#[pyfunction]
pub fn unlock(py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
    let held = PyUntypedBuffer::get(buffer)?;
    let region = region_of(&held)?;
    // SAFETY: unlocking changes nothing that a program sees.
    py.detach(|| unsafe { rustix::mm::munlock(region.pointer(), region.length()) })
        .map_err(of_errno)
}

/// Makes all pages of memory or of a file that exists; how many bytes.
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

/// Removes memory that exists.
#[pyfunction]
pub fn remove(py: Python<'_>, what: &str) -> PyResult<()> {
    py.detach(|| Target::find(what)?.remove(&Removal::default()).map(drop))
        .map_err(of_segment)
}

/// What `bigiron mem explain --json` tells of this process, for `program`, the path of `bigiron`.
#[pyfunction]
pub fn explain(py: Python<'_>, program: Option<PathBuf>) -> PyResult<Bound<'_, PyAny>> {
    // By way of JSON's own types, so that keys are texts as they are there.
    let told = py.detach(|| serde_json::to_value(Explanation::find(program.as_deref())));
    to_python(
        py,
        &told.map_err(|error| PyValueError::new_err(error.to_string()))?,
    )
}

/// Does `work` without Python's lock, and tells `progress` in between. Python's own signals are
/// looked at then too, so that Ctrl-C ends it; what either raises is the result.
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
        let name = name.ok_or_else(|| PyValueError::new_err(format!("{kind} memory needs a name")));
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

/// 0 asks for small pages.
pub fn pages_of(page_size: Option<usize>) -> Huge {
    match page_size {
        None => Huge::Auto,
        Some(0) => Huge::Never,
        Some(size) => Huge::Pool(size),
    }
}

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

/// The whole pages that a buffer lies in.
fn region_of(buffer: &PyUntypedBuffer) -> PyResult<Region> {
    if !buffer.is_c_contiguous() && !buffer.is_fortran_contiguous() {
        return Err(PyValueError::new_err("the buffer is not in one piece"));
    }
    let region = Region::new(buffer.buf_ptr().addr(), buffer.len_bytes());
    region
        .and_then(|region| region.to_pages(rustix::param::page_size()))
        .ok_or_else(|| PyValueError::new_err("the buffer passes the end of all addresses"))
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
