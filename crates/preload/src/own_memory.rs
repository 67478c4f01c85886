//! Memory of this library's own: the program's malloc is as if nobody had called it before.
//!
//! Little is allocated, nearly all of it before the program begins, and kept.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

const ROOM: usize = 32 << 10;
/// What is larger comes from a mapping of its own.
const LARGE: usize = 4 << 10;

#[global_allocator]
static OWN: Own = Own {
    room: UnsafeCell::new([0; ROOM]),
    used: AtomicUsize::new(0),
};

/// Room that is given away from its start, and mappings for what does not fit.
#[repr(align(64))]
struct Own {
    room: UnsafeCell<[u8; ROOM]>,
    used: AtomicUsize,
}

// SAFETY: each byte of the room is given to one caller; `used` says which are.
unsafe impl Sync for Own {}

impl Own {
    fn start(&self) -> usize {
        self.room.get().addr()
    }

    /// Bytes of the room, if so many are free.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        let mut place = 0;
        let taken = |used: usize| {
            place = self.start().checked_add(used)?;
            place = place.checked_next_multiple_of(layout.align())? - self.start();
            place.checked_add(layout.size()).filter(|end| *end <= ROOM)
        };
        let relaxed = Ordering::Relaxed;
        self.used.fetch_update(relaxed, relaxed, taken).ok()?;
        Some(self.room.get().cast::<u8>().wrapping_add(place))
    }
}

// SAFETY: memory is given once, aligned as asked, and taken back by its owner alone.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() <= LARGE
            && let Some(place) = self.take(layout)
        {
            return place;
        }
        if layout.align() > rustix::param::page_size() {
            return ptr::null_mut();
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the kernel has room.
        unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                layout.size(),
                protection,
                MapFlags::PRIVATE,
            )
        }
        .map_or(ptr::null_mut(), |place| place.cast())
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        let at = place.addr().wrapping_sub(self.start());
        if at >= ROOM {
            // SAFETY: a mapping of its own, of this size.
            let _ = unsafe { munmap(place.cast(), layout.size()) };
            return;
        }
        // What was given last can be given again.
        let relaxed = Ordering::Relaxed;
        let _ = self
            .used
            .compare_exchange(at + layout.size(), at, relaxed, relaxed);
    }
}
