//! A queue from producers to consumers.

use std::collections::VecDeque;
use std::time::Duration;

use crate::stop::Stop;
use crate::sync::{Condvar, Mutex, lock, wait_and_look_again};

/// A queue between threads, bounded in items and in weight: `push` waits for room, `pop` waits
/// for work.
///
/// Any number of threads may push and pop. Items leave in the order in which they entered. A
/// light item may enter before a heavy one that waits for room.
#[derive(Debug)]
pub struct BoundedQueue<T> {
    state: Mutex<State<T>>,
    room: Condvar,
    work: Condvar,
    max_items: usize,
    max_weight: u64,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<(T, u64)>,
    weight: u64,
    closed: bool,
    waits: QueueWaits,
}

/// Total time that threads waited at a queue. A wait in progress is included up to at most 100
/// ms ago.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueWaits {
    /// Time spent waiting for room: consumers are too slow.
    pub for_room: Duration,
    /// Time spent waiting for work: producers are too slow.
    pub for_work: Duration,
}

impl<T> BoundedQueue<T> {
    /// Creates an empty queue for at most `max_items` items, at least one, of at most
    /// `max_weight` in total. The caller chooses the unit of weight, usually bytes. An item
    /// that weighs more enters alone.
    pub fn new(max_items: usize, max_weight: u64) -> Self {
        Self {
            state: Mutex::new(State {
                items: VecDeque::new(),
                weight: 0,
                closed: false,
                waits: QueueWaits::default(),
            }),
            room: Condvar::new(),
            work: Condvar::new(),
            max_items: max_items.max(1),
            max_weight,
        }
    }

    /// Appends `item` once there is room for it. Returns the item if the queue is closed or the
    /// work was stopped.
    pub fn push(&self, item: T, weight: u64, stop: &Stop) -> Result<(), T> {
        let mut state = lock(&self.state);
        loop {
            if state.closed || stop.is_set() {
                return Err(item);
            }
            if self.has_room(&state, weight) {
                break;
            }
            let (guard, waited) = wait_and_look_again(&self.room, state);
            state = guard;
            state.waits.for_room += waited;
        }
        state.items.push_back((item, weight));
        // An item of any weight may enter alone, so the sum can be anything.
        state.weight = state.weight.saturating_add(weight);
        drop(state);
        // One item is work for one thread.
        self.work.notify_one();
        Ok(())
    }

    /// Takes the first item once there is one. `None` if the queue is closed and empty, or if
    /// the work was stopped; items may be left in it then.
    pub fn pop(&self, stop: &Stop) -> Option<T> {
        let mut state = lock(&self.state);
        let (item, weight) = loop {
            if stop.is_set() {
                return None;
            }
            if let Some(first) = state.items.pop_front() {
                break first;
            }
            if state.closed {
                return None;
            }
            let (guard, waited) = wait_and_look_again(&self.work, state);
            state = guard;
            state.waits.for_work += waited;
        };
        state.weight -= weight;
        drop(state);
        // The room of one heavy item may hold several light ones, and a single heavy one might
        // wake to find that it is not enough.
        self.room.notify_all();
        Some(item)
    }

    /// Closes the queue to new items. Items in the queue can still be popped; all threads that
    /// wait in vain are woken.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.room.notify_all();
        self.work.notify_all();
    }

    /// Returns the number of items in the queue.
    pub fn len(&self) -> usize {
        lock(&self.state).items.len()
    }

    /// True if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the total weight of the items in the queue.
    pub fn weight(&self) -> u64 {
        lock(&self.state).weight
    }

    /// Returns the time that threads have waited so far.
    pub fn waits(&self) -> QueueWaits {
        lock(&self.state).waits
    }

    fn has_room(&self, state: &State<T>, weight: u64) -> bool {
        let total = state.weight.checked_add(weight);
        state.items.is_empty()
            || state.items.len() < self.max_items
                && total.is_some_and(|total| total <= self.max_weight)
    }

    /// In a model: the timeout of all waiting threads. See [`crate::sync::time_passes`].
    #[cfg(loom)]
    pub fn time_passes(&self) {
        crate::sync::time_passes(&self.state, &self.room);
        crate::sync::time_passes(&self.state, &self.work);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    const MANY: u64 = 20_000;

    /// Waits until `condition` holds; the test hangs if it never does.
    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn items_are_popped_in_push_order() {
        let (queue, stop) = (BoundedQueue::new(3, u64::MAX), Stop::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                for item in 0..MANY {
                    queue.push(item, 1, &stop).unwrap();
                }
                queue.close();
            });
            for item in 0..MANY {
                assert_eq!(queue.pop(&stop), Some(item));
            }
            assert_eq!(queue.pop(&stop), None);
        });
    }

    #[test]
    fn no_item_is_lost_or_duplicated_and_the_limits_hold() {
        const MAX_ITEMS: usize = 5;
        const MAX_WEIGHT: u64 = 12;
        let (queue, stop) = (BoundedQueue::new(MAX_ITEMS, MAX_WEIGHT), Stop::new());
        let pushers_left = AtomicU64::new(3);
        let mut popped = thread::scope(|scope| {
            for pusher in 0..3 {
                let (queue, stop, pushers_left) = (&queue, &stop, &pushers_left);
                scope.spawn(move || {
                    for item in (pusher..MANY).step_by(3) {
                        queue.push(item, item % 7, stop).unwrap();
                    }
                    if pushers_left.fetch_sub(1, Ordering::Relaxed) == 1 {
                        queue.close();
                    }
                });
            }
            let poppers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut popped = Vec::new();
                        while let Some(item) = queue.pop(&stop) {
                            assert!(queue.len() <= MAX_ITEMS);
                            assert!(queue.weight() <= MAX_WEIGHT);
                            popped.push(item);
                        }
                        popped
                    })
                })
                .collect();
            let joined = poppers
                .into_iter()
                .flat_map(|popper| popper.join().unwrap());
            joined.collect::<Vec<_>>()
        });
        popped.sort_unstable();
        assert!(popped.into_iter().eq(0..MANY));
        assert_eq!((queue.len(), queue.weight()), (0, 0));
    }

    #[test]
    fn push_waits_for_both_limits_and_an_oversized_item_is_alone() {
        let stop = Stop::new();
        for (max_items, weight, next) in [(2, 1, 1), (9, 50, 1), (0, u64::MAX, u64::MAX)] {
            let queue = BoundedQueue::new(max_items, 100);
            let fit = if max_items == 0 { 1 } else { 2 };
            for item in 0..fit {
                queue.push(item, weight, &stop).unwrap();
            }
            thread::scope(|scope| {
                let pusher = scope.spawn(|| queue.push(fit, next, &stop));
                until(|| queue.waits().for_room > Duration::ZERO);
                assert_eq!(queue.len(), fit);
                assert_eq!(queue.pop(&stop), Some(0));
                pusher.join().unwrap().unwrap();
            });
            assert_eq!(queue.len(), fit);
            assert_eq!(queue.waits().for_work, Duration::ZERO);
        }
    }

    /// Two producers at a full queue and two consumers at an empty one wait until `end`, and
    /// then leave with nothing done. Returns the full queue.
    #[allow(clippy::unwrap_used, reason = "a test's helper")]
    fn all_go_home_at(
        stop: &Stop,
        end: impl FnOnce(&BoundedQueue<u64>, &BoundedQueue<u64>),
    ) -> BoundedQueue<u64> {
        let (full, empty) = (BoundedQueue::new(1, 1), BoundedQueue::new(1, 1));
        full.push(1, 1, stop).unwrap();
        thread::scope(|scope| {
            let full = &full;
            let pushers = [2, 3].map(|item| scope.spawn(move || full.push(item, 1, stop)));
            let poppers = [(); 2].map(|()| scope.spawn(|| empty.pop(stop)));
            until(|| full.waits().for_room > Duration::ZERO);
            until(|| empty.waits().for_work > Duration::ZERO);
            end(full, &empty);
            assert_eq!(
                pushers.map(|thread| thread.join().unwrap()),
                [Err(2), Err(3)]
            );
            assert_eq!(
                poppers.map(|thread| thread.join().unwrap()),
                [None::<u64>; 2]
            );
        });
        full
    }

    #[test]
    fn close_wakes_all_waiters_and_keeps_queued_items() {
        let stop = Stop::new();
        let full = all_go_home_at(&stop, |full, empty| {
            full.close();
            empty.close();
        });
        assert_eq!(full.push(4, 1, &stop), Err(4));
        assert_eq!(full.pop(&stop), Some(1));
        assert_eq!(full.pop(&stop), None);
    }

    #[test]
    fn unannounced_stop_wakes_all_waiters() {
        let stop = Stop::new();
        let full = all_go_home_at(&stop, |_, _| stop.set());
        assert_eq!(full.pop(&stop), None);
        assert_eq!(full.len(), 1);
    }
}
