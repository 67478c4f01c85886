//! The event queue, and a resource shared equally by its users.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An event with its time. The earliest is the greatest; among events of the same time the one
/// added first, so that all runs have the same result.
struct Timed<T> {
    time: f64,
    number: u64,
    what: T,
}

impl<T> PartialEq for Timed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Timed<T> {}

impl<T> PartialOrd for Timed<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Timed<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = other.time.total_cmp(&self.time);
        by_time.then(other.number.cmp(&self.number))
    }
}

/// Events in chronological order.
pub struct Events<T> {
    heap: BinaryHeap<Timed<T>>,
    added: u64,
}

impl<T> Default for Events<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            added: 0,
        }
    }
}

impl<T> Events<T> {
    /// Adds the event `what` at `time`.
    pub fn add(&mut self, time: f64, what: T) {
        self.added += 1;
        self.heap.push(Timed {
            time,
            number: self.added,
            what,
        });
    }

    /// Removes and returns the next event.
    pub fn next(&mut self) -> Option<(f64, T)> {
        self.heap.pop().map(|event| (event.time, event.what))
    }

    fn first_time(&self) -> Option<f64> {
        self.heap.peek().map(|event| event.time)
    }
}

/// A resource that serves up to `capacity` users at full speed, and more users equally slower.
///
/// All users progress at the same speed, so one clock at that speed suffices: a user is done
/// when the clock has advanced by its work.
pub struct Shared {
    capacity: f64,
    clock: f64,
    set_at: f64,
    users: Events<usize>,
    count: usize,
}

impl Shared {
    pub fn new(capacity: f64) -> Self {
        Self {
            capacity,
            clock: 0.0,
            set_at: 0.0,
            users: Events::default(),
            count: 0,
        }
    }

    fn speed(&self) -> f64 {
        (self.capacity / self.count.max(1) as f64).min(1.0)
    }

    fn advance(&mut self, now: f64) {
        self.clock += (now - self.set_at) * self.speed();
        self.set_at = now;
    }

    /// Starts `user` with this amount of work.
    pub fn begin(&mut self, now: f64, user: usize, work: f64) {
        self.advance(now);
        self.users.add(self.clock + work, user);
        self.count += 1;
    }

    /// Returns the time at which the next user is done, unless another begins before.
    pub fn next_end(&self) -> Option<f64> {
        let left = (self.users.first_time()? - self.clock).max(0.0);
        Some(self.set_at + left / self.speed())
    }

    /// Removes and returns the user that is done at `now`.
    pub fn end(&mut self, now: f64) -> Option<usize> {
        self.advance(now);
        let (clock, user) = self.users.next()?;
        // Rounding must not leave the clock behind the finished user's time.
        self.clock = self.clock.max(clock);
        self.count -= 1;
        Some(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_as_they_were_added() {
        let mut events = Events::default();
        for (time, what) in [(2.0, 'c'), (1.0, 'a'), (2.0, 'd'), (1.0, 'b')] {
            events.add(time, what);
        }
        let order: String = std::iter::from_fn(|| events.next().map(|(_, what)| what)).collect();
        assert_eq!(order, "abcd");
    }

    #[test]
    fn users_of_a_full_resource_slow_each_other_down_equally() {
        let mut bus = Shared::new(1.0);
        bus.begin(0.0, 7, 10.0);
        bus.begin(0.0, 8, 30.0);
        assert_eq!(bus.next_end(), Some(20.0));
        assert_eq!(bus.end(20.0), Some(7));
        // By then the other has done 10 of its 30 units, and is alone from now on.
        assert_eq!(bus.next_end(), Some(40.0));
        assert_eq!(bus.end(40.0), Some(8));
        assert_eq!(bus.next_end(), None);
    }
}
