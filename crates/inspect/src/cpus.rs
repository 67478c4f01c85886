//! CPUs, and what each has of a per-CPU variable.

use std::collections::HashSet;

use bigiron_format::VirtAddr;
use bigiron_kernel::KernelError;

use crate::error::InspectError;
use crate::program::Program;

/// Maximum number of CPUs (CONFIG_NR_CPUS is at most 8192).
const MAX_CPUS: u64 = 64 << 10;

impl Program<'_, '_> {
    /// The number of possible CPUs (nr_cpu_ids).
    pub fn cpu_count(&self) -> Result<usize, InspectError> {
        // Without SMP it is a macro for 1.
        let count = match self.symbol("nr_cpu_ids") {
            Ok(address) => self.number(address, 4)?,
            Err(InspectError::NoSymbol { .. }) => 1,
            Err(error) => return Err(error),
        };
        if count == 0 || count > MAX_CPUS {
            return Err(KernelError::Implausible {
                what: "nr_cpu_ids".into(),
                found: count.to_string(),
                expected: "1 to 65536",
            }
            .into());
        }
        Ok(count as usize)
    }

    /// Returns the address of a per-CPU variable on one CPU.
    pub fn per_cpu(&self, name: &str, cpu: usize) -> Result<VirtAddr, InspectError> {
        let address = self.symbol(name)?;
        self.per_cpu_at(address, cpu)
    }

    /// Returns the address on one CPU for a `__percpu` pointer.
    pub fn per_cpu_at(&self, pointer: VirtAddr, cpu: usize) -> Result<VirtAddr, InspectError> {
        let offsets = match self.names.offsets.get() {
            Some(offsets) => offsets,
            None => {
                let read = self.read_offsets()?;
                self.names.offsets.get_or_init(|| read)
            }
        };
        let offset = offsets.get(cpu).ok_or_else(|| InspectError::Damaged {
            what: "a per-CPU variable".into(),
            address: pointer,
            reason: format!("CPU {cpu} of {}", offsets.len()),
        })?;
        Ok(VirtAddr(pointer.0.wrapping_add(*offset)))
    }

    fn read_offsets(&self) -> Result<Vec<u64>, InspectError> {
        let table = match self.symbol("__per_cpu_offset") {
            Ok(table) => table,
            // Without SMP a per-CPU variable is at its symbol's address.
            Err(InspectError::NoSymbol { .. }) => return Ok(vec![0]),
            Err(error) => return Err(error),
        };
        (0..self.cpu_count()?)
            .map(|cpu| self.number(self.plus(table, 8 * cpu as u64)?, 8))
            .collect()
    }

    /// Returns the CPUs in a kernel cpumask such as `__cpu_online_mask`.
    pub fn cpus_in(&self, mask: VirtAddr) -> Result<Vec<usize>, InspectError> {
        let count = self.cpu_count()?;
        let mut cpus = Vec::new();
        for word in 0..count.div_ceil(64) {
            let bits = self.number(self.plus(mask, 8 * word as u64)?, 8)?;
            // The returned list is larger than the bitmap.
            self.step(u64::from(bits.count_ones()))?;
            let set = (0..64).filter(|bit| bits >> bit & 1 != 0);
            cpus.extend(set.map(|bit| word * 64 + bit).filter(|cpu| *cpu < count));
        }
        Ok(cpus)
    }
}

/// Returns the CPUs that were online when the kernel stopped; if they cannot be read, none, and
/// adds the reason to `gaps`.
pub(crate) fn online_cpus(program: &Program, gaps: &mut Vec<String>) -> Vec<usize> {
    let read = || {
        // Without SMP there is one and no mask.
        let mut cpus = match program.symbol("__cpu_online_mask") {
            Ok(mask) => program.cpus_in(mask)?,
            Err(_) => (0..program.cpu_count()?).collect(),
        };
        // A panic may take other CPUs offline (arm64: local_cpu_stop, arch/arm64/kernel/smp.c),
        // after they left their registers.
        if let Ok(mask) = program.symbol("__cpu_possible_mask") {
            let online: HashSet<usize> = cpus.iter().copied().collect();
            let possible = program.cpus_in(mask)?.into_iter();
            let stopped = possible.filter(|cpu| !online.contains(cpu));
            cpus.extend(stopped.filter(|cpu| left_registers(program, *cpu)));
            cpus.sort_unstable();
        }
        own_areas(program, cpus)
    };
    match read() {
        Ok((cpus, 0)) => cpus,
        Ok((cpus, others)) => {
            let all = cpus.len() + others;
            gaps.push(format!(
                "the online CPUs: {others} of {all} have no per-CPU memory of their own"
            ));
            cpus
        }
        Err(error) => {
            gaps.push(format!("the online CPUs: {error}"));
            Vec::new()
        }
    }
}

/// Returns the address of a CPU's notes in the kernel's memory: crash_notes (kernel/crash_core.c),
/// allocated per CPU and filled by crash_save_cpu.
pub(crate) fn crash_notes(program: &Program, cpu: usize) -> Option<VirtAddr> {
    let notes = program.variable("crash_notes", 8).ok()?;
    program.per_cpu_at(VirtAddr(notes), cpu).ok()
}

/// Returns true if a CPU left registers in the kernel's memory: its notes are not blank.
pub(crate) fn left_registers(program: &Program, cpu: usize) -> bool {
    let notes = crash_notes(program, cpu);
    notes.is_some_and(|at| program.number(at, 8).is_ok_and(|sizes| sizes != 0))
}

/// Returns the possible CPUs.
pub(crate) fn possible_cpus(program: &Program) -> Result<Vec<usize>, InspectError> {
    let cpus = program.cpus_in(program.symbol("__cpu_possible_mask")?)?;
    Ok(own_areas(program, cpus)?.0)
}

/// Removes the CPUs that have the per-CPU memory of an earlier one, and returns their number: a
/// mask names a CPU by a bit, but the kernel allocates memory for each.
fn own_areas(program: &Program, cpus: Vec<usize>) -> Result<(Vec<usize>, usize), InspectError> {
    let all = cpus.len();
    let (mut seen, mut own) = (HashSet::new(), Vec::new());
    for cpu in cpus {
        if seen.insert(program.per_cpu_at(VirtAddr(0), cpu)?) {
            own.push(cpu);
        }
    }
    let others = all - own.len();
    Ok((own, others))
}
