//! Kinds of crashes after which the hardware needs the firmware.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// Texts of the kernel after which devices or memory may not work without a reset: machine checks
/// (arch/x86/kernel/cpu/mce), hardware errors that the firmware reports (drivers/firmware/efi/cper.c,
/// drivers/acpi/apei/ghes.c), PCIe (drivers/pci/pcie), and faults of the IOMMU
/// (drivers/iommu/intel/dmar.c, drivers/iommu/amd/iommu.c).
const DEFAULT: &str = "\
Machine check
[Hardware Error]
Fatal hardware error
AER: Uncorrected
AER: Multiple Uncorrected
pcieport: AER
DPC: containment event
DMAR: [DMA
DMAR: DRHD: handling fault
AMD-Vi: Event logged
NMI: PCI system error (SERR)
NMI: IOCK error
";

/// Texts, one of which in the last lines of the log sends the machine through the firmware.
pub struct CrashKinds(Vec<String>);

impl Default for CrashKinds {
    fn default() -> Self {
        Self::parse(DEFAULT)
    }
}

impl CrashKinds {
    /// Reads a list in place of the built-in one.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path);
        Ok(Self::parse(&text.with_context(|| {
            format!("{}: cannot read it", path.display())
        })?))
    }

    /// Parses lines; empty ones, and those that begin with `#`, count for nothing.
    fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let used = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(used.map(ToOwned::to_owned).collect())
    }

    /// Returns the first line with one of the texts, in upper or lower case.
    pub fn find<'l>(&self, lines: &'l [String]) -> Option<&'l str> {
        let kinds: Vec<_> = self.0.iter().map(|kind| kind.to_lowercase()).collect();
        let is_kind = |line: &&String| {
            let line = line.to_lowercase();
            kinds.iter().any(|kind| line.contains(kind))
        };
        lines.iter().find(is_kind).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kinds: &CrashKinds, line: &str) -> bool {
        kinds
            .find(&["usb 1-1: new device".to_owned(), line.to_owned()])
            .is_some()
    }

    #[test]
    fn crashes_of_the_hardware_are_known_and_those_of_software_are_not() {
        let kinds = CrashKinds::default();
        for line in [
            "mce: [Hardware Error]: CPU 2: Machine Check Exception: 5 Bank 4: be00000000800400",
            "Kernel panic - not syncing: Fatal machine check",
            "pcieport 0000:00:03.0: AER: Uncorrected (Fatal) error received: id=0018",
            "DMAR: [DMA Write NO_PASID] Request device [00:02.0] fault addr 0xfe000000",
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=06:00.0 domain=0x000a]",
        ] {
            assert!(found(&kinds, line), "{line}");
        }
        for line in [
            "Kernel panic - not syncing: sysrq triggered crash",
            "BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "Kernel panic - not syncing: hung_task: blocked tasks",
        ] {
            assert!(!found(&kinds, line), "{line}");
        }
    }

    #[test]
    fn list_of_a_person_replaces_the_built_in_one() {
        let kinds = CrashKinds::parse("# ours\n\n  hung_task  \n");
        assert!(found(
            &kinds,
            "Kernel panic - not syncing: hung_task: blocked tasks"
        ));
        assert!(!found(&kinds, "mce: [Hardware Error]: CPU 2"));
        assert!(!found(&kinds, "# ours"));
    }
}
