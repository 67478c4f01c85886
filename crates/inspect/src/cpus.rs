//! The online CPUs.

use std::collections::HashSet;

use bigiron_format::VirtAddr;

use crate::error::InspectError;
use crate::program::Program;

/// Returns the online CPUs; if they cannot be read, none, and adds the reason to `gaps`.
pub(crate) fn online_cpus(program: &Program, gaps: &mut Vec<String>) -> Vec<usize> {
    let read = || {
        // Without SMP there is one and no mask.
        let cpus = match program.symbol("__cpu_online_mask") {
            Ok(mask) => program.cpus_in(mask)?,
            Err(_) => (0..program.cpu_count()?).collect(),
        };
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
