//! What findings are made of, read once for all of them.

use std::sync::OnceLock;

use bigiron_helpers::Stop;

use super::cpu_states::{self, CpuState};
use super::fault::Fault;
use super::finding::Finding;
use super::log::LogLines;
use crate::block_io::BlockQueue;
use crate::error::InspectError;
use crate::jiffies::Jiffies;
use crate::program::Program;
use crate::slab_object::SlabObjects;
use crate::tasks::Tasks;
use crate::waits::Waits;

/// Searches for a finding. An error is the reason why this kernel cannot be searched for it.
pub type Find = fn(&Evidence) -> Result<Vec<Finding>, InspectError>;

/// The evidence in a dump. Each part is read when a finding first asks for it.
pub struct Evidence<'e, 'k, 's> {
    /// The kernel.
    pub program: &'e Program<'k, 's>,
    /// Set when the time is over.
    pub stop: &'e Stop,
    /// Names of the searches that found something, so far.
    pub found: Vec<&'static str>,
    log: OnceLock<LogLines>,
    fault: OnceLock<Option<Fault>>,
    tasks: OnceLock<Result<Tasks, String>>,
    waits: OnceLock<Result<Waits, String>>,
    cpus: OnceLock<Result<Vec<CpuState>, String>>,
    jiffies: OnceLock<Result<Jiffies, String>>,
    block_queues: OnceLock<Result<Vec<BlockQueue>, String>>,
}

impl<'e, 'k, 's> Evidence<'e, 'k, 's> {
    /// Nothing read yet.
    pub fn new(program: &'e Program<'k, 's>, stop: &'e Stop) -> Self {
        Self {
            program,
            stop,
            found: Vec::new(),
            log: OnceLock::new(),
            fault: OnceLock::new(),
            tasks: OnceLock::new(),
            waits: OnceLock::new(),
            cpus: OnceLock::new(),
            jiffies: OnceLock::new(),
            block_queues: OnceLock::new(),
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

    /// Who waits for whom, for others than findings.
    ///
    /// # Errors
    ///
    /// As [`Self::waits`].
    pub fn into_waits(self) -> Result<Waits, InspectError> {
        self.waits()?;
        let found = self.waits.into_inner();
        let found = found.unwrap_or_else(|| Ok(Waits::default()));
        found.map_err(|reason| InspectError::NotKnown {
            what: "waiting tasks",
            reason,
        })
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

    /// The block devices.
    ///
    /// # Errors
    ///
    /// The block devices or requests of this kernel cannot be read.
    pub fn block_queues(&self) -> Result<&[BlockQueue], InspectError> {
        let read = || {
            let program = self.program.renewed();
            BlockQueue::all(&program, self.stop).map_err(|error| error.to_string())
        };
        known("block devices", self.block_queues.get_or_init(read)).map(Vec::as_slice)
    }

    /// The kernel's clocks.
    ///
    /// # Errors
    ///
    /// The run queues of this kernel cannot be read.
    pub fn jiffies(&self) -> Result<Jiffies, InspectError> {
        let read = || Jiffies::of(self.program).map_err(|error| error.to_string());
        known("jiffies", self.jiffies.get_or_init(read)).copied()
    }
}

fn known<'r, T>(what: &'static str, found: &'r Result<T, String>) -> Result<&'r T, InspectError> {
    found.as_ref().map_err(|reason| InspectError::NotKnown {
        what,
        reason: reason.clone(),
    })
}
