//! The CPU on which the firmware starts the machine.
//!
//! A kernel starts on the CPU that crashed, and so does the kernel that is started after it. It
//! must not start the firmware's CPU: that one takes INIT for a reset, and resets the machine.
//! Linux 6.9 and later leave it alone by themselves (check_for_real_bsp,
//! arch/x86/kernel/cpu/topology.c), earlier kernels by `disable_cpu_apicid=`.

use std::fs;

/// Bytes of the header of a MADT, before its entries (ACPI 6.5, 5.2.12).
const HEADER: usize = 44;
/// Types of entries: a local APIC, and a local x2APIC.
const LOCAL_APIC: u8 = 0;
const LOCAL_X2APIC: u8 = 9;

/// Returns the APIC ID of the firmware's CPU if this kernel was started on another one.
pub fn firmware_cpu_to_avoid() -> Option<u32> {
    let madt = fs::read("/sys/firmware/acpi/tables/APIC").ok()?;
    let cpus = fs::read_to_string("/proc/cpuinfo").ok()?;
    let (first, own) = (first_enumerated(&madt)?, booted_on(&cpus)?);
    (first != own).then_some(first)
}

/// Returns the APIC ID of the first CPU that the firmware enumerates, which is its own, as the
/// kernel takes it.
fn first_enumerated(madt: &[u8]) -> Option<u32> {
    let word = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_le_bytes);
    let mut rest = madt.get(HEADER..)?;
    loop {
        let len = usize::from(*rest.get(1)?);
        let entry = rest.get(..len).filter(|entry| entry.len() >= 2)?;
        let cpu = match *entry.first()? {
            LOCAL_APIC => Some((u32::from(*entry.get(3)?), word(entry.get(4..8)?)?)),
            LOCAL_X2APIC => Some((word(entry.get(4..8)?)?, word(entry.get(8..12)?)?)),
            _ => None,
        };
        // Bit 0: enabled.
        if let Some((id, flags)) = cpu
            && flags & 1 != 0
        {
            return Some(id);
        }
        rest = rest.get(len..)?;
    }
}

/// Returns the APIC ID of the CPU that this kernel was started on, which has the number 0.
fn booted_on(cpuinfo: &str) -> Option<u32> {
    let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let (_, id) = lines.find(|(name, _)| name.trim() == "initial apicid")?;
    id.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    fn local_apic(id: u8, flags: u8) -> Vec<u8> {
        vec![LOCAL_APIC, 8, 0, id, flags, 0, 0, 0]
    }

    #[test]
    fn first_enabled_cpu_of_the_table_is_the_firmwares() {
        let mut madt = vec![0; HEADER];
        assert_eq!(first_enumerated(&madt), None);
        madt.extend([1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // an I/O APIC
        madt.extend(local_apic(7, 0));
        madt.extend(local_apic(4, 1));
        madt.extend(local_apic(5, 1));
        assert_eq!(first_enumerated(&madt), Some(4));
        let mut large = vec![0; HEADER];
        large.extend([LOCAL_X2APIC, 16, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(first_enumerated(&large), Some(256));
    }

    #[test]
    fn damaged_table_ends() {
        for entry in [
            &[0, 0][..],
            &[0, 1],
            &[0, 8, 0, 1],
            &[9, 4, 0, 0],
            &[5, 255],
        ] {
            let madt = [&[0; HEADER][..], entry].concat();
            assert_eq!(first_enumerated(&madt), None, "{entry:?}");
        }
        assert_eq!(first_enumerated(&[0; 10]), None);
    }

    #[test]
    fn boot_cpu_is_the_first_of_cpuinfo() {
        let text = "processor\t: 0\napicid\t\t: 2\ninitial apicid\t: 2\n\nprocessor\t: 1\n\
                    initial apicid\t: 0\n";
        assert_eq!(booted_on(text), Some(2));
        assert_eq!(booted_on("processor : 0\n"), None);
    }
}
