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
    let first_error = Mutex::new(None);
    let guarded = |number: usize| {
        let on_panic = StopOnPanic(stop);
        let result = helper(number);
        std::mem::forget(on_panic);
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                stop.set();
                let mut first = first_error
                    .lock()
                    .unwrap_or_else(|poison| poison.into_inner());
                first.get_or_insert(error);
                None
            }
        }
    };
    let guarded = &guarded;
    let values = thread::scope(|scope| {
        let others: Vec<_> = (1..count.max(1))
            .map_while(|number| {
                let name = format!("helper-{number}");
                thread::Builder::new()
                    .name(name)
                    .spawn_scoped(scope, move || guarded(number))
                    .ok()
            })
            .collect();
        let mut values: Vec<_> = guarded(0).into_iter().collect();
        for other in others {
            match other.join() {
                Ok(value) => values.extend(value),
                Err(payload) => panic::resume_unwind(payload),
            }
        }
        values
    });
    match first_error
        .into_inner()
        .unwrap_or_else(|poison| poison.into_inner())
    {
        Some(error) => Err(error),
        None => Ok(values),
    }
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
