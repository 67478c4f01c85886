//! Why the running kernel cannot be asked by BPF, and what would help.

use std::io;

use super::TYPES;
use crate::system::CpuError;

/// Why the running kernel cannot be asked by BPF.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel's types cannot be read.
    #[error("{TYPES}: {0}; the kernel must have BTF (CONFIG_DEBUG_INFO_BTF)")]
    Types(io::Error),
    /// They are damaged, or lack what is asked for.
    #[error("{TYPES}: {0}")]
    Lacks(String),
    /// Not everybody may read the kernel's memory.
    #[error(
        "bpf(BPF_{command}): {source}; be root, or have CAP_BPF and CAP_PERFMON, outside of what forbids bpf() (seccomp)"
    )]
    Permission {
        /// What was asked.
        command: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Nobody may: lockdown=confidentiality.
    #[error(
        "the kernel is locked down, so that BPF may not read its memory (/sys/kernel/security/lockdown says confidentiality)"
    )]
    LockedDown,
    /// The kernel does not tell where its variables are.
    #[error(
        "the kernel knows no address of `runqueues`; it must have CONFIG_KALLSYMS_ALL, as those of most distributions have"
    )]
    NoSymbol,
    /// There is no such system call.
    #[error("the kernel has no bpf() (CONFIG_BPF_SYSCALL)")]
    NoBpf,
    /// The kernel refused something else.
    #[error("bpf(BPF_{command}): {source}; expected Linux 5.10 or later")]
    Call {
        /// What was asked.
        command: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The verifier refused the program.
    #[error("the kernel refuses the BPF program: {reason}; expected Linux 5.10 or later")]
    Refused {
        /// The last line of its log.
        reason: String,
    },
    /// A chain has no end that was found.
    #[error("CPU {cpu}: its chain of domains goes on behind {found} of them; try again")]
    Chain {
        /// Whose.
        cpu: u32,
        /// Domains that were read.
        found: usize,
    },
    /// The CPUs are not told.
    #[error(transparent)]
    Cpus(#[from] CpuError),
}

impl BpfError {
    /// By what the verifier says (kernel/bpf/verifier.c); `None` if it says nothing.
    pub(super) fn of_log(log: &str) -> Option<Self> {
        if log.contains("failed to find the address for kernel symbol") {
            return Some(Self::NoSymbol);
        }
        // bpf_tracing_func_proto, kernel/trace/bpf_trace.c: under lockdown there is no such function, though
        // its name is known.
        if log.contains("bpf_probe_read_kernel#") {
            return Some(Self::LockedDown);
        }
        let said = |line: &&str| !line.starts_with("processed ") && !line.trim().is_empty();
        let reason = log.lines().rev().find(said)?.to_owned();
        Some(Self::Refused { reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_verifier_says_becomes_what_would_help() {
        let text = |log: &str| BpfError::of_log(log).map(|error| error.to_string());
        let symbol = "ldimm64 failed to find the address for kernel symbol 'runqueues'.\nprocessed 0 insns\n";
        assert!(text(symbol).unwrap().contains("CONFIG_KALLSYMS_ALL"));
        for log in [
            "19: (85) call bpf_probe_read_kernel#113\nunknown func bpf_probe_read_kernel#113\nprocessed 17 insns\n",
            "program of this type cannot use helper bpf_probe_read_kernel#113\n",
        ] {
            assert!(text(log).unwrap().contains("locked down"), "{log}");
        }
        // A kernel without that function knows no name of it.
        let old = text("9: (85) call unknown#153\ninvalid func unknown#153\n\n").unwrap();
        assert!(old.contains("invalid func unknown#153"), "{old}");
        assert_eq!(text("processed 0 insns\n"), None);
    }
}
