//! `--vtop`: translates a kernel address.

use std::fmt::Write as _;

use bigiron_format::VirtAddr;
use bigiron_kernel::Kernel;

/// makedumpfile's value for an unmapped address (NOT_PADDR).
const NOT_MAPPED: u64 = u64::MAX;

/// Returns the page table entries on the way to `address`, and its physical address.
pub fn text(kernel: &Kernel, address: u64) -> anyhow::Result<String> {
    let mut text = format!("\nTranslating virtual address {address:x} to physical address.\n");
    let leaf = kernel.walk(VirtAddr(address), &mut |entry| {
        let (level, place, value) = (entry.level, entry.address.0, entry.value);
        let _ = writeln!(text, "  {level} : {place:16x} => {value:16x}");
    })?;
    let physical = leaf.map_or(NOT_MAPPED, |leaf| leaf.physical.0);
    let _ = writeln!(text, "VIRTUAL           PHYSICAL");
    let _ = writeln!(text, "{address:16x}  {physical:x}\n");
    Ok(text)
}
