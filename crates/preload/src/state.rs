//! The policy and the state of this process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use bigiron_memory::call::State;
use bigiron_memory::policy::Policy;

use crate::stack;

/// State of the calls of this process.
pub(crate) static STATE: State = State::new();

static POLICY: OnceLock<Policy> = OnceLock::new();

/// The size in bytes below which a call is the plain one: all calls, until the policy is read.
pub(crate) static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Sets the policy, once.
pub(crate) fn set_policy(policy: Policy) {
    let threshold = policy.settings.straight_below;
    POLICY.get_or_init(|| policy);
    THRESHOLD.store(threshold, Ordering::Release);
}

/// Returns the policy if calls may be accelerated on this stack. `None` before the policy is read:
/// constructors and allocators of other libraries run before this library's.
pub(crate) fn policy() -> Option<&'static Policy> {
    known_policy().filter(|_| stack::has_room())
}

/// Returns the policy whatever the size of the stack, for calls that only record something.
pub(crate) fn known_policy() -> Option<&'static Policy> {
    POLICY.get().filter(|policy| policy.enabled)
}

/// Returns the addresses of the policy and the state, which are kept until the end.
pub(crate) fn addresses() -> [usize; 2] {
    [(&raw const POLICY).addr(), (&raw const STATE).addr()]
}
