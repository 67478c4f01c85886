//! The time that a hypervisor did not give to a CPU.
//!
//! Relies on the per-CPU variable `kernel_cpustat` (include/linux/kernel_stat.h).

use crate::program::Program;

/// CPUTIME_STEAL (enum cpu_usage_stat), if the kernel's types do not name it.
const STEAL: u64 = 7;

/// Nanoseconds that the hypervisor gave to others while a CPU wanted to run.
pub(crate) fn steal(program: &Program, cpu: usize) -> Option<u64> {
    let index = program.enumerator("CPUTIME_STEAL").ok().flatten();
    let index = index
        .and_then(|index| u64::try_from(index).ok())
        .unwrap_or(STEAL);
    let at = program.per_cpu("kernel_cpustat", cpu).ok()?;
    let at = program.member(at, "kernel_cpustat", "cpustat").ok()?;
    program
        .number(program.plus(at, index.checked_mul(8)?).ok()?, 8)
        .ok()
}
