//! Options and outcome of an operation.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;

use bigiron_memory::policy::{Destroy, Policy};
use bigiron_memory::segment::{Huge, Removal};
use bigiron_memory::{Errno, Outcome, Settings, engine};

use crate::boundary::ExtensibleStruct;

/// Helpers run on all nodes of the machine, unless a memory policy determines the nodes.
/// Without this flag they run on the nodes of the calling thread.
pub const BIGIRON_MEM_SPREAD: u32 = 0x100;

/// Requests huge pages before the population, as far as the system leaves the choice to
/// programs, and the memory is aligned to their size. It is not an error if there are none.
pub const BIGIRON_MEM_HUGE: u32 = 0x200;

/// Progress callback, called at intervals of a fraction of a second during long operations, and
/// at the end. It runs in the calling thread, with that thread's original signal mask. A return
/// value of 0 continues the operation; any other value ends it with ECANCELED.
///
/// The callback may use this library for other memory. It must return: no longjmp, no C++
/// exception.
pub type bigiron_mem_progress =
    Option<unsafe extern "C" fn(data: *mut c_void, done: u64, wanted: u64) -> c_int>;

/// Outcome of an operation. Set `size` before the call. The other fields are written by the
/// call, also after an error.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct bigiron_mem_outcome {
    /// sizeof(struct bigiron_mem_outcome).
    pub size: usize,
    /// Number of bytes processed.
    pub bytes: u64,
    /// Number of bytes to process.
    pub wanted: u64,
    /// Duration in nanoseconds.
    pub elapsed_ns: u64,
    /// Sum of the helpers' working time in nanoseconds: approximately the time that one thread
    /// would have taken. 0 if unknown, as for segments.
    pub busy_ns: u64,
    /// Number of threads that worked, including the caller; 0 if the work was not shared.
    pub helpers: u32,
    /// Reserved; 0.
    pub reserved: u32,
}

// SAFETY: integers, the size first, without padding on machines with 64-bit pointers.
unsafe impl ExtensibleStruct for bigiron_mem_outcome {
    const FIRST_SIZE: usize = offset_of!(Self, reserved) + size_of::<u32>();
}

/// Options of an operation. Set `size`; fields that are 0 select the default. NULL instead of
/// options selects all defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct bigiron_mem_options {
    /// sizeof(struct bigiron_mem_options).
    pub size: usize,
    /// Maximum number of threads including the caller; 0: 16, or the number of processors if
    /// lower. At most 64.
    pub helpers: u32,
    /// BIGIRON_MEM_SPREAD, BIGIRON_MEM_HUGE, both combined by |, or 0.
    pub flags: u32,
    /// Size in bytes below which the caller works alone; 0: 8 MiB.
    pub straight_below: usize,
    /// Number of bytes that a thread takes at a time, a power of two; 0: 4 MiB.
    pub chunk: usize,
    /// Progress callback, or NULL.
    pub progress: bigiron_mem_progress,
    /// Argument of `progress`.
    pub progress_data: *mut c_void,
    /// Receives the outcome; may be NULL.
    pub outcome: *mut bigiron_mem_outcome,
}

// SAFETY: integers, pointers, and a nullable function pointer, the size first, without padding.
unsafe impl ExtensibleStruct for bigiron_mem_options {
    const FIRST_SIZE: usize = offset_of!(Self, outcome) + size_of::<usize>();
}

/// Parsed options.
#[derive(Clone, Copy, Debug)]
pub struct ParsedOptions {
    /// Settings of the engine.
    pub settings: Settings,
    /// True if huge pages are requested.
    pub huge: bool,
    /// Progress callback, or NULL.
    pub progress: bigiron_mem_progress,
    /// Argument of the progress callback.
    pub progress_data: *mut c_void,
    outcome: *mut bigiron_mem_outcome,
}

impl ParsedOptions {
    /// Parses the program's options. EINVAL for values that are not allowed; see also
    /// [`ExtensibleStruct::copied`].
    ///
    /// # Safety
    /// `options` must be NULL or point to the program's struct with its size set; the same
    /// applies to the pointers in it.
    pub unsafe fn parse(options: *const bigiron_mem_options) -> Result<Self, Errno> {
        // SAFETY: by the caller's contract.
        let options = unsafe { bigiron_mem_options::copied(options) }?;
        // SAFETY: by the caller's contract; a wrong size is reported before any work.
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

    /// Returns the same settings as a policy, for functions that replace system calls.
    pub fn policy(&self) -> Policy {
        Policy {
            settings: self.settings,
            huge: self.huge,
            destroy: Destroy::Parallel,
            ..Policy::default()
        }
    }

    /// Returns the kind of pages to use.
    pub fn pages(&self) -> Huge {
        match self.huge {
            true => Huge::Auto,
            false => Huge::Never,
        }
    }

    /// Returns the options for the removal of memory, with an optional reaper program.
    ///
    /// # Safety
    /// `reaper` must be NULL, or a string that does not change while the result is used.
    pub unsafe fn removal<'a>(&self, reaper: *const c_char) -> Removal<'a> {
        // SAFETY: by the caller's contract.
        let reaper = (!reaper.is_null()).then(|| unsafe { CStr::from_ptr(reaper) });
        Removal {
            plain: false,
            reaper,
            settings: self.settings,
        }
    }

    /// Writes the outcome to the program's struct, and returns its result.
    ///
    /// # Safety
    /// The program's structs must still exist.
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
        // SAFETY: by the caller's contract.
        unsafe { told.give(self.outcome) }?;
        outcome.result().map(|_| ())
    }
}

/// Minimum slice size in bytes: at least a page on any machine, and large enough that the cost
/// of taking a slice is negligible.
const MIN_SLICE: usize = 64 << 10;

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
