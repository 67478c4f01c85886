//! The command line of the production kernel.

use anyhow::{bail, ensure};

/// The last word of a kernel that was started directly. The kernel ignores it: a name with a dot is
/// that of a module's parameter.
const MARK: &str = "bigiron.direct";

/// Returns the command line `crashed` of the crashed kernel, marked.
///
/// `own` is the command line of the capture kernel, and `uptime` the crashed kernel's, in seconds.
///
/// # Errors
/// The crashed kernel was started this way itself, less than `within` seconds before, or its
/// command line does not keep the memory that the capture kernel's keeps.
pub fn next(crashed: &str, own: &str, uptime: u64, within: u64) -> anyhow::Result<String> {
    let words = |line| str::split_ascii_whitespace(line);
    let is_marked = words(crashed).any(|word| word == MARK);
    if is_marked && uptime < within {
        bail!("the kernel was started this way {uptime} s ago, and crashed again");
    }
    let kept = words(own).filter(|word| word.starts_with("memmap=") && word.contains('!'));
    for word in kept {
        ensure!(
            words(crashed).any(|one| one == word),
            "the crashed kernel was started without {word}, so the kernel started now would overwrite the dump there"
        );
    }
    let line = crashed.trim();
    Ok(match is_marked {
        true => line.to_owned(),
        false => format!("{line} {MARK}"),
    })
}

/// Adds the word that keeps a kernel from starting the CPU of an APIC ID, unless it has one.
pub fn without_cpu(line: &str, id: u32) -> String {
    let name = "disable_cpu_apicid=";
    let mut words = line.split_ascii_whitespace();
    match words.any(|word| word.starts_with(name)) {
        true => line.to_owned(),
        false => format!("{line} {name}{id}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    #[test]
    fn line_is_the_crashed_kernels_with_one_mark_however_often_it_crashes() {
        let first = next("root=/dev/vda quiet\n", "", 5, 600).unwrap();
        assert_eq!(first, "root=/dev/vda quiet bigiron.direct");
        assert_eq!(next(&first, "", 600, 600).unwrap(), first);
    }

    #[test]
    fn cpu_is_left_out_once_however_often_the_kernel_crashes() {
        let first = without_cpu("quiet bigiron.direct", 0);
        assert_eq!(first, "quiet bigiron.direct disable_cpu_apicid=0");
        assert_eq!(without_cpu(&first, 0), first);
    }

    #[test]
    fn second_crash_soon_after_goes_through_the_firmware() {
        let error = next("quiet bigiron.direct", "", 599, 600).unwrap_err();
        assert!(error.to_string().contains("599 s ago"), "{error}");
        // Started by the firmware, it may crash as soon as it likes.
        next("quiet", "", 1, 600).unwrap();
    }

    #[test]
    fn kernel_that_would_overwrite_the_kept_memory_is_not_started() {
        let own = "memmap=192M!0x28000000 reset_devices";
        next("quiet memmap=192M!0x28000000", own, 0, 0).unwrap();
        for crashed in ["quiet", "memmap=192M!0x38000000", "memmap=192M@0x28000000"] {
            let error = next(crashed, own, 0, 0).unwrap_err();
            assert!(error.to_string().contains("overwrite the dump"), "{error}");
        }
    }
}
