//! Memory that survives a reboot by kexec, as a dump device: `memmap=SIZE!START` on the kernel's
//! command line takes a range of physical memory out of RAM, and the modules nd_e820 and nd_pmem
//! make it `/dev/pmemN` (docs/service-first.md).

pub mod check;
mod choose;
pub mod files;
mod iomem;

use std::fmt;
use std::str::FromStr;

pub use choose::{automatic_size, choose};
pub use iomem::MemoryMap;

/// The device of the only such range of a machine.
pub const DEVICE: &str = "pmem0";

/// A range of physical memory that is kept for dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptRange {
    /// First byte.
    pub start: u64,
    /// Length in bytes, not 0.
    pub size: u64,
}

impl KeptRange {
    /// Last byte.
    fn last(self) -> u64 {
        self.start.saturating_add(self.size - 1)
    }
}

/// The word on the kernel's command line (parse_memmap_one(), arch/x86/kernel/e820.c).
impl fmt::Display for KeptRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memmap={}M!{:#x}", self.size >> 20, self.start)
    }
}

/// Parses the word in the form in which this program writes it.
impl FromStr for KeptRange {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let parse = || {
            let (size, start) = word.strip_prefix("memmap=")?.split_once('!')?;
            let mebibytes: u64 = size.strip_suffix('M')?.parse().ok()?;
            let size = mebibytes.checked_mul(1 << 20).filter(|size| *size > 0)?;
            let start = u64::from_str_radix(start.strip_prefix("0x")?, 16).ok()?;
            start.checked_add(size)?;
            Some(Self { start, size })
        };
        parse().ok_or_else(|| {
            format!("{word:?} is not memmap=SIZE!START, such as memmap=256M!0x100000000")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_of_a_range_is_parsed_as_it_is_written() {
        let range = KeptRange {
            start: 0x1_0000_0000,
            size: 256 << 20,
        };
        assert_eq!(range.to_string(), "memmap=256M!0x100000000");
        assert_eq!(range.to_string().parse(), Ok(range));
        for wrong in [
            "memmap=256M$0x100000000",
            "memmap=0M!0x1000",
            "memmap=17592186044416M!0x0",
            "memmap=1M!0xfffffffffff80000",
            "mem=1G",
        ] {
            assert!(wrong.parse::<KeptRange>().is_err(), "{wrong}");
        }
    }
}
