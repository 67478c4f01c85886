//! System calls, by a seccomp filter.
//!
//! The filter lists denied calls. A list of allowed calls would have to follow every change
//! of the C library; instead, calls that are newer than this list fail like on a kernel that
//! lacks them, for which the C library has an alternative.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, sock_filter,
};

use super::needs::Needs;

/// The first system call that is newer than the list below. Those of the x32 ABI, which have
/// bit 30 set and would evade the list, are above it as well.
const FIRST_UNKNOWN: u32 = MSEAL as u32 + 1;

/// The same numbers on all architectures (scripts/syscall.tbl); libc does not have them for all.
const FCHMODAT2: libc::c_long = 452;
const MSEAL: libc::c_long = 462;

/// The number of the generic table (scripts/syscall.tbl), which libc lacks for riscv64.
#[cfg(target_arch = "riscv64")]
const KEXEC_FILE_LOAD: libc::c_long = 294;
#[cfg(not(target_arch = "riscv64"))]
const KEXEC_FILE_LOAD: libc::c_long = libc::SYS_kexec_file_load;

/// Files are opened before. Their names stay as they are: Landlock of older kernels does not
/// cover all of these calls.
const NEVER: &[libc::c_long] = &[
    // Programs and processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_personality,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    // Servers. An unnamed pair of sockets stays possible: signals are forwarded through one.
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // Files by name.
    libc::SYS_openat2,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_truncate,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fanotify_init,
    libc::SYS_inotify_init1,
    // Mounts.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    // The kernel. Operations of io_uring bypass the filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// Connections to servers.
const CONNECT: &[libc::c_long] = &[libc::SYS_socket, libc::SYS_connect];

/// Older forms of the calls above.
#[cfg(target_arch = "x86_64")]
const NEVER_OLD: &[libc::c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_rmdir,
    libc::SYS_mknod,
    libc::SYS_symlink,
    libc::SYS_link,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_inotify_init,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_OLD: &[libc::c_long] = &[];

/// Calls that make a directory.
#[cfg(target_arch = "x86_64")]
const DIRECTORY: &[libc::c_long] = &[libc::SYS_mkdirat, libc::SYS_mkdir];
#[cfg(not(target_arch = "x86_64"))]
const DIRECTORY: &[libc::c_long] = &[libc::SYS_mkdirat];

/// Calls that open a file, with the index of the flags.
#[cfg(target_arch = "x86_64")]
const OPEN: &[(libc::c_long, u8)] = &[(libc::SYS_openat, 2), (libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OPEN: &[(libc::c_long, u8)] = &[(libc::SYS_openat, 2)];

/// Calls by which a finished output gets its name.
#[cfg(target_arch = "x86_64")]
const NAME: &[libc::c_long] = &[
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
    libc::SYS_rename,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const NAME: &[libc::c_long] = &[
    // riscv64 has no other way to rename.
    #[cfg(target_arch = "aarch64")]
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
];

/// Installs the filter in all threads, and sets `no_new_privs`.
pub fn enter(needs: &Needs<'_>) -> seccompiler::Result<()> {
    let program = program(needs)?;
    seccompiler::apply_filter_all_threads(&program)
}

/// Compiles the filter.
fn program(needs: &Needs<'_>) -> Result<BpfProgram, BackendError> {
    let filter = SeccompFilter::new(
        rules(needs)?,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        std::env::consts::ARCH.try_into()?,
    )?;
    let mut program = unknown_calls();
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

/// Returns the denied calls; each either always, or if one of its rules holds.
fn rules(needs: &Needs<'_>) -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in NEVER.iter().chain(NEVER_OLD) {
        rules.insert(*call, Vec::new());
    }
    if !needs.has_network() {
        for call in CONNECT {
            rules.insert(*call, Vec::new());
        }
    }
    let keeps = needs.keeps().is_some();
    if !keeps {
        for call in DIRECTORY {
            rules.insert(*call, Vec::new());
        }
    }
    // Landlock decides what may be opened for FUSE, and where something may be kept.
    for (call, flags) in OPEN.iter().filter(|_| !needs.has_fuse() && !keeps) {
        let reads = needs.output().is_some() || !needs.reads().is_empty();
        let denied = match reads {
            false => Vec::new(),
            // Only for reading, and what Landlock allows: the directory of the output, to sync
            // it; the files by which servers are found.
            true => [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC]
                .into_iter()
                .map(|flag| bits(*flags, flag as u64, flag as u64))
                .collect::<Result<_, _>>()?,
        };
        rules.insert(*call, denied);
    }
    if needs.output().is_none() && !keeps {
        for call in NAME {
            rules.insert(*call, Vec::new());
        }
    }
    // Threads, and no processes.
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(libc::SYS_clone, vec![bits(0, thread, 0)?]);
    // Signals to this process alone, such as that of abort().
    let this = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, vec![argument(0, SeccompCmpOp::Ne, this)?]);
    // Limits of this process alone.
    rules.insert(libc::SYS_prlimit64, vec![argument(0, SeccompCmpOp::Ne, 0)?]);
    // No input to the shell in the same terminal: that would be its next command.
    #[allow(clippy::unnecessary_cast, reason = "the type depends on the C library")]
    let inject = [libc::TIOCSTI as u64, libc::TIOCLINUX as u64];
    let inject = inject.map(|request| argument(1, SeccompCmpOp::Eq, request));
    rules.insert(
        libc::SYS_ioctl,
        inject.into_iter().collect::<Result<_, _>>()?,
    );
    // No new code.
    let exec = libc::PROT_EXEC as u64;
    for call in [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_pkey_mprotect] {
        rules.insert(call, vec![bits(2, exec, exec)?]);
    }
    Ok(rules)
}

/// Returns a rule that holds if the 32-bit argument `index`, masked, is `value`.
fn bits(index: u8, mask: u64, value: u64) -> Result<SeccompRule, BackendError> {
    argument(index, SeccompCmpOp::MaskedEq(mask), value)
}

fn argument(index: u8, compare: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, compare, value)?;
    SeccompRule::new(vec![condition])
}

/// Returns instructions that answer ENOSYS to unknown calls, and to clone3, whose flags are in
/// memory that a filter cannot read: the C library then uses clone.
fn unknown_calls() -> BpfProgram {
    // struct seccomp_data begins with the number of the call (include/uapi/linux/seccomp.h).
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const IF_NOT_BELOW: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        step(LOAD_NUMBER, 0, 0, 0),
        step(IF_EQUAL, 1, 0, libc::SYS_clone3 as u32),
        step(IF_NOT_BELOW, 0, 1, FIRST_UNKNOWN),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::path::Path;

    use super::*;

    #[test]
    fn filter_compiles_for_all_needs() {
        for needs in [
            Needs::Nothing,
            Needs::Output(Path::new("out")),
            #[cfg(feature = "mount")]
            Needs::Fuse,
            #[cfg(feature = "objects")]
            Needs::Network(&[]),
        ] {
            let program = program(&needs).unwrap();
            // BPF_MAXINSNS of the kernel.
            assert!(program.len() < 4096, "{} instructions", program.len());
        }
    }

    #[test]
    fn only_writers_of_a_file_may_rename_and_only_fuse_may_open_for_writing() {
        let is_always_denied = |needs: &Needs<'_>, call| {
            let rules = rules(needs).unwrap();
            rules.get(&call).is_some_and(Vec::is_empty)
        };
        let nothing = Needs::Nothing;
        assert!(is_always_denied(&nothing, libc::SYS_renameat2));
        assert!(is_always_denied(&nothing, libc::SYS_openat));
        let output = Needs::Output(Path::new("out"));
        assert!(!is_always_denied(&output, libc::SYS_renameat2));
        assert!(rules(&output).unwrap().contains_key(&libc::SYS_openat));
        assert!(is_always_denied(&output, libc::SYS_execve));
    }

    #[test]
    fn no_listed_call_is_beyond_the_known_ones() {
        for call in NEVER.iter().chain(NEVER_OLD).chain(CONNECT).chain(NAME) {
            assert!(*call < i64::from(FIRST_UNKNOWN), "{call}");
        }
    }
}
