//! Regular syncs of a growing dump, so that most of it survives a power cut.
//!
//! A file system may delay the allocation of a new file's data for half a minute (ext4's
//! delayed allocation, Documentation/admin-guide/ext4.rst); if the machine is reset during its
//! dump, none of the dump is then on the disk. Regular syncs also write data to the disk while
//! the helpers work, instead of all at the end.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bigiron_helpers::{Stop, run_beside};

use crate::progress::Progress;

/// Time between two syncs: the maximum that a power cut costs.
const SYNC_INTERVAL: Duration = Duration::from_secs(2);

/// Runs `main`, and meanwhile calls `sync` regularly if bytes are being written.
///
/// # Errors
///
/// An error of `main`; or one of `sync`, since the kernel reports a failed write only once.
pub fn keep<T, E: Send>(
    sync: impl Fn() -> Result<(), E> + Sync + Send,
    progress: &Progress,
    stop: &Stop,
    main: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let end = End::default();
    let regular_syncs = || {
        let mut synced = progress.written();
        while !end.within(SYNC_INTERVAL) {
            let written = progress.written();
            if written != synced {
                sync()?;
                synced = written;
            }
            if stop.is_set() {
                break;
            }
        }
        Ok(())
    };
    let main = |_| {
        // On a panic too: the syncing thread must end.
        let _ends = EndWhenDropped(&end);
        main()
    };
    run_beside(stop, regular_syncs, main).map(|(value, _)| value)
}

/// End of the main part.
#[derive(Default)]
struct End {
    reached: Mutex<bool>,
    signal: Condvar,
}

impl End {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.reached
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Waits for the end for at most `time`; returns true if the end came.
    fn within(&self, time: Duration) -> bool {
        let waited = self
            .signal
            .wait_timeout_while(self.lock(), time, |reached| !*reached);
        *waited.unwrap_or_else(|poison| poison.into_inner()).0
    }
}

struct EndWhenDropped<'a>(&'a End);

impl Drop for EndWhenDropped<'_> {
    fn drop(&mut self) {
        *self.0.lock() = true;
        self.0.signal.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread::sleep;

    use super::*;

    fn keep_counting(
        syncs: &AtomicU32,
        fails: bool,
        main: impl FnOnce(&Progress, &Stop) -> Result<u32, String>,
    ) -> Result<u32, String> {
        let (progress, stop) = (Progress::new(), Stop::new());
        let sync = || {
            syncs.fetch_add(1, Ordering::Relaxed);
            if fails { Err("full".into()) } else { Ok(()) }
        };
        keep(sync, &progress, &stop, || main(&progress, &stop))
    }

    fn until(holds: impl Fn() -> bool) {
        while !holds() {
            sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn only_an_output_that_grows_is_synced() {
        let syncs = AtomicU32::new(0);
        let idle = keep_counting(&syncs, false, |_, _| {
            sleep(SYNC_INTERVAL + SYNC_INTERVAL / 2);
            Ok(1)
        });
        assert_eq!((idle, syncs.load(Ordering::Relaxed)), (Ok(1), 0));
        let busy = keep_counting(&syncs, false, |progress, _| {
            until(|| {
                progress.add_written(1);
                syncs.load(Ordering::Relaxed) > 0
            });
            Ok(2)
        });
        assert_eq!(busy, Ok(2));
    }

    #[test]
    fn failed_sync_ends_the_dump_and_is_its_error() {
        let ended = keep_counting(&AtomicU32::new(0), true, |progress, stop| {
            until(|| {
                progress.add_written(1);
                stop.is_set()
            });
            Err("interrupted".into())
        });
        assert_eq!(ended, Err("full".into()));
    }

    #[test]
    fn end_does_not_wait_for_the_next_sync() {
        let begin = std::time::Instant::now();
        let ended = keep_counting(&AtomicU32::new(0), false, |_, _| Ok(3));
        assert_eq!(ended, Ok(3));
        assert!(begin.elapsed() < SYNC_INTERVAL);
    }
}
