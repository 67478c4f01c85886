//! Conditions under which a reaper is worthwhile and harmless.

use rustix::fs::{CWD, readlinkat_raw};
use rustix::process::{child_subreaper, getpid};

use crate::machine::{available_memory, read_text, status};

/// Minimum size in bytes; freeing less takes no longer than starting a reaper.
pub const MIN_BYTES: usize = 256 << 20;

/// Target of the link /proc/self/ns/pid in the first namespace (PROC_PID_INIT_INO of
/// include/linux/proc_ns.h).
const FIRST_NAMESPACE: &[u8] = b"pid:[4026531836]";

/// Programs that are designed to be the first process of a container, and that adopt orphans.
const INITS: [&str; 9] = [
    "systemd",
    "init",
    "tini",
    "dumb-init",
    "docker-init",
    "podman-init",
    "catatonit",
    "s6-svscan",
    "runit",
];

/// True if a reaper should free memory of `bytes`. This requires a large size, enough available
/// memory for the next program before the reaper has finished, and an init process that adopts
/// the reaper, so that no program finds an unknown child. Under a seccomp filter the result is
/// false: the filter may kill a program that starts another.
pub fn is_advisable(bytes: usize) -> bool {
    bytes >= MIN_BYTES && is_possible() && available_memory() >= bytes as u64
}

/// True if this process may start a reaper.
pub fn is_possible() -> bool {
    is_free_to_start() && orphans_go_to_init()
}

fn is_free_to_start() -> bool {
    status(["Seccomp:"]) == Some([0])
}

fn orphans_go_to_init() -> bool {
    if getpid().is_init() || !matches!(child_subreaper(), Ok(None)) {
        return false;
    }
    let mut name = [0; 64];
    let length = readlinkat_raw(CWD, c"/proc/self/ns/pid", &mut name[..]).unwrap_or(0);
    if name.get(..length) == Some(FIRST_NAMESPACE) {
        return true;
    }
    let mut name = [0; 32];
    let first = read_text(c"/proc/1/comm", &mut name).unwrap_or("");
    INITS.contains(&first.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_are_too_small_or_too_large_need_no_reaper() {
        assert!(!is_advisable(MIN_BYTES - 1));
        assert!(!is_advisable(usize::MAX));
    }
}
