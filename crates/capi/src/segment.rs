//! Segments: memory that the library creates, attaches and removes.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

use bigiron_memory::operation::Access;
use bigiron_memory::segment::{Huge, Segment, SegmentError, Target};
use bigiron_memory::{Errno, Region};

use crate::boundary::{enter, text};
use crate::callbacks::{ErrorText, ProgressTracker, bytes_in};
use crate::memory::populate;
use crate::options::{ParsedOptions, bigiron_mem_options};
use crate::request::{SegmentOptions, bigiron_mem_segment_options};

/// A segment that this process has mapped. Any number of threads may use it concurrently, until
/// the call that detaches or destroys it.
#[allow(missing_debug_implementations)]
pub struct bigiron_mem_segment {
    segment: Mutex<Segment>,
    region: Region,
}

impl bigiron_mem_segment {
    fn given(segment: Segment) -> *mut Self {
        let region = segment.region();
        let segment = Mutex::new(segment);
        Box::into_raw(Box::new(Self { segment, region }))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Segment) -> T) -> T {
        let guard = self.segment.lock();
        work(&mut guard.unwrap_or_else(PoisonError::into_inner))
    }
}

/// Creates a segment as described by `options`, populates and maps it, and stores it in
/// `segment`.
///
/// Requests beyond limits fail before anything is created; a later failure leaves nothing
/// behind. The name appears only when the memory is complete. Errors are those of shmget(2),
/// shm_open(3), memfd_create(2), mmap(2) and mlock(2), and: EINVAL for invalid options, ENOMEM
/// and ENOSPC for too little space, ECANCELED. The `error_text` of the options has the details.
///
/// # Safety
/// `options` must point to a struct with its size set and valid pointers; `segment` must be
/// writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_create(
    options: *const bigiron_mem_segment_options,
    segment: *mut *mut bigiron_mem_segment,
) -> c_int {
    enter(|| {
        // SAFETY: by the caller's contract.
        let wanted = unsafe { SegmentOptions::parse(options) }?;
        // SAFETY: by the caller's contract.
        let place = unsafe { emptied(segment) }?;
        // SAFETY: by the caller's contract.
        let request = unsafe { wanted.request() }?;
        let mut tracker = ProgressTracker::new(&wanted.how, request.bytes);
        let made = Segment::create(&request, &mut |done| tracker.step(done));
        let made = wanted.told.result(made, &tracker);
        tracker.helpers = made.as_ref().map_or(0, |made| made.made().helpers);
        let outcome = tracker.outcome(&made);
        if let Ok(made) = made {
            *place = bigiron_mem_segment::given(made);
        }
        // SAFETY: by the caller's contract.
        unsafe { wanted.how.end(outcome) }
    })
}

/// Maps existing memory and stores it in `segment`. `what` is the id of a System V segment, its
/// key as "0x...", the name of POSIX shared memory ("/name"), which may be striped, or the path
/// of a file; /proc/self/fd/N is the file of a descriptor. Of `options`, which may be NULL,
/// page_size, BIGIRON_MEM_READ_ONLY, BIGIRON_MEM_LOCK, BIGIRON_MEM_RESERVE (the pages are not
/// populated) and `how` are used.
///
/// Errors are those of shmat(2), open(2), mmap(2) and mlock(2); ENOENT if nothing has this
/// name.
///
/// # Safety
/// `what` must be a string or NULL, `options` NULL or a struct with its size set; `segment`
/// must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_attach(
    what: *const c_char,
    options: *const bigiron_mem_segment_options,
    segment: *mut *mut bigiron_mem_segment,
) -> c_int {
    enter(|| {
        // SAFETY: by the caller's contract.
        let wanted = unsafe { SegmentOptions::parse(options) }?;
        // SAFETY: by the caller's contract.
        let (place, what) = unsafe { (emptied(segment)?, text(what)?) };
        let mut tracker = ProgressTracker::new(&wanted.how, 0);
        let attached = attach(what, &wanted, &mut tracker);
        let attached = wanted.told.result(attached, &tracker);
        let attached = attached.map_err(|errno| find(what).err().unwrap_or(errno));
        let outcome = tracker.outcome(&attached);
        if let Ok(attached) = attached {
            *place = bigiron_mem_segment::given(attached);
        }
        // SAFETY: by the caller's contract.
        unsafe { wanted.how.end(outcome) }
    })
}

fn attach(
    what: &str,
    wanted: &SegmentOptions,
    tracker: &mut ProgressTracker<'_>,
) -> Result<Segment, SegmentError> {
    let target = Target::find(what)?;
    let settings = &wanted.how.settings;
    let read_only = wanted.reads_only();
    let mut segment = Segment::attach(&target, wanted.pages(), read_only, settings)?;
    tracker.wanted = segment.region().length();
    if wanted.locks() {
        segment.lock(&mut |done| tracker.step(done))?;
    } else if !wanted.reserves() {
        let mut how = wanted.how;
        how.huge = wanted.pages() == Huge::Auto;
        let made = populate(&how, &[(segment.region(), Access::Read)]);
        tracker.take(&made);
        made.result().map_err(|errno| SegmentError::System {
            what: target.to_string(),
            action: "be populated",
            errno,
            hint: "",
        })?;
    }
    Ok(segment)
}

/// Finds the memory named by a text; ENOENT if it does not exist.
fn find(what: &str) -> Result<Target, Errno> {
    Target::find(what).map_err(|error| match error {
        SegmentError::Wrong { .. } => Errno::NOENT,
        error => error.errno(),
    })
}

/// Returns the address of a segment in this process; NULL for NULL.
///
/// # Safety
/// `segment` must be NULL, or created or attached by this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_address(
    segment: *const bigiron_mem_segment,
) -> *mut c_void {
    // SAFETY: by the caller's contract.
    let segment = unsafe { segment.as_ref() };
    segment.map_or(std::ptr::null_mut(), |segment| segment.region.pointer())
}

/// Returns the size of a segment in bytes, a multiple of the page size; 0 for NULL.
///
/// # Safety
/// As for bigiron_mem_segment_address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_bytes(segment: *const bigiron_mem_segment) -> usize {
    // SAFETY: by the caller's contract.
    let segment = unsafe { segment.as_ref() };
    segment.map_or(0, |segment| segment.region.length())
}

/// Returns the id of a System V segment, or an error: ENOENT for other kinds.
///
/// # Safety
/// As for bigiron_mem_segment_address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_id(segment: *const bigiron_mem_segment) -> c_int {
    // SAFETY: by the caller's contract.
    number(unsafe { segment.as_ref() }, |segment| segment.id())
}

/// Returns the descriptor of a memfd or of a segment's file, or an error: ENOENT if there is
/// none. The descriptor is close-on-exec, and valid as long as the segment is attached.
/// `stripe` selects the file of a striped segment, counted from 0.
///
/// # Safety
/// As for bigiron_mem_segment_address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_descriptor(
    segment: *const bigiron_mem_segment,
    stripe: usize,
) -> c_int {
    // SAFETY: by the caller's contract.
    number(unsafe { segment.as_ref() }, |segment| {
        let descriptor = segment.descriptors().nth(stripe)?;
        Some(descriptor.as_raw_fd())
    })
}

fn number(
    segment: Option<&bigiron_mem_segment>,
    find: impl FnOnce(&Segment) -> Option<c_int>,
) -> c_int {
    let mut found = 0;
    let result = enter(|| {
        let segment = segment.ok_or(Errno::INVAL)?;
        found = segment.with(|segment| find(segment)).ok_or(Errno::NOENT)?;
        Ok(())
    });
    if result == 0 { found } else { result }
}

/// Locks a segment, as mlock(2), after helpers have populated all its pages. The lock lasts
/// until the segment is unlocked, detached or destroyed. After an error the segment is not
/// locked.
///
/// # Safety
/// `segment` as for bigiron_mem_segment_address, `options` as for bigiron_mem_populate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_lock(
    segment: *mut bigiron_mem_segment,
    options: *const bigiron_mem_options,
) -> c_int {
    enter(|| {
        // SAFETY: by the caller's contract.
        let (how, segment) = unsafe { (ParsedOptions::parse(options)?, segment.as_ref()) };
        let segment = segment.ok_or(Errno::INVAL)?;
        let mut tracker = ProgressTracker::new(&how, segment.region.length());
        let locked = segment.with(|segment| segment.lock(&mut |done| tracker.step(done)));
        let locked = ErrorText::NONE.result(locked, &tracker);
        let outcome = tracker.outcome(&locked);
        // SAFETY: by the caller's contract.
        unsafe { how.end(outcome) }
    })
}

/// Unlocks a segment that was locked by BIGIRON_MEM_LOCK or bigiron_mem_segment_lock.
///
/// # Safety
/// As for bigiron_mem_segment_address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_unlock(segment: *mut bigiron_mem_segment) -> c_int {
    enter(|| {
        // SAFETY: by the caller's contract.
        let segment = unsafe { segment.as_ref() }.ok_or(Errno::INVAL)?;
        segment
            .with(|segment| segment.unlock())
            .map_err(|error| error.errno())
    })
}

/// Detaches a segment from this process, and frees `segment`, also after an error. Memory with
/// an id or a name stays in the system, with its contents; a memfd and anonymous memory are
/// freed with their last user. Does nothing for NULL.
///
/// # Safety
/// As for bigiron_mem_segment_address; the memory and `segment` must no longer be used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_detach(segment: *mut bigiron_mem_segment) -> c_int {
    enter(|| {
        // SAFETY: by the caller's contract.
        let Some(segment) = (unsafe { taken(segment) }) else {
            return Ok(());
        };
        segment.detach().map_err(|error| error.errno())
    })
}

/// Detaches a segment from this process, removes it from the system, and frees `segment`, also
/// after an error. Other processes that have attached it keep it unchanged. Does nothing for
/// NULL. With options that are not allowed the segment is only detached.
///
/// `reaper` is NULL, or the absolute path of the program bigiron, which then frees the part
/// that only one processor can free, while the caller continues. If that is not safe, the
/// caller waits.
///
/// # Safety
/// As for bigiron_mem_segment_detach; `reaper` must be NULL or a string, `options` as for
/// bigiron_mem_populate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_destroy(
    segment: *mut bigiron_mem_segment,
    reaper: *const c_char,
    options: *const bigiron_mem_options,
) -> c_int {
    enter(|| {
        // SAFETY: by the caller's contract.
        let Some(segment) = (unsafe { taken(segment) }) else {
            return Ok(());
        };
        // SAFETY: by the caller's contract.
        let how = unsafe { ParsedOptions::parse(options) }?;
        // SAFETY: by the caller's contract.
        let removal = unsafe { how.removal(reaper) };
        let tracker = ProgressTracker::new(&how, segment.region().length());
        let removed = segment.destroy(&removal).map(drop);
        let removed = ErrorText::NONE.result(removed, &tracker);
        let outcome = tracker.outcome(&removed);
        // SAFETY: by the caller's contract.
        unsafe { how.end(outcome) }
    })
}

/// Removes memory that this process has not attached. `what` is as for
/// bigiron_mem_segment_attach, `reaper` as for bigiron_mem_segment_destroy. Files are only
/// removed from tmpfs and hugetlbfs.
///
/// # Safety
/// `what` must be a string or NULL; the others as for bigiron_mem_segment_destroy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_remove(
    what: *const c_char,
    reaper: *const c_char,
    options: *const bigiron_mem_options,
) -> c_int {
    enter(|| {
        // SAFETY: by the caller's contract.
        let (how, what) = unsafe { (ParsedOptions::parse(options)?, text(what)?) };
        // SAFETY: by the caller's contract.
        let removal = unsafe { how.removal(reaper) };
        let tracker = ProgressTracker::new(&how, 0);
        let removed = find(what)?.remove(&removal);
        let removed = ErrorText::NONE.result(removed.map(drop), &tracker);
        let outcome = tracker.outcome(&removed);
        // SAFETY: by the caller's contract.
        unsafe { how.end(outcome) }
    })
}

/// Populates existing memory or an existing file: the missing pages of shared memory, or the
/// page cache of a file on disk. Nothing is written. `what` is as for
/// bigiron_mem_segment_attach.
///
/// # Safety
/// `what` must be a string or NULL, `options` as for bigiron_mem_populate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_prewarm(
    what: *const c_char,
    options: *const bigiron_mem_options,
) -> c_int {
    enter(|| {
        // SAFETY: by the caller's contract.
        let (how, what) = unsafe { (ParsedOptions::parse(options)?, text(what)?) };
        let target = find(what)?;
        let mut tracker = ProgressTracker::new(&how, target.bytes().map_or(0, bytes_in));
        let settings = &how.settings;
        let warmed = target.prewarm(how.pages(), settings, &mut |done| tracker.step(done));
        if let Ok(warmed) = &warmed {
            tracker.helpers = warmed.helpers;
        }
        let warmed = ErrorText::NONE.result(warmed, &tracker);
        let outcome = tracker.outcome(&warmed);
        // SAFETY: by the caller's contract.
        unsafe { how.end(outcome) }
    })
}

/// Sets the program's segment pointer to NULL and returns a reference to it. EINVAL for NULL.
///
/// # Safety
/// `place` must be NULL, or writable while the result is used.
unsafe fn emptied<'a>(
    place: *mut *mut bigiron_mem_segment,
) -> Result<&'a mut *mut bigiron_mem_segment, Errno> {
    if place.is_null() || !place.is_aligned() {
        return Err(Errno::INVAL);
    }
    // SAFETY: by the caller's contract.
    unsafe {
        place.write(std::ptr::null_mut());
        Ok(&mut *place)
    }
}

/// Takes the segment out of its handle.
///
/// # Safety
/// `segment` must be NULL, or come from [`bigiron_mem_segment::given`] and no longer be used.
unsafe fn taken(segment: *mut bigiron_mem_segment) -> Option<Segment> {
    if segment.is_null() {
        return None;
    }
    // SAFETY: by the caller's contract.
    let segment = unsafe { Box::from_raw(segment) };
    Some(
        segment
            .segment
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner),
    )
}
