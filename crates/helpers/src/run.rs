//! Runs helpers until all are done.

use std::panic;
use std::sync::Mutex;
use std::thread;

use crate::stop::Stop;

/// Runs `helper` in `count` threads, including this one, and returns their results in any
/// order. `helper` receives its number, from 0 up.
///
/// The first error stops the others at their next chunk and is returned; later errors are its
/// consequences and are dropped. A panic is resumed in the caller. If the system provides fewer
/// threads than requested, the existing ones do all the work.
pub fn run<T: Send, E: Send>(
    count: usize,
    stop: &Stop,
    helper: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let results = Mutex::new((Vec::new(), None));
    run_threads(count, &|number| {
        let on_panic = StopOnPanic(stop);
        let result = helper(number);
        std::mem::forget(on_panic);
        if result.is_err() {
            stop.set();
        }
        let mut results = results.lock().unwrap_or_else(|poison| poison.into_inner());
        let (values, first_error) = &mut *results;
        match result {
            Ok(value) => values.push(value),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    });
    match results
        .into_inner()
        .unwrap_or_else(|poison| poison.into_inner())
    {
        (_, Some(error)) => Err(error),
        (values, None) => Ok(values),
    }
}

/// Runs `helper` in up to `count` threads, including this one, until all have ended. Not generic,
/// so that the capture build has its code once.
fn run_threads(count: usize, helper: &(dyn Fn(usize) + Sync)) {
    thread::scope(|scope| {
        let others: Vec<_> = (1..count.max(1))
            .map_while(|number| {
                let name = format!("helper-{number}");
                thread::Builder::new()
                    .name(name)
                    .spawn_scoped(scope, move || helper(number))
                    .ok()
            })
            .collect();
        helper(0);
        for other in others {
            if let Err(payload) = other.join() {
                panic::resume_unwind(payload);
            }
        }
    });
}

/// Stops the other helpers if this one panics, so that the panic is reported at once and not
/// after all the work.
struct StopOnPanic<'a>(&'a Stop);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.set();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::WorkCursor;

    #[test]
    fn every_chunk_is_taken_once() {
        let (cursor, stop) = (WorkCursor::new(10_000), Stop::new());
        let taken = run(8, &stop, |_| {
            let mut taken = Vec::new();
            while let Some(chunk) = cursor.take(&stop) {
                taken.push(chunk);
            }
            Ok::<_, ()>(taken)
        });
        let mut taken: Vec<u64> = taken.unwrap().into_iter().flatten().collect();
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..10_000));
    }

    #[test]
    fn first_error_stops_other_helpers_and_is_returned() {
        let (cursor, stop) = (WorkCursor::new(u64::MAX), Stop::new());
        let result = run(4, &stop, |_| {
            while let Some(chunk) = cursor.take(&stop) {
                if chunk == 1000 {
                    return Err("chunk 1000");
                }
            }
            Ok(())
        });
        assert_eq!(result, Err("chunk 1000"));
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn panic_reaches_the_caller_and_stops_other_helpers() {
        let (cursor, stop) = (WorkCursor::new(u64::MAX), Stop::new());
        let _ = run(2, &stop, |number| {
            while let Some(chunk) = cursor.take(&stop) {
                assert!(number == 0 || chunk < 1000, "on purpose");
            }
            Ok::<_, ()>(())
        });
    }
}
