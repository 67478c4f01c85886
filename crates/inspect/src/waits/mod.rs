//! Who waits for whom: blocked tasks, what each waits for, and who has it.
//!
//! No debug symbols are needed. A waiter is a structure on the stack of the task that waits, in
//! the frame of the function that blocks (`kind`); it is linked into a list whose head is in
//! the lock (`queue`). A lock is believed only if the waiter in its list is the task's own. What it
//! is part of (`objects`) names it: a page of a file, an inode, the memory of a process.

mod bits;
mod calls;
mod clock;
mod edges;
pub(crate) mod frames;
mod holder;
mod kind;
mod objects;
mod queue;
mod readers;
mod rpc;
mod search;
mod task_name;
mod thing;
mod wait;
pub(crate) mod workers;

pub use calls::Call;
pub use edges::{Cycle, Root};
pub use holder::{Holder, Holds};
pub use kind::WaitKind;
pub use search::Waits;
pub use task_name::TaskName;
pub use thing::Thing;
pub use wait::{Awaited, Wait};
pub use workers::Worker;
