//! Keeps a growing dump safe from a power cut.
//!
//! A file system may hold back a new file's data for half a minute (ext4's
//! delayed allocation, Documentation/admin-guide/ext4.rst), and then a machine
//! that is reset in the midst of its dump has nothing of it. Syncing now and
//! then also sends data to the disk while the helpers work, which would wait
//! for the end otherwise.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bigiron_helpers::{Stop, run_beside};

use super::Output;
use crate::progress::Progress;

/// Time between two syncs: what a power cut costs at most.
const EVERY: Duration = Duration::from_secs(2);

/// Runs `main`, and beside it syncs `output` as long as something is written.
///
/// # Errors
/// That of `main`; or that of a sync, which `error` translates: the kernel
/// tells of a failed write only once.
pub fn keep<T, E: Send>(
    output: &dyn Output,
    progress: &Progress,
    stop: &Stop,
    error: impl Fn(io::Error) -> E + Sync,
    main: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let end = End::default();
    let beside = || {
        let mut synced = progress.written();
        while !end.comes_within(EVERY) {
            let written = progress.written();
            if written != synced {
                output.sync().map_err(&error)?;
                synced = written;
            }
            if stop.is_set() {
                break;
            }
        }
        Ok(())
    };
    let main = |_| {
        // Also if it panics: the other one has to end.
        let _ends = EndWhenDropped(&end);
        main()
    };
    run_beside(stop, beside, main).map(|(value, _)| value)
}

/// Whether the main part is done.
#[derive(Default)]
struct End {
    came: Mutex<bool>,
    rung: Condvar,
}

impl End {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.came
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    fn comes_within(&self, time: Duration) -> bool {
        let waited = self
            .rung
            .wait_timeout_while(self.lock(), time, |came| !*came);
        *waited.unwrap_or_else(|poison| poison.into_inner()).0
    }
}

struct EndWhenDropped<'a>(&'a End);

impl Drop for EndWhenDropped<'_> {
    fn drop(&mut self) {
        *self.0.lock() = true;
        self.0.rung.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread::sleep;

    use super::*;

    #[derive(Default)]
    struct Counting {
        syncs: AtomicU32,
        fails: bool,
    }

    impl Output for Counting {
        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn is_stream(&self) -> bool {
            false
        }
        fn sync(&self) -> io::Result<()> {
            self.syncs.fetch_add(1, Ordering::Relaxed);
            if self.fails {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(())
        }
        fn finish(&self) -> io::Result<()> {
            Ok(())
        }
        fn kept(&self) -> Option<PathBuf> {
            None
        }
        fn discard(&self) {}
    }

    fn kept(
        output: &Counting,
        main: impl FnOnce(&Progress, &Stop) -> Result<u32, String>,
    ) -> Result<u32, String> {
        let (progress, stop) = (Progress::new(), Stop::new());
        let error = |error: io::Error| error.to_string();
        keep(output, &progress, &stop, error, || main(&progress, &stop))
    }

    fn until(holds: impl Fn() -> bool) {
        while !holds() {
            sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn what_is_written_is_synced_and_what_is_not_is_not() {
        let output = Counting::default();
        let idle = kept(&output, |_, _| {
            sleep(EVERY + EVERY / 2);
            Ok(1)
        });
        assert_eq!((idle, output.syncs.load(Ordering::Relaxed)), (Ok(1), 0));
        let busy = kept(&output, |progress, _| {
            until(|| {
                progress.add_written(1);
                output.syncs.load(Ordering::Relaxed) > 0
            });
            Ok(2)
        });
        assert_eq!(busy, Ok(2));
    }

    #[test]
    fn a_failed_sync_ends_the_dump_and_is_its_error() {
        let output = Counting {
            fails: true,
            ..Counting::default()
        };
        let ended = kept(&output, |progress, stop| {
            until(|| {
                progress.add_written(1);
                stop.is_set()
            });
            Err("interrupted".into())
        });
        let full = io::Error::from(io::ErrorKind::StorageFull).to_string();
        assert_eq!(ended, Err(full));
    }

    #[test]
    fn the_end_does_not_wait_for_the_next_sync() {
        let begin = std::time::Instant::now();
        assert_eq!(kept(&Counting::default(), |_, _| Ok(3)), Ok(3));
        assert!(begin.elapsed() < EVERY);
    }
}
