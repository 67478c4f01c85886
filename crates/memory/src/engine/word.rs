//! A number that threads wait for: a futex; with `--cfg loom` one that loom knows, which tries
//! the orders in which threads can meet.

#[cfg(not(loom))]
mod of_kernel {
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::thread::futex;

    #[derive(Debug)]
    pub struct Word(AtomicU32);

    impl Word {
        pub fn new(value: u32) -> Self {
            Self(AtomicU32::new(value))
        }

        pub fn get(&self) -> u32 {
            self.0.load(Ordering::Acquire)
        }

        /// Changes it to `value` if it is `seen`; whether it was.
        pub fn change(&self, seen: u32, value: u32) -> bool {
            self.0
                .compare_exchange(seen, value, Ordering::Release, Ordering::Relaxed)
                .is_ok()
        }

        /// Sets bits of it.
        pub fn set(&self, bits: u32) {
            self.0.fetch_or(bits, Ordering::Release);
        }

        /// Waits if it is `value`, until somebody wakes all; may return without that.
        pub fn wait(&self, value: u32) {
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, value, None);
        }

        pub fn wake_all(&self) {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
    }
}

#[cfg(loom)]
mod of_loom {
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    /// The lock is the kernel's of a futex: it looks at the number and goes to sleep in one.
    #[derive(Debug)]
    pub struct Word(AtomicU32, Mutex<()>, Condvar);

    impl Word {
        pub fn new(value: u32) -> Self {
            Self(AtomicU32::new(value), Mutex::new(()), Condvar::new())
        }

        pub fn get(&self) -> u32 {
            self.0.load(Ordering::Acquire)
        }

        pub fn change(&self, seen: u32, value: u32) -> bool {
            self.0
                .compare_exchange(seen, value, Ordering::Release, Ordering::Relaxed)
                .is_ok()
        }

        pub fn set(&self, bits: u32) {
            self.0.fetch_or(bits, Ordering::Release);
        }

        pub fn wait(&self, value: u32) {
            let Ok(lock) = self.1.lock() else { return };
            if self.0.load(Ordering::Relaxed) == value {
                drop(self.2.wait(lock));
            }
        }

        pub fn wake_all(&self) {
            let _lock = self.1.lock();
            self.2.notify_all();
        }
    }
}

#[cfg(not(loom))]
pub(super) use of_kernel::Word;
#[cfg(loom)]
pub(super) use of_loom::Word;
