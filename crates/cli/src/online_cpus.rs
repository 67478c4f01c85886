//! Brings CPUs of the capture kernel online before a dump.
//!
//! A kernel started with `nr_cpus=4` has at most four CPUs, not all of which need to be online
//! after boot. One started with `maxcpus=1` must not start the others: the boot CPU of the
//! crashed kernel may be among them, and waking it resets some machines
//! (Documentation/admin-guide/kdump/kdump.rst).

use std::fs;
use std::path::Path;

use bigiron_cpu::System;

use crate::arguments::OnlineCpus;
use crate::tell::tell;

/// The memory of the crashed kernel, in its capture kernel.
const VMCORE: &str = "/proc/vmcore";

/// Brings up to `wanted` CPUs online, or all, and reports it. A failure is a warning: the dump
/// continues on the CPUs that are online.
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
                tell!("bigiron: CPUs {} are online now", brought.up);
            }
            for (cpu, error) in brought.failed {
                tell!("bigiron: warning: CPU {cpu} stays offline: {error}");
            }
        }
        Err(error) => tell!("bigiron: warning: cannot bring CPUs online: {error}"),
    }
}

/// Returns true if the kernel's command line forbids starting some CPUs.
fn leaves_cpus_alone(line: &str) -> bool {
    line.split_ascii_whitespace()
        .any(|word| word.starts_with("maxcpus=") || word == "nosmp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maxcpus_and_nosmp_are_recognised() {
        assert!(leaves_cpus_alone("quiet maxcpus=1 irqpoll"));
        assert!(leaves_cpus_alone("nosmp"));
        assert!(!leaves_cpus_alone("nr_cpus=4 reset_devices xmaxcpus=1\n"));
        assert!(!leaves_cpus_alone(""));
    }
}
