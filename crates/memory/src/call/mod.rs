//! System calls that do the same as the kernel's, with helpers.
//!
//! Results, errors and all that others can see of them are those of the plain calls:
//! wherever something is odd, the plain call is made. They allocate nothing and start no
//! threads that outlive them, and hold all signals back meanwhile, as one long system call
//! does. `errno` may be changed.
//!
//! [`State`] is what they remember of a process; one of it, in a static, serves all its
//! threads, and stays true in the child of a fork.

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

/// What a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// What the plain call would have returned.
    pub result: Result<T, Errno>,
    /// What helpers did for it; `None` if it was the plain call alone.
    pub outcome: Option<Outcome>,
}

impl<T> Answer<T> {
    /// Of the plain call.
    fn plain(result: Result<T, Errno>) -> Self {
        Self {
            result,
            outcome: None,
        }
    }
}

/// Whether so many bytes are worth helpers.
fn is_large(policy: &Policy, bytes: usize) -> bool {
    policy.enabled && bytes >= policy.settings.straight_below
}

/// The settings, for a caller that holds all signals back.
fn settings(policy: &Policy, held: &HeldSignals) -> Settings {
    Settings {
        held_back: Some(held.before()),
        ..policy.settings
    }
}

/// Whether this kernel makes pages on demand (MADV_POPULATE_READ, 5.14), and lets this
/// process ask for it.
fn can_populate() -> bool {
    system::madvise(0, 0, libc::MADV_POPULATE_READ).is_ok()
}
