//! What programs say about an operation, and what they are told.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;

use bigiron_memory::policy::{Destroy, Policy};
use bigiron_memory::segment::{Huge, Removal};
use bigiron_memory::{Errno, Outcome, Settings, engine};

use crate::boundary::ExtensibleStruct;

/// Helpers work on all nodes of the machine, where no memory policy says which; else on those of
/// the calling thread.
pub const BIGIRON_MEM_SPREAD: u32 = 0x100;

/// Huge pages are asked for before pages are made, as far as the system leaves that to programs, and memory lies
/// at multiples of their size. Not an error where none are to be had.
pub const BIGIRON_MEM_HUGE: u32 = 0x200;

/// Called now and then while an operation runs, some parts of a second apart if there is much to do, and at its
/// end. It runs in the thread that called the library, with that thread's signals as they were. What it
/// returns decides: 0 goes on, anything else ends the operation with ECANCELED.
///
/// It may use this library for other memory. It must return: no longjmp, no C++ exception.
pub type bigiron_mem_progress =
    Option<unsafe extern "C" fn(data: *mut c_void, done: u64, wanted: u64) -> c_int>;

/// What became of an operation. Set `size` before the call; the rest is written, also after an error.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct bigiron_mem_outcome {
    /// sizeof(struct bigiron_mem_outcome).
    pub size: usize,
    /// Bytes that were done.
    pub bytes: u64,
    /// Bytes that were to be done.
    pub wanted: u64,
    /// Nanoseconds from begin to end.
    pub elapsed_ns: u64,
    /// Nanoseconds that the helpers worked, added up: what one thread would have taken, about. 0 where that is not
    /// known, as of segments.
    pub busy_ns: u64,
    /// Number of threads that worked, including the caller; 0 if nothing was shared.
    pub helpers: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: whole numbers, the size first, without padding where pointers have 8 bytes.
unsafe impl ExtensibleStruct for bigiron_mem_outcome {
    const FIRST_SIZE: usize = offset_of!(Self, reserved) + size_of::<u32>();
}

/// Options of an operation. Set `size`, and leave at 0 what is to be as usual; NULL in the place of options is
/// all as usual.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct bigiron_mem_options {
    /// sizeof(struct bigiron_mem_options).
    pub size: usize,
    /// The most threads that work, the caller among them; 0: 16, or as many as there are processors. At
    /// most 64.
    pub helpers: u32,
    /// BIGIRON_MEM_SPREAD, BIGIRON_MEM_HUGE, both with | between them, or 0.
    pub flags: u32,
    /// Less than so many bytes are done by the caller alone; 0: 8 MiB.
    pub straight_below: usize,
    /// Bytes that a thread takes at a time, a power of two; 0: 4 MiB.
    pub chunk: usize,
    /// Progress callback, or NULL.
    pub progress: bigiron_mem_progress,
    /// What `progress` is called with.
    pub progress_data: *mut c_void,
    /// Where to write what became of it, or NULL.
    pub outcome: *mut bigiron_mem_outcome,
}

// SAFETY: numbers, pointers, and a function that may be NULL, the size first, without padding.
unsafe impl ExtensibleStruct for bigiron_mem_options {
    const FIRST_SIZE: usize = offset_of!(Self, outcome) + size_of::<usize>();
}

/// Options, understood.
#[derive(Clone, Copy, Debug)]
pub struct ParsedOptions {
    /// What the engine goes by.
    pub settings: Settings,
    /// Whether huge pages are asked for.
    pub huge: bool,
    /// The program's function, or none.
    pub progress: bigiron_mem_progress,
    /// What it is called with.
    pub progress_data: *mut c_void,
    outcome: *mut bigiron_mem_outcome,
}

impl ParsedOptions {
    /// What the program asks for. EINVAL where that is not allowed, and see [`ExtensibleStruct::copied`].
    ///
    /// # Safety
    /// `options` is NULL or the program's struct, with its size; so is what it points to.
    pub unsafe fn parse(options: *const bigiron_mem_options) -> Result<Self, Errno> {
        // SAFETY: as the caller promises.
        let options = unsafe { bigiron_mem_options::copied(options) }?;
        // SAFETY: as the caller promises; a size that is wrong is told before anything is done.
        unsafe { bigiron_mem_outcome::copied(options.outcome) }?;
        engine::prepare();
        let mut settings = Settings::default();
        if options.flags & !(BIGIRON_MEM_SPREAD | BIGIRON_MEM_HUGE) != 0 || options.helpers > 64 {
            return Err(Errno::INVAL);
        }
        settings.spread = options.flags & BIGIRON_MEM_SPREAD != 0;
        if options.helpers != 0 {
            settings.helpers = options.helpers as usize;
        }
        if options.straight_below != 0 {
            settings.straight_below = options.straight_below;
        }
        if options.chunk != 0 {
            if !options.chunk.is_power_of_two() || options.chunk < MIN_SLICE {
                return Err(Errno::INVAL);
            }
            settings.slice = options.chunk;
        }
        Ok(Self {
            settings,
            huge: options.flags & BIGIRON_MEM_HUGE != 0,
            progress: options.progress,
            progress_data: options.progress_data,
            outcome: options.outcome,
        })
    }

    /// The same for the calls that do as the kernel's do.
    pub fn policy(&self) -> Policy {
        Policy {
            settings: self.settings,
            huge: self.huge,
            destroy: Destroy::Parallel,
            ..Policy::default()
        }
    }

    /// In which pages.
    pub fn pages(&self) -> Huge {
        match self.huge {
            true => Huge::Auto,
            false => Huge::Never,
        }
    }

    /// Options for removing memory, with a program as its reaper.
    ///
    /// # Safety
    /// `reaper` is NULL or a text that stays as it is for as long as the result is used.
    pub unsafe fn removal<'a>(&self, reaper: *const c_char) -> Removal<'a> {
        // SAFETY: as the caller promises.
        let reaper = (!reaper.is_null()).then(|| unsafe { CStr::from_ptr(reaper) });
        Removal {
            plain: false,
            reaper,
            settings: self.settings,
        }
    }

    /// Tells the program what became of it, and gives the result.
    ///
    /// # Safety
    /// The program's structs are still there.
    pub unsafe fn end(self, outcome: Outcome) -> Result<(), Errno> {
        let told = bigiron_mem_outcome {
            size: 0,
            bytes: outcome.bytes as u64,
            wanted: outcome.wanted as u64,
            elapsed_ns: nanoseconds(outcome.elapsed),
            busy_ns: nanoseconds(outcome.busy),
            helpers: u32::try_from(outcome.helpers).unwrap_or(u32::MAX),
            reserved: 0,
        };
        // SAFETY: as the caller promises.
        unsafe { told.give(self.outcome) }?;
        outcome.result().map(|_| ())
    }
}

/// A page of any machine at least, and enough of it that taking a chunk costs nothing.
const MIN_SLICE: usize = 64 << 10;

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
