//! The online CPUs.

use crate::program::Program;

/// Returns the online CPUs; if they cannot be read, none, and adds the reason to `gaps`.
pub(crate) fn online_cpus(program: &Program, gaps: &mut Vec<String>) -> Vec<usize> {
    let read = || {
        // Without SMP there is one and no mask.
        match program.symbol("__cpu_online_mask") {
            Ok(mask) => program.cpus_in(mask),
            Err(_) => Ok((0..program.cpu_count()?).collect()),
        }
    };
    read().unwrap_or_else(|error| {
        gaps.push(format!("the online CPUs: {error}"));
        Vec::new()
    })
}
