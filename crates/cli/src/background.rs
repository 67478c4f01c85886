//! A thread that looks at something now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Runs until it is dropped.
pub struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The thread's side of it.
pub struct Ticks(Arc<AtomicBool>);

impl Ticks {
    /// Waits so long, or until the thread is to end; whether it goes on.
    pub fn wait(&self, time: Duration) -> bool {
        if !self.0.load(Ordering::Relaxed) {
            thread::park_timeout(time);
        }
        !self.0.load(Ordering::Relaxed)
    }
}

impl Background {
    /// Runs `work`, which ends when [`Ticks::wait`] says so. Without threads
    /// to be had it does not run at all.
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
