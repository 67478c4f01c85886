//! The allocator of this library, which does not call the program's malloc before the program
//! does.
//!
//! Allocations are few; almost all are made before the program starts, and never freed.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

const ROOM: usize = 32 << 10;
/// Larger allocations have their own mapping.
const LARGE: usize = 4 << 10;

#[global_allocator]
static OWN: Own = Own {
    room: UnsafeCell::new([0; ROOM]),
    used: AtomicUsize::new(0),
};

/// A buffer used from its start, and mappings for allocations that do not fit.
#[repr(align(64))]
struct Own {
    room: UnsafeCell<[u8; ROOM]>,
    used: AtomicUsize,
}

// SAFETY: `used` assigns each byte of the buffer to one allocation.
unsafe impl Sync for Own {}

impl Own {
    fn start(&self) -> usize {
        self.room.get().addr()
    }

    /// Allocates from the buffer, if there is enough space.
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

// SAFETY: allocations are distinct, aligned as requested, and freed only by their owner.
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
        // SAFETY: a new mapping at an address chosen by the kernel.
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
            // SAFETY: a separate mapping of this size.
            let _ = unsafe { munmap(place.cast(), layout.size()) };
            return;
        }
        // The most recent allocation can be reused.
        let relaxed = Ordering::Relaxed;
        let _ = self
            .used
            .compare_exchange(at + layout.size(), at, relaxed, relaxed);
    }
}
