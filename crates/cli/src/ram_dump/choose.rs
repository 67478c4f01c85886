//! The choice of the range that is kept for dumps.

use anyhow::{bail, ensure};

use super::{KeptRange, MemoryMap};
use crate::size;

/// Alignments that are tried. Memory of a device and RAM share no section of 128 MiB then
/// (SECTION_SIZE_BITS, arch/x86/include/asm/sparsemem.h); 2 MiB is the least for struct pages of a
/// device (PAGES_PER_SUBSECTION, include/linux/mmzone.h).
const ALIGNMENTS: [u64; 2] = [128 << 20, 2 << 20];
const MIN_SIZE: u64 = 64 << 20;
/// Everything above; boot loaders and the kernel itself prefer memory below.
const FOUR_GIB: u64 = 1 << 32;
/// Below 4 GiB the range begins here or above: the kernel is below, if its address is not random.
const LOW_START: u64 = 512 << 20;
/// At most this part of RAM.
const LARGEST_SHARE: u64 = 2;

/// Returns the size for a machine with this much RAM, of which a dump is expected to have so many
/// bytes if that is known: that and half as much again for a busier moment, but not less than 1/128
/// of RAM, which holds a dump at level 31 of most machines; in multiples of 128 MiB, and at least
/// 256 MiB.
pub fn automatic_size(ram: u64, expected_dump: Option<u64>) -> u64 {
    let with_room = expected_dump.map_or(0, |bytes| bytes.saturating_add(bytes / 2));
    let size = with_room.max(ram / 128).max(256 << 20);
    size.checked_next_multiple_of(128 << 20).unwrap_or(size)
}

/// Chooses a range of `size` bytes of RAM in which nothing of the kernel, the crash kernel or the
/// firmware is: the lowest above 4 GiB, otherwise the lowest from 512 MiB on. Both ends of
/// memory, where boot loaders put the initrd and the kernel its crash kernel, stay free.
///
/// # Errors
/// The size is out of bounds, or there is no such range.
pub fn choose(map: &MemoryMap, size: u64) -> anyhow::Result<KeptRange> {
    let ram = map.ram();
    ensure!(
        size >= MIN_SIZE && size.is_multiple_of(ALIGNMENTS[1]),
        "the size must be a multiple of 2M, and at least 64M; it is {size} bytes"
    );
    ensure!(
        size <= ram / LARGEST_SHARE,
        "{} is more than half of this machine's memory ({})",
        size::format(size),
        size::format(ram)
    );
    for (from, to) in [(FOUR_GIB, u64::MAX), (LOW_START, FOUR_GIB)] {
        for alignment in ALIGNMENTS {
            if let Some(start) = lowest(map, size, alignment, from, to) {
                return Ok(KeptRange { start, size });
            }
        }
    }
    bail!(
        "no {} of memory in one piece above {} are free of the kernel and the crash kernel; try a smaller --size",
        size::format(size),
        size::format(LOW_START)
    )
}

/// Returns the lowest free aligned start between `from` and `to`.
fn lowest(map: &MemoryMap, size: u64, alignment: u64, from: u64, to: u64) -> Option<u64> {
    let used: Vec<_> = map.resources.iter().filter(|r| r.depth > 0).collect();
    for ram in map.named("System RAM") {
        let end = ram.last.saturating_add(1).min(to);
        let mut start = ram.start.max(from).checked_next_multiple_of(alignment)?;
        while start.checked_add(size).is_some_and(|after| after <= end) {
            let last = start + (size - 1);
            match used.iter().find(|r| r.start <= last && r.last >= start) {
                None => return Some(start),
                Some(taken) => {
                    start = taken
                        .last
                        .checked_add(1)?
                        .checked_next_multiple_of(alignment)?
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    const GIB: u64 = 1 << 30;

    fn start(map: &str, size: u64) -> Result<u64, String> {
        let map = MemoryMap::parse(map).unwrap();
        choose(&map, size)
            .map(|range| range.start)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn range_above_4_gib_is_preferred_and_avoids_the_crash_kernel() {
        let map = "00100000-bfffffff : System RAM\n  01000000-02000000 : Kernel code\n\
                   100000000-63fffffff : System RAM\n";
        assert_eq!(start(map, GIB), Ok(4 * GIB));
        let map = "00100000-bfffffff : System RAM\n100000000-63fffffff : System RAM\n  \
                   110000000-11fffffff : Crash kernel\n";
        assert_eq!(start(map, GIB), Ok(0x1_2000_0000));
    }

    #[test]
    fn machine_without_memory_above_4_gib_gets_a_range_above_512_mib() {
        let map = "00001000-0009fbff : System RAM\n00100000-7ffdffff : System RAM\n  \
                   20000000-21ffffff : Kernel code\n  66000000-7effffff : Crash kernel\n";
        assert_eq!(start(map, 256 << 20), Ok(0x2800_0000));
    }

    #[test]
    fn range_of_another_use_or_a_hole_is_never_taken() {
        let map = "00100000-3fffffff : System RAM\n40000000-4fffffff : Reserved\n\
                   50000000-6fffffff : System RAM\n  50000000-50ffffff : Kernel data\n";
        assert_eq!(start(map, 448 << 20), Ok(0x2000_0000));
        assert_eq!(start(map, 496 << 20), Ok(0x2000_0000));
        // Of the last piece 496 MiB are free, which begin at no multiple of 128 MiB.
        let map = map.replace("00100000-3fffffff", "00100000-2fffffff");
        assert_eq!(start(&map, 496 << 20), Ok(0x5100_0000));
        assert!(
            start(&map, 498 << 20)
                .unwrap_err()
                .contains("smaller --size")
        );
    }

    #[test]
    fn sizes_out_of_bounds_are_refused() {
        let map = "00100000-7ffdffff : System RAM\n";
        assert!(start(map, 32 << 20).unwrap_err().contains("at least 64M"));
        assert!(start(map, (64 << 20) + 1).unwrap_err().contains("multiple"));
        assert!(start(map, GIB).unwrap_err().contains("more than half"));
    }

    #[test]
    fn automatic_size_grows_with_the_machine() {
        assert_eq!(automatic_size(2 * GIB, None), 256 << 20);
        assert_eq!(automatic_size(64 * GIB, None), 512 << 20);
        assert_eq!(automatic_size(1 << 40, None), 8 * GIB);
    }

    #[test]
    fn automatic_size_has_room_for_the_expected_dump() {
        assert_eq!(automatic_size(64 * GIB, Some(8 << 20)), 512 << 20);
        assert_eq!(automatic_size(64 * GIB, Some(GIB)), GIB + (512 << 20));
        assert_eq!(automatic_size(64 * GIB, Some(GIB + 1)), GIB + (640 << 20));
        assert_eq!(automatic_size(GIB, Some(u64::MAX)), u64::MAX);
    }
}
