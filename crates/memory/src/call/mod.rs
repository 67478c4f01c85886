//! System calls equivalent to the kernel's, with helpers.
//!
//! Results, errors and all effects that others can observe are those of the plain calls; in any
//! unusual case the plain call is made. These functions allocate nothing, start no threads that
//! outlive them, and block all signals meanwhile, as one long system call does. `errno` may be
//! changed.
//!
//! [`State`] is their record of a process. One, in a static, serves all threads of the process,
//! and stays correct in the child of a fork.

mod allocate;
mod end;
mod halt;
mod lock;
mod map;
mod region_list;
mod region_table;
mod segment;
mod state;
pub(crate) mod system;

pub use allocate::{Block, allocate};
pub use bigiron_helpers::HeldSignals;
pub use end::{End, end_of_process};
pub use lock::{mlock, mlock2, mlockall, munlockall, note_mlockall};
pub use map::{Request, madvise, mmap, munmap};
pub use segment::{note_shmget, shmat, shmctl, shmdt, shmget};
pub use state::State;

use rustix::io::Errno;

use crate::engine::{Outcome, Settings};
use crate::policy::Policy;

/// Result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// Return value of the plain call.
    pub result: Result<T, Errno>,
    /// Outcome of the helpers' work; `None` if the plain call did everything.
    pub outcome: Option<Outcome>,
}

impl<T> Answer<T> {
    /// Creates the answer of a plain call.
    fn plain(result: Result<T, Errno>) -> Self {
        Self {
            result,
            outcome: None,
        }
    }
}

/// True if a request of this many bytes is large enough for helpers.
fn is_large(policy: &Policy, bytes: usize) -> bool {
    policy.enabled && bytes >= policy.settings.straight_below
}

/// Returns the settings for an operation during which all signals are blocked.
fn settings(policy: &Policy, held: &HeldSignals) -> Settings {
    Settings {
        held_back: Some(held.before()),
        ..policy.settings
    }
}

/// True if this kernel supports populating memory (MADV_POPULATE_READ, 5.14), and permits it to
/// this process.
fn can_populate() -> bool {
    system::madvise(0, 0, libc::MADV_POPULATE_READ).is_ok()
}
