//! A thread for periodic work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Handle of the running thread; stops the thread on drop.
pub struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The stop flag, as seen by the thread.
pub struct Ticks(Arc<AtomicBool>);

impl Ticks {
    /// Waits for `time`, or until the thread must stop; returns false if it must.
    pub fn wait(&self, time: Duration) -> bool {
        if !self.0.load(Ordering::Relaxed) {
            thread::park_timeout(time);
        }
        !self.0.load(Ordering::Relaxed)
    }
}

impl Background {
    /// Starts `work`, which must return when [`Ticks::wait`] returns false. If no thread can be
    /// created, the work is skipped.
    pub fn begin(name: &str, work: impl FnOnce(&Ticks) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ticks = Ticks(Arc::clone(&stop));
        let spawned = thread::Builder::new()
            .name(name.into())
            .spawn(move || work(&ticks));
        Self {
            stop,
            thread: spawned.ok(),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
