//! Models of the engine. loom runs each in all possible interleavings of its
//! threads, and fails if one ends with a wrong result or with a thread that
//! sleeps forever. `./test loom` runs them.
//!
//! Loom knows neither time nor scoped threads. A wait that has a timeout for the
//! sake of a [`Stop`] ends here by a notification, or by `time_passes`, which
//! is the timeout of all who wait at that moment. [`bigiron_helpers::run`] is no
//! part of the models; ThreadSanitizer watches it (`./test tsan`).
#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    reason = "a model that cannot go on is a failed one"
)]

use bigiron_helpers::{BoundedQueue, Stop, Turnstile, WorkCursor};
use loom::model::Builder;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Tries all orders with at most three switches away from a thread that could
/// have gone on: nearly all known mistakes need less.
/// LOOM_MAX_PREEMPTIONS sets another bound.
fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(run);
}

/// What the threads of a model share.
#[derive(Default)]
struct Shared<T> {
    what: T,
    stop: Stop,
}

fn share<T>(what: T) -> Arc<Shared<T>> {
    let stop = Stop::new();
    Arc::new(Shared { what, stop })
}

/// A thread that works on what is shared.
fn start<T: Send + Sync + 'static, R: Send + 'static>(
    shared: &Arc<Shared<T>>,
    work: impl FnOnce(&T, &Stop) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let shared = Arc::clone(shared);
    thread::spawn(move || work(&shared.what, &shared.stop))
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

fn take_all(cursor: &WorkCursor, stop: &Stop) -> Vec<u64> {
    std::iter::from_fn(|| cursor.take(stop)).collect()
}

fn pop_all(queue: &BoundedQueue<u64>, stop: &Stop) -> Vec<u64> {
    std::iter::from_fn(|| queue.pop(stop)).collect()
}

#[test]
fn every_chunk_is_taken_exactly_once() {
    model(|| {
        let shared = share(WorkCursor::new(3));
        let others = [(); 2].map(|()| start(&shared, take_all));
        let mut taken = take_all(&shared.what, &shared.stop);
        for other in others {
            taken.extend(other.join().unwrap());
        }
        assert_eq!(sorted(taken), [0, 1, 2]);
    });
}

#[test]
fn stop_is_visible_with_its_reason_and_no_chunk_is_taken() {
    model(|| {
        let shared = share((WorkCursor::new(u64::MAX), AtomicU64::new(0)));
        let other = start(&shared, |(_, reason), stop| {
            reason.store(7, Ordering::Relaxed);
            stop.set();
        });
        let (cursor, reason) = &shared.what;
        if cursor.take(&shared.stop).is_none() {
            assert_eq!(reason.load(Ordering::Relaxed), 7);
        }
        other.join().unwrap();
        assert_eq!(cursor.take(&shared.stop), None);
    });
}

#[test]
fn turnstile_keeps_the_order() {
    model(|| {
        let shared = share((WorkCursor::new(3), Turnstile::new(), Mutex::new(Vec::new())));
        let work = |(cursor, turnstile, out): &(_, Turnstile, Mutex<Vec<u64>>), stop: &Stop| {
            for chunk in take_all(cursor, stop) {
                let passed = turnstile.pass(chunk, stop, || out.lock().unwrap().push(chunk));
                assert_eq!(passed, Some(()));
            }
        };
        let others = [(); 2].map(|()| start(&shared, work));
        work(&shared.what, &shared.stop);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(*shared.what.2.lock().unwrap(), [0, 1, 2]);
    });
}

#[test]
fn turnstile_timeout_does_not_break_the_order() {
    model(|| {
        let shared = share((Turnstile::new(), AtomicU64::new(0)));
        let second = start(&shared, |(turnstile, passed), stop| {
            turnstile.pass(1, stop, || assert_eq!(passed.load(Ordering::Relaxed), 1))
        });
        let (turnstile, passed) = &shared.what;
        turnstile.time_passes();
        turnstile.pass(0, &shared.stop, || passed.store(1, Ordering::Relaxed));
        assert_eq!(second.join().unwrap(), Some(()));
    });
}

#[test]
fn stop_wakes_all_waiters_at_the_turnstile() {
    model(|| {
        let shared = share(Turnstile::new());
        let others = [1, 2].map(|chunk| {
            start(&shared, move |turnstile, stop| {
                turnstile.pass(chunk, stop, || ())
            })
        });
        shared.stop.set();
        shared.what.time_passes();
        for other in others {
            assert_eq!(other.join().unwrap(), None);
        }
    });
}

#[test]
fn two_producers_and_one_consumer_lose_and_duplicate_nothing() {
    model(|| {
        let shared = share(BoundedQueue::new(2, 9));
        let pushers = [vec![0, 1], vec![10]].map(|items| {
            start(&shared, |queue, stop| {
                for item in items {
                    queue.push(item, 1, stop).unwrap();
                }
            })
        });
        let popped: Vec<u64> = (0..3)
            .map(|_| shared.what.pop(&shared.stop).unwrap())
            .collect();
        for pusher in pushers {
            pusher.join().unwrap();
        }
        let first = popped.iter().position(|item| *item == 0);
        assert!(first < popped.iter().position(|item| *item == 1));
        assert_eq!(sorted(popped), [0, 1, 10]);
        assert!(shared.what.is_empty());
    });
}

#[test]
fn one_producer_and_two_consumers_lose_and_duplicate_nothing() {
    model(|| {
        let shared = share(BoundedQueue::new(2, 9));
        let poppers = [(); 2].map(|()| start(&shared, pop_all));
        for item in 0..2 {
            shared.what.push(item, 1, &shared.stop).unwrap();
        }
        shared.what.close();
        let popped = poppers.into_iter().flat_map(|other| other.join().unwrap());
        assert_eq!(sorted(popped.collect()), [0, 1]);
    });
}

/// Counts from outside what must be in the queue at least: it goes up after a
/// push and down before a pop.
fn the_bound_holds(most_items: usize, weight: u64, most_weight: u64) {
    model(move || {
        let shared = share((
            BoundedQueue::new(most_items, most_weight),
            Mutex::new(0_i64),
        ));
        let pushers = [0, 1].map(|item| {
            start(&shared, move |(queue, inside), stop| {
                queue.push(item, weight, stop).unwrap();
                let mut inside = inside.lock().unwrap();
                *inside += 1;
                assert!(*inside <= 1);
            })
        });
        let (queue, inside) = &shared.what;
        let popped = [(); 2].map(|()| {
            *inside.lock().unwrap() -= 1;
            queue.pop(&shared.stop).unwrap()
        });
        for pusher in pushers {
            pusher.join().unwrap();
        }
        assert_eq!(sorted(popped.to_vec()), [0, 1]);
        assert_eq!(queue.weight(), 0);
    });
}

#[test]
fn item_limit_is_never_exceeded() {
    the_bound_holds(1, 1, 9);
}

#[test]
fn weight_limit_is_never_exceeded() {
    the_bound_holds(9, 2, 3);
}

#[test]
fn removed_heavy_item_makes_room_for_two_light_ones() {
    model(|| {
        let shared = share(BoundedQueue::new(2, 2));
        shared.what.push(9, 2, &shared.stop).unwrap();
        let pushers =
            [0, 1].map(|item| start(&shared, move |queue, stop| queue.push(item, 1, stop)));
        assert_eq!(shared.what.pop(&shared.stop), Some(9));
        for pusher in pushers {
            pusher.join().unwrap().unwrap();
        }
        shared.what.close();
        let left = pop_all(&shared.what, &shared.stop);
        assert_eq!(sorted(left), [0, 1]);
    });
}

#[test]
fn close_wakes_waiting_producers() {
    model(|| {
        let shared = share(BoundedQueue::new(1, 9));
        shared.what.push(9, 1, &shared.stop).unwrap();
        let pushers =
            [0, 1].map(|item| start(&shared, move |queue, stop| queue.push(item, 1, stop)));
        shared.what.close();
        let given_back = pushers.map(|pusher| pusher.join().unwrap());
        assert_eq!(given_back, [Err(0), Err(1)]);
        assert_eq!(pop_all(&shared.what, &shared.stop), [9]);
    });
}

#[test]
fn close_wakes_waiting_consumers() {
    model(|| {
        let shared = share(BoundedQueue::<u64>::new(1, 9));
        let poppers = [(); 2].map(|()| start(&shared, BoundedQueue::pop));
        shared.what.close();
        assert_eq!(poppers.map(|popper| popper.join().unwrap()), [None; 2]);
    });
}

#[test]
fn stop_wakes_waiters_at_full_and_empty_queues() {
    model(|| {
        let shared = share([BoundedQueue::new(1, 9), BoundedQueue::new(1, 9)]);
        shared.what[0].push(9, 1, &shared.stop).unwrap();
        let pusher = start(&shared, |[full, _], stop| full.push(0, 1, stop));
        let popper = start(&shared, |[_, empty], stop| empty.pop(stop));
        shared.stop.set();
        for queue in &shared.what {
            queue.time_passes();
        }
        assert_eq!(pusher.join().unwrap(), Err(0));
        assert_eq!(popper.join().unwrap(), None::<u64>);
        assert_eq!(shared.what.each_ref().map(BoundedQueue::len), [1, 0]);
    });
}

#[test]
fn queue_timeout_keeps_the_limits_and_creates_no_item() {
    model(|| {
        let shared = share(BoundedQueue::new(1, 9));
        shared.what.push(0, 1, &shared.stop).unwrap();
        let pusher = start(&shared, |queue, stop| queue.push(1, 1, stop));
        shared.what.time_passes();
        assert_eq!(shared.what.len(), 1);
        assert_eq!(shared.what.pop(&shared.stop), Some(0));
        let popper = start(&shared, BoundedQueue::pop);
        shared.what.time_passes();
        pusher.join().unwrap().unwrap();
        assert_eq!(popper.join().unwrap(), Some(1));
    });
}

/// The gate of bigiron-memory's helpers, with its model: that crate has no build for loom.
#[path = "../../memory/src/engine/pace.rs"]
#[allow(dead_code, reason = "the model needs little of it")]
mod pace;
#[path = "../../memory/src/engine/word.rs"]
mod word;
