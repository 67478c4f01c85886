//! The windows that map memory directly (arch/loongarch/include/asm/addrspace.h).

/// Address bits of a window (DMW_PABITS).
pub const WINDOW_BITS: u32 = 48;
/// The first four bits of the uncached and of the cached window (UNCACHE_BASE, CACHE_BASE).
const WINDOWS: [u64; 2] = [0x8, 0x9];
/// The physical address in an address of a window, and in an entry of a page table.
pub const ADDRESS: u64 = (1 << WINDOW_BITS) - 1;

/// Returns the physical address that a window maps at `address`.
pub fn in_window(address: u64) -> Option<u64> {
    let is_window = WINDOWS.contains(&(address >> 60));
    is_window.then_some(address & ADDRESS)
}
