//! The engine: helper threads that take chunks of work as they finish, share
//! nothing, and keep their memory within a budget. Knows nothing of dumps.
//!
//! ```
//! use bigiron_helpers::{WorkCursor, Stop, run};
//!
//! let (cursor, stop) = (WorkCursor::new(100), Stop::new());
//! let sums = run(4, &stop, |_helper| {
//!     let mut sum = 0;
//!     while let Some(chunk) = cursor.take(&stop) {
//!         sum += chunk;
//!     }
//!     Ok::<_, std::io::Error>(sum)
//! });
//! assert_eq!(sums.unwrap().into_iter().sum::<u64>(), 4950);
//! ```

#[cfg(not(loom))]
mod bare;
mod beside;
mod budget;
mod cursor;
mod queue;
mod run;
#[cfg(not(loom))]
mod signals;
mod size;
mod stop;
mod sync;
#[cfg(not(loom))]
mod time_limit;
mod turnstile;

#[cfg(not(loom))]
pub use bare::{MAX_BARE_THREADS, ThreadId, run_bare};
pub use beside::run_beside;
pub use budget::{MemoryBudget, available_memory, processor_count};
pub use cursor::WorkCursor;
pub use queue::{BoundedQueue, QueueWaits};
pub use run::run;
#[cfg(not(loom))]
pub use signals::{HeldSignals, held_signals};
pub use size::{format_size, group_digits, parse_size};
pub use stop::Stop;
#[cfg(not(loom))]
pub use time_limit::within;
pub use turnstile::Turnstile;
