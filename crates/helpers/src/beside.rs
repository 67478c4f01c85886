//! Runs something beside the helpers, such as a writer.

use std::panic;
use std::thread;

use crate::stop::Stop;

/// Runs `beside` in a thread of its own while `main` runs in this one; returns both results.
/// The argument of `main` is true if that thread exists: if the system provides none, `main`
/// works without it, and `beside` never runs.
///
/// `main` must let `beside` end, by closing the queue between them. An error of `beside` sets
/// `stop`, and is the one that is returned. A panic of either is resumed in the caller.
pub fn run_beside<T, B: Send, E: Send>(
    stop: &Stop,
    beside: impl FnOnce() -> Result<B, E> + Send,
    main: impl FnOnce(bool) -> Result<T, E>,
) -> Result<(T, Option<B>), E> {
    thread::scope(|scope| {
        let started = thread::Builder::new()
            .name("writer".into())
            .spawn_scoped(scope, || {
                let ends = StopUnlessDefused(stop);
                let result = beside();
                if result.is_ok() {
                    std::mem::forget(ends);
                }
                result
            });
        let Ok(thread) = started else {
            return main(false).map(|value| (value, None));
        };
        let ends = StopUnlessDefused(stop);
        let value = main(true);
        if value.is_ok() {
            std::mem::forget(ends);
        } else {
            drop(ends);
        }
        match thread.join() {
            Ok(Err(error)) => Err(error),
            Ok(Ok(other)) => value.map(|value| (value, Some(other))),
            Err(payload) => panic::resume_unwind(payload),
        }
    })
}

/// Stops the others if this one fails or panics.
struct StopUnlessDefused<'a>(&'a Stop);

impl Drop for StopUnlessDefused<'_> {
    fn drop(&mut self) {
        self.0.set();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::BoundedQueue;

    #[test]
    fn both_closures_run_and_return_their_results() {
        let (queue, stop) = (BoundedQueue::new(1, 1), Stop::new());
        let result = run_beside(
            &stop,
            || {
                let mut sum = 0;
                while let Some(item) = queue.pop(&stop) {
                    sum += item;
                }
                Ok::<_, ()>(sum)
            },
            |has_thread| {
                assert!(has_thread);
                for item in 1..=100 {
                    queue.push(item, 1, &stop).unwrap();
                }
                queue.close();
                Ok("main")
            },
        );
        assert_eq!(result, Ok(("main", Some(5050))));
        assert!(!stop.is_set());
    }

    #[test]
    fn error_of_the_side_thread_stops_the_main_work_and_is_returned() {
        let (queue, stop) = (BoundedQueue::new(1, 1), Stop::new());
        let result = run_beside(
            &stop,
            || Err::<(), _>("disk full"),
            |_| {
                while queue.push(1, 1, &stop).is_ok() {}
                Ok(())
            },
        );
        assert_eq!(result, Err("disk full"));
    }

    #[test]
    fn error_of_the_main_work_stops_the_side_thread() {
        let (queue, stop) = (BoundedQueue::<u8>::new(1, 1), Stop::new());
        let result = run_beside(
            &stop,
            || {
                while queue.pop(&stop).is_some() {}
                Ok::<_, &str>(())
            },
            |_| Err::<(), _>("unreadable"),
        );
        assert_eq!(result, Err("unreadable"));
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn panic_of_the_side_thread_reaches_the_caller() {
        let (queue, stop) = (BoundedQueue::new(1, 1), Stop::new());
        let _ = run_beside(
            &stop,
            || -> Result<(), ()> { panic!("on purpose") },
            |_| {
                while queue.push(1, 1, &stop).is_ok() {}
                Ok(())
            },
        );
    }
}
