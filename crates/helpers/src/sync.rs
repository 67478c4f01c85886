//! Locks and atomics of this crate: those of std, or with `--cfg loom` those of loom, which
//! explores all interleavings of threads.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(loom)]
pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(not(loom))]
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use std::time::Duration;

/// Takes the lock, also after a panic of a holder: the data that it guards in this crate is
/// consistent between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// Waits for a notification, or until it is time to check the [`crate::Stop`] again: a signal
/// handler sets it and cannot notify. Returns the time spent.
#[cfg(not(loom))]
pub fn wait_and_look_again<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
) -> (MutexGuard<'a, T>, Duration) {
    const LOOK_AGAIN: Duration = Duration::from_millis(100);
    let began = std::time::Instant::now();
    let guard = match condition.wait_timeout(guard, LOOK_AGAIN) {
        Ok((guard, _)) => guard,
        Err(poison) => poison.into_inner().0,
    };
    (guard, began.elapsed())
}

/// Loom has no time: a wait ends by a notification alone, so that a missing one is found and
/// not masked by the timeout. A model that needs the timeout calls [`time_passes`].
#[cfg(loom)]
pub fn wait_and_look_again<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
) -> (MutexGuard<'a, T>, Duration) {
    let guard = condition
        .wait(guard)
        .unwrap_or_else(|poison| poison.into_inner());
    (guard, Duration::ZERO)
}

/// Acts as the timeout of all waiting threads. The lock makes it one: a thread that checked the
/// stop before it was set waits by now, and is woken.
#[cfg(loom)]
pub fn time_passes<T>(mutex: &Mutex<T>, condition: &Condvar) {
    let _waiting = lock(mutex);
    condition.notify_all();
}
