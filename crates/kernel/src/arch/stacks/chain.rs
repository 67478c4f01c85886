//! A chain of frames: each has the address of its caller's.

use super::End;

/// Number of bytes that a frame may lie above another on one stack: stacks have 16 KiB, or a
/// page of 64 KiB; twice as much with KASAN.
const MAX_STACK: u64 = 128 << 10;
/// Maximum number of changes to another stack: from that of an exception to that of interrupts
/// and to the task's, with room to spare.
const MAX_CHANGES: u32 = 8;

/// Follows a chain. Stacks grow downwards, so each frame is above its callee's, except where
/// the stack changes.
#[derive(Clone, Debug)]
pub struct Chain {
    at: u64,
    align: u64,
    changes: u32,
}

impl Chain {
    /// Starts at the frame `at`; frames are aligned to `align` bytes, a power of two.
    pub fn new(at: u64, align: u64) -> Self {
        Self {
            at,
            align,
            changes: 0,
        }
    }

    /// Moves to the caller's frame.
    ///
    /// # Errors
    ///
    /// It is not aligned, or the chain changes stacks too often to be one.
    pub fn follow(&mut self, next: u64) -> Result<(), End> {
        if next & (self.align - 1) != 0 {
            return Err(End::Cut(format!("{next:#x} is not the address of a frame")));
        }
        let rises = next > self.at && next - self.at <= MAX_STACK;
        if !rises {
            self.changes += 1;
            if self.changes > MAX_CHANGES {
                return Err(End::Cut(format!(
                    "the frames up to {next:#x} are on more than {MAX_CHANGES} stacks"
                )));
            }
        }
        self.at = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_rises_or_changes_stacks_a_few_times() {
        let mut chain = Chain::new(0x1000, 8);
        assert_eq!(chain.follow(0x1008), Ok(()));
        assert!(matches!(chain.follow(0x1011), Err(End::Cut(_))));
        assert_eq!(chain.at, 0x1008);
        let steps = (0..100).take_while(|step| chain.follow(0x1000 + 8 * (step % 2)).is_ok());
        // Every second step goes down.
        assert!((8..=20).contains(&steps.count()));
    }
}
