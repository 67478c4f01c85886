//! Segments: memory that the library makes, attaches and removes.

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

/// Memory as a whole, which this process has mapped. Any number of threads may use it at once, up to the call
/// that detaches or destroys it.
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

/// Makes a segment as `options` say, with all its pages, maps it and puts it into `segment`.
///
/// What limits do not allow fails before anything is made; what fails later leaves nothing. A name appears when the
/// memory is whole. Errors are those of shmget(2), shm_open(3), memfd_create(2), mmap(2), mlock(2), and: EINVAL
/// for what makes no sense, ENOMEM and ENOSPC where there is too little room, ECANCELED. `error_text` of the options
/// says more.
///
/// # Safety
/// `options` is a struct with its size set, and what it points to is there; `segment` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_create(
    options: *const bigiron_mem_segment_options,
    segment: *mut *mut bigiron_mem_segment,
) -> c_int {
    enter(|| {
        // SAFETY: as the caller promises.
        let wanted = unsafe { SegmentOptions::parse(options) }?;
        // SAFETY: as the caller promises.
        let place = unsafe { emptied(segment) }?;
        // SAFETY: as the caller promises.
        let request = unsafe { wanted.request() }?;
        let mut tracker = ProgressTracker::new(&wanted.how, request.bytes);
        let made = Segment::create(&request, &mut |done| tracker.step(done));
        let made = wanted.told.result(made, &tracker);
        tracker.helpers = made.as_ref().map_or(0, |made| made.made().helpers);
        let outcome = tracker.outcome(&made);
        if let Ok(made) = made {
            *place = bigiron_mem_segment::given(made);
        }
        // SAFETY: as the caller promises.
        unsafe { wanted.how.end(outcome) }
    })
}

/// Maps memory that exists and puts it into `segment`. `what` is the id of a System V segment, its key as
/// "0x...", the name of POSIX shared memory ("/name"), striped too, or the path of a file; /proc/self/fd/N
/// is what a descriptor is of. Of `options`, which may be NULL, count page_size, BIGIRON_MEM_READ_ONLY,
/// BIGIRON_MEM_LOCK, BIGIRON_MEM_RESERVE (its pages are not made), and `how`.
///
/// Errors are those of shmat(2), open(2), mmap(2) and mlock(2); ENOENT where there is nothing of that name.
///
/// # Safety
/// `what` is a text or NULL, `options` NULL or a struct with its size set; `segment` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_attach(
    what: *const c_char,
    options: *const bigiron_mem_segment_options,
    segment: *mut *mut bigiron_mem_segment,
) -> c_int {
    enter(|| {
        // SAFETY: as the caller promises.
        let wanted = unsafe { SegmentOptions::parse(options) }?;
        // SAFETY: as the caller promises.
        let (place, what) = unsafe { (emptied(segment)?, text(what)?) };
        let mut tracker = ProgressTracker::new(&wanted.how, 0);
        let attached = attach(what, &wanted, &mut tracker);
        let attached = wanted.told.result(attached, &tracker);
        let attached = attached.map_err(|errno| find(what).err().unwrap_or(errno));
        let outcome = tracker.outcome(&attached);
        if let Ok(attached) = attached {
            *place = bigiron_mem_segment::given(attached);
        }
        // SAFETY: as the caller promises.
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
            action: "have its pages made",
            errno,
            hint: "",
        })?;
    }
    Ok(segment)
}

/// What a text names; ENOENT if nothing.
fn find(what: &str) -> Result<Target, Errno> {
    Target::find(what).map_err(|error| match error {
        SegmentError::Wrong { .. } => Errno::NOENT,
        error => error.errno(),
    })
}

/// Where a segment is in this process; NULL for NULL.
///
/// # Safety
/// `segment` is NULL or was made or attached by this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_address(
    segment: *const bigiron_mem_segment,
) -> *mut c_void {
    // SAFETY: as the caller promises.
    let segment = unsafe { segment.as_ref() };
    segment.map_or(std::ptr::null_mut(), |segment| segment.region.pointer())
}

/// Bytes of a segment, whole pages; 0 for NULL.
///
/// # Safety
/// As for bigiron_mem_segment_address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_bytes(segment: *const bigiron_mem_segment) -> usize {
    // SAFETY: as the caller promises.
    let segment = unsafe { segment.as_ref() };
    segment.map_or(0, |segment| segment.region.length())
}

/// The id of a System V segment; or an error, ENOENT for one of another kind.
///
/// # Safety
/// As for bigiron_mem_segment_address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_id(segment: *const bigiron_mem_segment) -> c_int {
    // SAFETY: as the caller promises.
    number(unsafe { segment.as_ref() }, |segment| segment.id())
}

/// The descriptor of a segment of files or of a memfd, close-on-exec, for as long as the segment is attached. Of a
/// striped one `stripe` counts from 0. Or an error, ENOENT where there is none.
///
/// # Safety
/// As for bigiron_mem_segment_address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_descriptor(
    segment: *const bigiron_mem_segment,
    stripe: usize,
) -> c_int {
    // SAFETY: as the caller promises.
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

/// Locks a segment, as mlock(2), all its pages made before by helpers. That lasts until it is unlocked, detached or
/// destroyed. After an error it is unlocked.
///
/// # Safety
/// `segment` as for bigiron_mem_segment_address, `options` as for bigiron_mem_populate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_lock(
    segment: *mut bigiron_mem_segment,
    options: *const bigiron_mem_options,
) -> c_int {
    enter(|| {
        // SAFETY: as the caller promises.
        let (how, segment) = unsafe { (ParsedOptions::parse(options)?, segment.as_ref()) };
        let segment = segment.ok_or(Errno::INVAL)?;
        let mut tracker = ProgressTracker::new(&how, segment.region.length());
        let locked = segment.with(|segment| segment.lock(&mut |done| tracker.step(done)));
        let locked = ErrorText::NONE.result(locked, &tracker);
        let outcome = tracker.outcome(&locked);
        // SAFETY: as the caller promises.
        unsafe { how.end(outcome) }
    })
}

/// Unlocks a segment, which BIGIRON_MEM_LOCK or bigiron_mem_segment_lock has locked.
///
/// # Safety
/// As for bigiron_mem_segment_address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_unlock(segment: *mut bigiron_mem_segment) -> c_int {
    enter(|| {
        // SAFETY: as the caller promises.
        let segment = unsafe { segment.as_ref() }.ok_or(Errno::INVAL)?;
        segment
            .with(|segment| segment.unlock())
            .map_err(|error| error.errno())
    })
}

/// Ends the use of a segment here, and frees `segment`, also after an error. What has an id or a name stays in the
/// system, with its contents; a memfd and anonymous memory are gone with their last user. Nothing for NULL.
///
/// # Safety
/// As for bigiron_mem_segment_address; nobody uses the memory, nor `segment`, any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_detach(segment: *mut bigiron_mem_segment) -> c_int {
    enter(|| {
        // SAFETY: as the caller promises.
        let Some(segment) = (unsafe { taken(segment) }) else {
            return Ok(());
        };
        segment.detach().map_err(|error| error.errno())
    })
}

/// Ends the use of a segment here, removes it from the system, and frees `segment`, also after an error. Others who
/// have it attached keep it as it is. Nothing for NULL. With options that are not allowed it is only detached.
///
/// `reaper` is NULL, or the absolute path of the program bigiron, which then frees what one processor must free, while
/// the caller goes on; where that is not safe, the caller waits.
///
/// # Safety
/// As for bigiron_mem_segment_detach; `reaper` is NULL or a text, `options` as for bigiron_mem_populate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_segment_destroy(
    segment: *mut bigiron_mem_segment,
    reaper: *const c_char,
    options: *const bigiron_mem_options,
) -> c_int {
    enter(|| {
        // SAFETY: as the caller promises.
        let Some(segment) = (unsafe { taken(segment) }) else {
            return Ok(());
        };
        // SAFETY: as the caller promises.
        let how = unsafe { ParsedOptions::parse(options) }?;
        // SAFETY: as the caller promises.
        let removal = unsafe { how.removal(reaper) };
        let tracker = ProgressTracker::new(&how, segment.region().length());
        let removed = segment.destroy(&removal).map(drop);
        let removed = ErrorText::NONE.result(removed, &tracker);
        let outcome = tracker.outcome(&removed);
        // SAFETY: as the caller promises.
        unsafe { how.end(outcome) }
    })
}

/// Removes memory that this process has not attached: `what` as for bigiron_mem_segment_attach, `reaper` as for
/// bigiron_mem_segment_destroy. Of files only those of tmpfs and hugetlbfs.
///
/// # Safety
/// `what` is a text or NULL, the others as for bigiron_mem_segment_destroy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_remove(
    what: *const c_char,
    reaper: *const c_char,
    options: *const bigiron_mem_options,
) -> c_int {
    enter(|| {
        // SAFETY: as the caller promises.
        let (how, what) = unsafe { (ParsedOptions::parse(options)?, text(what)?) };
        // SAFETY: as the caller promises.
        let removal = unsafe { how.removal(reaper) };
        let tracker = ProgressTracker::new(&how, 0);
        let removed = find(what)?.remove(&removal);
        let removed = ErrorText::NONE.result(removed.map(drop), &tracker);
        let outcome = tracker.outcome(&removed);
        // SAFETY: as the caller promises.
        unsafe { how.end(outcome) }
    })
}

/// Makes all pages of memory or of a file that exists: of shared memory those that are missing, of a file on a disk
/// those of the page cache. Nothing is written. `what` as for bigiron_mem_segment_attach.
///
/// # Safety
/// `what` is a text or NULL, `options` as for bigiron_mem_populate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bigiron_mem_prewarm(
    what: *const c_char,
    options: *const bigiron_mem_options,
) -> c_int {
    enter(|| {
        // SAFETY: as the caller promises.
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
        // SAFETY: as the caller promises.
        unsafe { how.end(outcome) }
    })
}

/// The program's place for a segment, with none in it. EINVAL for NULL.
///
/// # Safety
/// `place` is NULL or may be written for as long as the result is used.
unsafe fn emptied<'a>(
    place: *mut *mut bigiron_mem_segment,
) -> Result<&'a mut *mut bigiron_mem_segment, Errno> {
    if place.is_null() || !place.is_aligned() {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the caller promises.
    unsafe {
        place.write(std::ptr::null_mut());
        Ok(&mut *place)
    }
}

/// # Safety
/// `segment` is NULL, or came from [`bigiron_mem_segment::given`] and is used no more.
unsafe fn taken(segment: *mut bigiron_mem_segment) -> Option<Segment> {
    if segment.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let segment = unsafe { Box::from_raw(segment) };
    Some(
        segment
            .segment
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner),
    )
}
