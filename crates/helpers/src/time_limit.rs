//! A time limit for searches that end with what they have found.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::Stop;

/// Does `work`, which is to end soon after its flag is set: that happens after `limit`.
pub fn within<T>(limit: Option<Duration>, work: impl FnOnce(&Stop) -> T) -> T {
    let stop = Stop::new();
    let Some(limit) = limit else {
        return work(&stop);
    };
    thread::scope(|scope| {
        let (done, wait) = channel::<()>();
        let flag = stop.clone();
        scope.spawn(move || {
            if wait.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                flag.set();
            }
        });
        let found = work(&stop);
        drop(done);
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_is_set_after_the_limit_and_not_without_one() {
        let ended = within(Some(Duration::ZERO), |stop| {
            while !stop.is_set() {
                thread::yield_now();
            }
            7
        });
        assert_eq!(ended, 7);
        assert!(!within(None, Stop::is_set));
        assert!(!within(Some(Duration::from_secs(3600)), Stop::is_set));
    }
}
