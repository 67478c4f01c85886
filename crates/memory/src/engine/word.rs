//! A number whose changes threads wait for: a futex; with `--cfg loom` a model of one, for
//! which loom tests all interleavings of the threads.

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

        /// Changes the word from `seen` to `value`; returns true on success.
        pub fn change(&self, seen: u32, value: u32) -> bool {
            self.0
                .compare_exchange(seen, value, Ordering::Release, Ordering::Relaxed)
                .is_ok()
        }

        /// Sets bits of the word.
        pub fn set(&self, bits: u32) {
            self.0.fetch_or(bits, Ordering::Release);
        }

        /// Waits while the word is `value`, until another thread wakes all; may return
        /// spuriously.
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

    /// The mutex stands for the kernel's lock of a futex: comparing the number and going to
    /// sleep are atomic.
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
