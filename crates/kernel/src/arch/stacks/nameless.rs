//! Code without a name.

use super::{End, StackReader};

/// Maximum number of consecutive frames without a name: BPF programs call each other up to 8
/// deep (MAX_CALL_FRAMES, include/linux/bpf_verifier.h).
const MAX_NAMELESS: usize = 8;

/// Counts consecutive frames in no known function, as generated code is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nameless(usize);

impl Nameless {
    /// Counts the frame that continues at `ip`.
    ///
    /// # Errors
    ///
    /// There are more of them than generated code has.
    pub fn check(&mut self, kernel: &dyn StackReader, ip: u64) -> Result<(), End> {
        match kernel.function_at(ip) {
            Some(_) => self.0 = 0,
            None => self.0 += 1,
        }
        if self.0 > MAX_NAMELESS {
            return Err(End::Cut(format!("{ip:#x} is not kernel code")));
        }
        Ok(())
    }
}
