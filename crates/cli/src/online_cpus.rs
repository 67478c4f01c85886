//! Brings CPUs of the capture kernel up, so that they can help.
//!
//! A kernel started with `nr_cpus=4` has four CPUs at most, and not all of them
//! need to be on line when it has booted. One started with `maxcpus=1` was told
//! to leave the others alone: among them may be the one that the machine booted
//! with, and waking that resets some machines (Documentation/admin-guide/kdump/
//! kdump.rst).

use std::fs;
use std::path::Path;

use bigiron_cpu::System;

use crate::arguments::OnlineCpus;
use crate::tell::tell;

/// The memory of the kernel that crashed, as its capture kernel shows it.
const VMCORE: &str = "/proc/vmcore";

/// Brings up as many CPUs as there are `wanted`, or all, and says so. What
/// fails is a warning: the dump is made by the CPUs that are there.
pub fn bring_up(when: OnlineCpus, sources: &[impl AsRef<Path>], wanted: Option<u16>, quiet: bool) {
    let wanted = wanted.map_or(usize::MAX, usize::from);
    match when {
        OnlineCpus::Never => return,
        OnlineCpus::Auto => {
            let is_capture = sources
                .iter()
                .any(|source| source.as_ref() == Path::new(VMCORE));
            let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
            if !is_capture || leaves_cpus_alone(&line) {
                return;
            }
        }
        OnlineCpus::Always => {}
    }
    match System::running().bring_up(wanted) {
        Ok(brought) => {
            if !brought.up.is_empty() && !quiet {
                tell!("bigiron: CPUs {} are on line now", brought.up);
            }
            for (cpu, error) in brought.failed {
                tell!("bigiron: warning: CPU {cpu} stays off line: {error}");
            }
        }
        Err(error) => tell!("bigiron: warning: no CPUs can be brought up: {error}"),
    }
}

/// Whether the kernel's command line asks for some CPUs not to be started.
fn leaves_cpus_alone(line: &str) -> bool {
    line.split_ascii_whitespace()
        .any(|word| word.starts_with("maxcpus=") || word == "nosmp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_told_to_leave_cpus_alone_is_known() {
        assert!(leaves_cpus_alone("quiet maxcpus=1 irqpoll"));
        assert!(leaves_cpus_alone("nosmp"));
        assert!(!leaves_cpus_alone("nr_cpus=4 reset_devices xmaxcpus=1\n"));
        assert!(!leaves_cpus_alone(""));
    }
}
