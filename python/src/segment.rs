//! Large memory as a Python object with the buffer protocol.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_int};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bigiron_memory::Region;
use bigiron_memory::segment::{Removal, Segment};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors::{closed, of_segment};
use crate::locking::lock_region;

/// A segment that this process has mapped. `memoryview(segment)` accesses the memory itself,
/// which stays mapped as long as a view exists: until then `close` and `destroy` raise
/// `BufferError`.
///
/// At the end of a `with` statement a created segment is destroyed, and an attached one is
/// closed.
#[pyclass(frozen, name = "Segment", module = "bigiron.mem")]
pub struct MemorySegment {
    inner: Mutex<Inner>,
    /// Number of views, and of calls that require the mapping. It increases only while `inner`
    /// is locked, and may decrease at any time, because Python releases views while it holds
    /// the GIL.
    users: AtomicUsize,
}

struct Inner {
    /// The segment; `None` once it is detached or destroyed.
    segment: Option<Segment>,
    read_only: bool,
    /// True if the segment was created by this process, not attached.
    made: bool,
}

impl MemorySegment {
    pub fn new(segment: Segment, read_only: bool, made: bool) -> Self {
        let inner = Mutex::new(Inner {
            segment: Some(segment),
            read_only,
            made,
        });
        let users = AtomicUsize::new(0);
        Self { inner, users }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with the segment, if it is still open. The GIL is released, because a thread
    /// that holds the lock of `inner` may wait for it.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Segment) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut inner = self.inner();
            work(inner.segment.as_mut().ok_or_else(closed)?)
        })
    }

    /// Takes the segment out, to detach or destroy it; an error if there are views.
    fn taken(&self, py: Python<'_>) -> PyResult<Option<Segment>> {
        py.detach(|| {
            let mut inner = self.inner();
            match self.users.load(Ordering::Acquire) {
                0 => Ok(inner.segment.take()),
                users => {
                    let views = if users == 1 { "view" } else { "views" };
                    let text = format!("the segment still has {users} {views}: release them first");
                    Err(PyBufferError::new_err(text))
                }
            }
        })
    }

    /// Returns the segment's region, and true if it is read-only. The region stays mapped until
    /// [`MemorySegment::release`].
    fn hold(&self, py: Python<'_>) -> PyResult<(Region, bool)> {
        py.detach(|| {
            let inner = self.inner();
            let segment = inner.segment.as_ref().ok_or_else(closed)?;
            self.users.fetch_add(1, Ordering::AcqRel);
            Ok((segment.region(), inner.read_only))
        })
    }

    fn release(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }
}

#[pymethods]
impl MemorySegment {
    /// Address of the segment in this process.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |segment| Ok(segment.region().start()))
    }

    /// Id of a System V segment; None for other kinds.
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        self.with(py, |segment| Ok(segment.id()))
    }

    /// Paths of the files of POSIX shared memory and other named memory, one for each stripe.
    #[getter]
    fn paths(&self, py: Python<'_>) -> PyResult<Vec<PathBuf>> {
        self.with(py, |segment| Ok(segment.paths().to_vec()))
    }

    /// Descriptors of the segment's files or of a memfd, valid until it is closed.
    #[getter]
    fn descriptors(&self, py: Python<'_>) -> PyResult<Vec<i32>> {
        self.with(py, |segment| {
            let descriptors = segment.descriptors();
            Ok(descriptors.map(|one| one.as_raw_fd()).collect())
        })
    }

    /// True if the segment is closed or destroyed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.inner().segment.is_none())
    }

    /// True if the segment is not writable.
    #[getter]
    fn read_only(&self, py: Python<'_>) -> bool {
        py.detach(|| self.inner().read_only)
    }

    /// Locks the segment, as mlock, until it is unlocked or closed.
    fn lock(&self, py: Python<'_>) -> PyResult<()> {
        let (region, _) = self.hold(py)?;
        let locked = lock_region(py, region, None);
        self.release();
        locked
    }

    /// Unlocks the segment, also if it was locked by SHM_LOCK.
    fn unlock(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |segment| segment.unlock().map_err(of_segment))
    }

    /// Returns the number of bytes that are resident, in huge pages, and locked by mlock.
    fn state(&self, py: Python<'_>) -> PyResult<HashMap<&'static str, u64>> {
        let state = self.with(py, |segment| segment.state().map_err(of_segment))?;
        let named = [
            ("resident", state.resident),
            ("huge", state.huge),
            ("locked", state.locked),
        ];
        Ok(named.into_iter().collect())
    }

    /// Returns the number of sampled pages by NUMA node; -1 is for pages that are not present.
    #[pyo3(signature = (samples = 1024))]
    fn placement(&self, py: Python<'_>, samples: usize) -> PyResult<BTreeMap<i64, usize>> {
        let found = self.with(py, |segment| segment.placement(samples).map_err(of_segment))?;
        let nodes = found.nodes.into_iter();
        let mut pages: BTreeMap<_, _> = nodes.map(|(node, count)| (node as i64, count)).collect();
        if found.absent > 0 {
            pages.insert(-1, found.absent);
        }
        Ok(pages)
    }

    /// Detaches the segment from this process. Memory with an id or a name stays in the system.
    /// A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(segment) = self.taken(py)? else {
            return Ok(());
        };
        py.detach(|| segment.detach()).map_err(of_segment)
    }

    /// Detaches the segment from this process and removes it from the system. `reaper` is the
    /// absolute path of the program `bigiron`, which frees the part that only one processor can
    /// free, while Python continues.
    #[pyo3(signature = (*, reaper = None))]
    fn destroy(&self, py: Python<'_>, reaper: Option<PathBuf>) -> PyResult<()> {
        let reaper = reaper
            .map(|path| CString::new(path.into_os_string().into_encoded_bytes()))
            .transpose()?;
        let segment = self.taken(py)?.ok_or_else(closed)?;
        py.detach(|| {
            let how = Removal {
                reaper: reaper.as_deref(),
                ..Removal::default()
            };
            segment.destroy(&how).map(drop)
        })
        .map_err(of_segment)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: Option<&Bound<'_, PyAny>>,
        _error: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let made = py.detach(|| {
            let inner = self.inner();
            inner.made && inner.segment.is_some()
        });
        match made {
            true => self.destroy(py, None),
            false => self.close(py),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        py.detach(|| {
            let inner = self.inner();
            let Some(segment) = &inner.segment else {
                return "<bigiron.mem.Segment closed>".to_owned();
            };
            let bytes = segment.region().length();
            match (segment.id(), segment.paths().first()) {
                (Some(id), _) => format!("<bigiron.mem.Segment id {id}: {bytes} bytes>"),
                (None, Some(path)) => {
                    format!("<bigiron.mem.Segment {}: {bytes} bytes>", path.display())
                }
                (None, None) => format!("<bigiron.mem.Segment: {bytes} bytes>"),
            }
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |segment| Ok(segment.region().length()))
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
        let this = slf.get();
        let (region, read_only) = this.hold(slf.py())?;
        // SAFETY: the memory stays mapped while a view is counted; the view holds a reference
        // to the object until it is released.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                region.pointer(),
                region.length().cast_signed(),
                c_int::from(read_only),
                flags,
            )
        };
        if status == 0 {
            return Ok(());
        }
        this.release();
        Err(PyErr::fetch(slf.py()))
    }

    // SAFETY: Python calls this once for each view that was filled in.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.release();
    }
}
