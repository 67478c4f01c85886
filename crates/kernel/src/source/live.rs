//! The running kernel, which changes while it is read.

use std::fs::File;
use std::io::{BufRead, BufReader};

use bigiron_format::elf::note::{self, Notes};

/// The memory of the running kernel as an ELF core (fs/proc/kcore.c).
pub const RUNNING_KERNEL: &str = "/proc/kcore";

/// Returns the notes of a live dump: those of /proc/kcore without the reading task's, which are
/// not about a crash, and with the mark of a live dump.
pub fn notes(own: Notes<'_>) -> Vec<u8> {
    let endian = own.endian();
    let mut out = Vec::new();
    if let Ok(Some(info)) = own.vmcoreinfo() {
        out = note::encode(note::VMCOREINFO, 0, info.desc, endian);
    }
    out.extend(note::live(first_task().unwrap_or(0), endian));
    out
}

/// Returns the address of `init_task`, where readers of a live dump start. kptr_restrict hides
/// addresses.
fn first_task() -> Option<u64> {
    let symbols = BufReader::new(File::open("/proc/kallsyms").ok()?);
    let line = symbols
        .lines()
        .map_while(Result::ok)
        .find(|line| line.ends_with(" init_task"))?;
    let address = u64::from_str_radix(line.split(' ').next()?, 16).ok()?;
    (address != 0).then_some(address)
}
