//! Orders items that helpers finish in any order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bigiron_helpers::Stop;

/// Interval at which waiting helpers check the stop flag.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Items by number, processed one after the other.
///
/// A helper deposits its item and continues: the helper that deposits the next item in order also
/// processes all items that follow it. Only a helper that is too far ahead waits, so few items are
/// held back, and a slow chunk does not stop the others.
pub(super) struct InOrder<T> {
    state: Mutex<State<T>>,
    moved: Condvar,
    max_ahead: u64,
}

struct State<T> {
    next: u64,
    items: BTreeMap<u64, T>,
    /// True while a helper processes items.
    busy: bool,
}

impl<T> InOrder<T> {
    /// Creates an order that starts with item 0; at most `max_ahead` items wait.
    pub(super) fn new(max_ahead: u64) -> Self {
        Self {
            state: Mutex::new(State {
                next: 0,
                items: BTreeMap::new(),
                busy: false,
            }),
            moved: Condvar::new(),
            max_ahead: max_ahead.max(1),
        }
    }

    /// Deposits item `number`, and calls `take` with the items whose turn it is, unless another
    /// helper does. Items are dropped if the work was stopped.
    pub(super) fn put<E>(
        &self,
        number: u64,
        item: T,
        stop: &Stop,
        mut take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut state = self.lock();
        // Numbers are handed out in order, so the lowest never waits.
        while number >= state.next + self.max_ahead {
            if stop.is_set() {
                return Ok(());
            }
            let waited = self.moved.wait_timeout(state, STOP_INTERVAL);
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
            // Nothing may follow an error: its number stays the next one.
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
    fn all_items_come_out_in_order() {
        for max_ahead in [1, 2, 7] {
            let (cursor, stop) = (WorkCursor::new(3000), Stop::new());
            let (order, out) = (InOrder::new(max_ahead), Mutex::new(Vec::new()));
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
    fn nothing_follows_an_error_and_no_helper_waits_forever() {
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
