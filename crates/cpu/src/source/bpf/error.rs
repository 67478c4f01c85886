//! Errors of reading the running kernel by BPF, with advice.

use std::io;

use crate::system::CpuError;

/// BTF types of the running kernel (CONFIG_DEBUG_INFO_BTF).
pub(super) const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Error of reading the running kernel by BPF.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel's types cannot be read.
    #[error("{TYPES}: {0}; the kernel must have BTF (CONFIG_DEBUG_INFO_BTF)")]
    Types(io::Error),
    /// The kernel's types are damaged or incomplete.
    #[error("{TYPES}: {0}")]
    Lacks(String),
    /// The user may not read the kernel's memory.
    #[error(
        "bpf(BPF_{command}): {cause}; run as root, or with CAP_BPF and CAP_PERFMON, where bpf() is not blocked (seccomp)"
    )]
    Permission {
        /// Name of the command.
        command: &'static str,
        /// Error of the system call.
        cause: io::Error,
    },
    /// No user may read the kernel's memory (lockdown=confidentiality).
    #[error(
        "the kernel is locked down (/sys/kernel/security/lockdown is confidentiality): BPF may not read its memory"
    )]
    LockedDown,
    /// The kernel does not provide the address of `runqueues`.
    #[error(
        "the kernel does not provide the address of `runqueues`; expected CONFIG_KALLSYMS_ALL, as in most distributions"
    )]
    NoSymbol,
    /// The kernel has no bpf() system call.
    #[error("the kernel has no bpf() system call (CONFIG_BPF_SYSCALL)")]
    NoBpf,
    /// The kernel rejected a command for another reason.
    #[error("bpf(BPF_{command}): {cause}; expected Linux 5.10 or later")]
    Call {
        /// Name of the command.
        command: &'static str,
        /// Error of the system call.
        cause: io::Error,
    },
    /// The verifier rejected the program.
    #[error("the kernel rejected the BPF program: {reason}; expected Linux 5.10 or later")]
    Refused {
        /// Last line of the verifier's log.
        reason: String,
    },
    /// The end of a chain was not found.
    #[error("CPU {cpu}: the chain of domains has no end after {found} domains; try again")]
    Chain {
        /// CPU of the chain.
        cpu: u32,
        /// Number of domains read.
        found: usize,
    },
    /// The list of CPUs cannot be read.
    #[error(transparent)]
    Cpus(#[from] CpuError),
}

impl BpfError {
    /// Returns the error described by the verifier's log (kernel/bpf/verifier.c); `None` if the
    /// log contains none.
    pub(super) fn of_log(log: &str) -> Option<Self> {
        if log.contains("failed to find the address for kernel symbol") {
            return Some(Self::NoSymbol);
        }
        // bpf_tracing_func_proto, kernel/trace/bpf_trace.c: under lockdown the helper does not
        // exist, although its name is known.
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
    fn verifier_logs_become_advice() {
        let text = |log: &str| BpfError::of_log(log).map(|error| error.to_string());
        let symbol = "ldimm64 failed to find the address for kernel symbol 'runqueues'.\nprocessed 0 insns\n";
        assert!(text(symbol).unwrap().contains("CONFIG_KALLSYMS_ALL"));
        for log in [
            "19: (85) call bpf_probe_read_kernel#113\nunknown func bpf_probe_read_kernel#113\nprocessed 17 insns\n",
            "program of this type cannot use helper bpf_probe_read_kernel#113\n",
        ] {
            assert!(text(log).unwrap().contains("locked down"), "{log}");
        }
        // A kernel that lacks the helper does not know its name.
        let old = text("9: (85) call unknown#153\ninvalid func unknown#153\n\n").unwrap();
        assert!(old.contains("invalid func unknown#153"), "{old}");
        assert_eq!(text("processed 0 insns\n"), None);
    }
}
