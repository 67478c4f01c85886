//! What findings are made of, read once for all of them.

use std::sync::OnceLock;

use bigiron_helpers::Stop;

use super::cpu_states::{self, CpuState};
use super::fault::Fault;
use super::finding::Finding;
use super::log::LogLines;
use super::slab_object::SlabObjects;
use crate::error::InspectError;
use crate::program::Program;
use crate::tasks::Tasks;
use crate::waits::Waits;

/// The kernel's usual numbers of jiffies in a second (CONFIG_HZ).
const FREQUENCIES: [u64; 4] = [100, 250, 300, 1000];
/// Seconds by which jiffies start before they wrap (INITIAL_JIFFIES).
const BEFORE_WRAP: u64 = 300;
const SECOND: u64 = 1_000_000_000;

/// Searches for a finding. An error is the reason why this kernel cannot be searched for it.
pub type Find = fn(&Evidence) -> Result<Vec<Finding>, InspectError>;

/// The evidence in a dump. Each part is read when a finding first asks for it.
pub struct Evidence<'e, 'k, 's> {
    /// The kernel.
    pub program: &'e Program<'k, 's>,
    /// Set when the time is over.
    pub stop: &'e Stop,
    log: OnceLock<LogLines>,
    fault: OnceLock<Option<Fault>>,
    tasks: OnceLock<Result<Tasks, String>>,
    waits: OnceLock<Result<Waits, String>>,
    cpus: OnceLock<Result<Vec<CpuState>, String>>,
}

impl<'e, 'k, 's> Evidence<'e, 'k, 's> {
    /// Nothing read yet.
    pub fn new(program: &'e Program<'k, 's>, stop: &'e Stop) -> Self {
        Self {
            program,
            stop,
            log: OnceLock::new(),
            fault: OnceLock::new(),
            tasks: OnceLock::new(),
            waits: OnceLock::new(),
            cpus: OnceLock::new(),
        }
    }

    /// The kernel's log; empty if it cannot be read.
    pub fn log(&self) -> &LogLines {
        self.log.get_or_init(|| LogLines::of(self.program.kernel()))
    }

    /// The fault that stopped the kernel; `None` if none did.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.get_or_init(|| Fault::of(self.log())).as_ref()
    }

    /// All tasks.
    ///
    /// # Errors
    ///
    /// The tasks of this kernel cannot be read.
    pub fn tasks(&self) -> Result<&Tasks, InspectError> {
        let read = || Tasks::of(&self.program.renewed()).map_err(|error| error.to_string());
        known("tasks", self.tasks.get_or_init(read))
    }

    /// Who waits for whom.
    ///
    /// # Errors
    ///
    /// The tasks or stacks of this kernel cannot be read.
    pub fn waits(&self) -> Result<&Waits, InspectError> {
        let read = || {
            let program = self.program.renewed();
            Waits::of(&program, self.stop).map_err(|error| error.to_string())
        };
        known("waiting tasks", self.waits.get_or_init(read))
    }

    /// The online CPUs.
    ///
    /// # Errors
    ///
    /// The run queues or stacks of this kernel cannot be read.
    pub fn cpus(&self) -> Result<&[CpuState], InspectError> {
        let read = || {
            let program = self.program.renewed();
            cpu_states::read(&program, self.log().end()).map_err(|error| error.to_string())
        };
        known("CPUs", self.cpus.get_or_init(read)).map(Vec::as_slice)
    }

    /// The slab objects.
    ///
    /// # Errors
    ///
    /// The slabs or struct pages of this kernel cannot be read.
    pub fn slab_objects(&self) -> Result<SlabObjects<'e, 'k, 's>, InspectError> {
        SlabObjects::of(self.program)
    }

    /// Nanoseconds since a number of jiffies; `None` if the kernel's jiffies are not known.
    ///
    /// CONFIG_HZ is not in a kernel's memory: it is the usual number with which jiffies and the
    /// clock of the scheduler agree best.
    pub fn since_jiffies(&self, then: u64) -> Option<u64> {
        let now = self.program.variable("jiffies", 8).ok()?;
        let hertz = frequency(now, self.clock()?)?;
        Some(now.wrapping_sub(then).checked_mul(SECOND)? / hertz)
    }

    /// The kernel's clock when it stopped, in nanoseconds since boot: that of the most advanced
    /// run queue.
    pub fn clock(&self) -> Option<u64> {
        let cpus = self.cpus().ok()?;
        let clocks = cpus.iter().filter_map(|state| {
            let queue = self.program.per_cpu("runqueues", state.cpu).ok()?;
            self.program.value(queue, "rq", "clock").ok()
        });
        clocks.max()
    }
}

/// Returns the number of jiffies in a second.
fn frequency(jiffies: u64, clock: u64) -> Option<u64> {
    let off = |hertz: &u64| {
        let start = (1_u64 << 32).wrapping_sub(BEFORE_WRAP * hertz);
        let up = jiffies.wrapping_sub(start);
        (up.checked_mul(SECOND / hertz)).map_or(u64::MAX, |up| up.abs_diff(clock))
    };
    FREQUENCIES.into_iter().min_by_key(off)
}

fn known<'r, T>(what: &'static str, found: &'r Result<T, String>) -> Result<&'r T, InspectError> {
    found.as_ref().map_err(|reason| InspectError::NotKnown {
        what,
        reason: reason.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequency_is_that_with_which_jiffies_and_clock_agree() {
        for hertz in FREQUENCIES {
            for seconds in [20, 299, 301, 100_000] {
                let jiffies = (1_u64 << 32) - 300 * hertz + seconds * hertz;
                assert_eq!(
                    frequency(jiffies, seconds * SECOND),
                    Some(hertz),
                    "{seconds}"
                );
            }
        }
    }
}
