//! Brings what helpers finish in any order into one order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bigiron_helpers::Stop;

/// Who waits looks this often whether the work was stopped.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Items by number, and who takes them on one after the other.
///
/// A helper leaves its item and goes on: whoever leaves the one that is next
/// takes on all that follow it, too. Only who is too far ahead waits, so few
/// items are held back, and a chunk that takes long keeps nobody from working.
pub(super) struct InOrder<T> {
    state: Mutex<State<T>>,
    moved: Condvar,
    most_ahead: u64,
}

struct State<T> {
    next: u64,
    items: BTreeMap<u64, T>,
    /// Somebody takes items on now.
    busy: bool,
}

impl<T> InOrder<T> {
    /// Item 0 is first; at most `most_ahead` items wait.
    pub(super) fn new(most_ahead: u64) -> Self {
        Self {
            state: Mutex::new(State {
                next: 0,
                items: BTreeMap::new(),
                busy: false,
            }),
            moved: Condvar::new(),
            most_ahead: most_ahead.max(1),
        }
    }

    /// Leaves the `number`-th item, and calls `take` with those whose turn it
    /// is, if nobody else does. Items are dropped if the work was stopped.
    pub(super) fn put<E>(
        &self,
        number: u64,
        item: T,
        stop: &Stop,
        mut take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut state = self.lock();
        // Numbers are taken in order, so the lowest never waits.
        while number >= state.next + self.most_ahead {
            if stop.is_set() {
                return Ok(());
            }
            let waited = self.moved.wait_timeout(state, LOOK_AGAIN);
            state = waited.unwrap_or_else(|poison| poison.into_inner()).0;
        }
        state.items.insert(number, item);
        while !state.busy {
            let next = state.next;
            let Some(item) = state.items.remove(&next) else {
                break;
            };
            state.busy = true;
            drop(state);
            let result = take(item);
            state = self.lock();
            state.busy = false;
            // After an error nothing may follow: its number stays the next.
            result?;
            state.next += 1;
            self.moved.notify_all();
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;
    use bigiron_helpers::{WorkCursor, run};

    #[test]
    fn items_come_out_in_order_and_all_of_them() {
        for most_ahead in [1, 2, 7] {
            let (cursor, stop) = (WorkCursor::new(3000), Stop::new());
            let (order, out) = (InOrder::new(most_ahead), Mutex::new(Vec::new()));
            run(5, &stop, |_| {
                while let Some(number) = cursor.take(&stop) {
                    order.put(number, number, &stop, |item| {
                        out.lock().unwrap().push(item);
                        Ok::<_, ()>(())
                    })?;
                }
                Ok::<_, ()>(())
            })
            .unwrap();
            assert!(out.into_inner().unwrap().into_iter().eq(0..3000));
        }
    }

    #[test]
    fn nothing_follows_an_error_and_nobody_waits_for_ever() {
        let (cursor, stop) = (WorkCursor::new(3000), Stop::new());
        let (order, out) = (InOrder::new(3), Mutex::new(Vec::new()));
        let result = run(4, &stop, |_| {
            while let Some(number) = cursor.take(&stop) {
                order.put(number, number, &stop, |item| {
                    out.lock().unwrap().push(item);
                    if item == 1000 { Err("full") } else { Ok(()) }
                })?;
            }
            Ok(())
        });
        assert_eq!(result, Err("full"));
        assert!(
            out.into_inner()
                .unwrap()
                .into_iter()
                .all(|item| item <= 1000)
        );
    }
}
