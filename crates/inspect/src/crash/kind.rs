//! The kinds of events in a log.

use serde::Serialize;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// Panic.
    Panic,
    /// A fault, or a failed assertion of the kernel.
    Oops,
    /// A CPU that does not respond.
    Lockup,
    /// A task that was blocked too long.
    HungTask,
    /// An RCU stall.
    Stall,
    /// An error reported by the CPU or memory.
    Hardware,
    /// A requested crash.
    Request,
}
