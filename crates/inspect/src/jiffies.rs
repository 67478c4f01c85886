//! The kernel's jiffies.

use crate::cpus::online_cpus;
use crate::error::InspectError;
use crate::program::Program;

/// The kernel's usual numbers of jiffies in a second (CONFIG_HZ).
const FREQUENCIES: [u64; 4] = [100, 250, 300, 1000];
/// Seconds by which jiffies start before they wrap (INITIAL_JIFFIES).
const BEFORE_WRAP: u64 = 300;
const SECOND: u64 = 1_000_000_000;

/// The clocks of a kernel when it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jiffies {
    /// The clock of the scheduler: nanoseconds since boot, by the most advanced run queue.
    pub clock: u64,
    now: u64,
    hertz: u64,
}

impl Jiffies {
    /// Reads the clocks.
    ///
    /// CONFIG_HZ is not in a kernel's memory: it is the usual number with which jiffies and the
    /// clock of the scheduler agree best.
    ///
    /// # Errors
    ///
    /// The kernel has no variable `jiffies`, or no run queue can be read.
    pub fn of(program: &Program) -> Result<Self, InspectError> {
        let now = program.variable("jiffies", 8)?;
        let clock = |cpu: usize| -> Result<u64, InspectError> {
            let queue = program.per_cpu("runqueues", cpu)?;
            program.value(queue, "rq", "clock")
        };
        let cpus = online_cpus(program, &mut Vec::new()).into_iter();
        let clock = cpus.filter_map(|cpu| clock(cpu).ok()).max();
        let clock = clock.ok_or_else(|| InspectError::NotKnown {
            what: "the clock",
            reason: "no run queue can be read".into(),
        })?;
        Ok(Self {
            clock,
            now,
            hertz: frequency(now, clock),
        })
    }

    /// Nanoseconds since a number of jiffies.
    pub fn since(&self, then: u64) -> Option<u64> {
        Some(self.now.wrapping_sub(then).checked_mul(SECOND)? / self.hertz)
    }
}

/// Returns the number of jiffies in a second.
fn frequency(jiffies: u64, clock: u64) -> u64 {
    let off = |hertz: &u64| {
        let start = (1_u64 << 32).wrapping_sub(BEFORE_WRAP * hertz);
        let up = jiffies.wrapping_sub(start);
        (up.checked_mul(SECOND / hertz)).map_or(u64::MAX, |up| up.abs_diff(clock))
    };
    let frequencies = FREQUENCIES.into_iter();
    frequencies.min_by_key(off).unwrap_or(FREQUENCIES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequency_is_that_with_which_jiffies_and_clock_agree() {
        for hertz in FREQUENCIES {
            for seconds in [20, 299, 301, 100_000] {
                let jiffies = (1_u64 << 32) - 300 * hertz + seconds * hertz;
                assert_eq!(frequency(jiffies, seconds * SECOND), hertz, "{seconds}");
            }
        }
    }
}
