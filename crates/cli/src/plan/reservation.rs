//! The memory of the capture kernel: what it has, and what it needs.

use bigiron_format::PageFrameRange;

use super::checked::Checked;
use super::line::{Line, Verdict};
use super::prepared;
use super::root::Root;
use crate::ram_dump::MemoryMap;
use crate::size;

/// Memory of any kernel besides its image, its struct pages and its initramfs: slab caches,
/// per-CPU areas, drivers' buffers, the first process. By the smallest reservations with which the
/// guests of `vmtest/kdump memory` dump (docs/capture.md).
const KERNEL_BYTES: u64 = 24 << 20;
/// Each CPU adds per-CPU areas and queues of drivers.
const CPU_BYTES: u64 = 1 << 20;
/// The program, and the memory that its helpers share.
const PROGRAM_BYTES: u64 = 8 << 20;
/// Buffers of a helper.
const HELPER_BYTES: u64 = 2 << 20;
/// A compressed initramfs becomes so many times as large, and is there beside its contents until
/// they are unpacked.
const UNPACKED: u64 = 3;
/// Size of the image where /proc/iomem does not show it.
const IMAGE_BYTES: u64 = 48 << 20;
/// Size of the initramfs if none is found.
const INITRAMFS_BYTES: u64 = 24 << 20;
/// A struct page of 64 bytes for each page of 4 KiB.
const STRUCT_PAGES: u64 = 64;
/// Reservations are rounded up to this.
const STEP: u64 = 16 << 20;

/// Checks the reservation.
pub fn check(checked: &Checked) -> Vec<Line> {
    let root = checked.root;
    let name = "crashkernel";
    let reserved = root.number("sys/kernel/kexec_crash_size").unwrap_or(0);
    let needed = needed(checked);
    let parts = needed.text();
    let total = needed.total();
    if reserved == 0 {
        return vec![Line::new(
            name,
            Verdict::Failure,
            format!(
                "nothing is reserved; crashkernel={}M on the kernel's command line is enough: {parts}",
                total >> 20
            ),
        )];
    }
    let (verdict, judgement) = match total.saturating_mul(4) {
        _ if reserved >= total => (Verdict::Ok, "is enough for about"),
        // The estimate is coarse: a reservation that is not far below may be enough.
        fourfold if reserved >= fourfold / 5 => (Verdict::Warning, "may be too little for about"),
        _ => (Verdict::Failure, "is too little for about"),
    };
    vec![Line::new(
        name,
        verdict,
        format!(
            "{} reserved {judgement} {}: {parts}",
            size::format(reserved),
            size::format(total)
        ),
    )]
}

/// The parts of what is needed.
struct Needed {
    image: u64,
    initramfs: u64,
    kernel: u64,
    program: u64,
    production: u64,
}

impl Needed {
    fn total(&self) -> u64 {
        let parts = self.image + self.initramfs + self.kernel + self.program + self.production;
        let struct_pages = parts / STRUCT_PAGES;
        (parts + struct_pages).next_multiple_of(STEP)
    }

    fn text(&self) -> String {
        let mut text = format!(
            "kernel image {}, its memory {}, initramfs {}, dump {}",
            size::format(self.image),
            size::format(self.kernel),
            size::format(self.initramfs),
            size::format(self.program)
        );
        if self.production > 0 {
            text += &format!(
                ", production kernel and initrd {}",
                size::format(self.production)
            );
        }
        text
    }
}

fn needed(checked: &Checked) -> Needed {
    let (root, kit) = (checked.root, checked.kit);
    let cpus = kit.capture_cpus().unwrap_or(1) as u64;
    let initramfs = prepared::initramfs(root, kit.distribution);
    let initramfs = initramfs.and_then(|path| Some(root.metadata(path)?.len()));
    let how = kit.how.as_ref().ok();
    // Both are read into memory, and once more into that of the next kernel.
    let production = how.filter(|how| how.then_boot).map_or(0, |_| {
        let files = prepared::production_files(root);
        let sizes = files
            .iter()
            .filter_map(|path| Some(root.metadata(path)?.len()));
        sizes.sum::<u64>().saturating_mul(2)
    });
    Needed {
        image: image_bytes(root).unwrap_or(IMAGE_BYTES),
        initramfs: initramfs
            .unwrap_or(INITRAMFS_BYTES)
            .saturating_mul(1 + UNPACKED),
        kernel: KERNEL_BYTES + cpus * CPU_BYTES,
        program: PROGRAM_BYTES + cpus * HELPER_BYTES,
        production,
    }
}

/// Bytes of the kernel's code and data.
fn image_bytes(root: &Root) -> Option<u64> {
    let map = MemoryMap::parse(&root.read("proc/iomem")?).ok()?;
    let parts = map.resources.iter().filter(|resource| {
        matches!(
            resource.name.as_str(),
            "Kernel code" | "Kernel rodata" | "Kernel data" | "Kernel bss"
        )
    });
    let bytes: u64 = parts.map(|part| part.last - part.start + 1).sum();
    (bytes > 0).then_some(bytes)
}

/// The page frames that are reserved for the capture kernel: one range, or another below 4 GiB.
pub fn page_frames(root: &Root, page_shift: u32) -> [Option<PageFrameRange>; 2] {
    let map = root.read("proc/iomem").map(|text| MemoryMap::parse(&text));
    let map = map.and_then(Result::ok);
    let resources = map.iter().flat_map(|map| &map.resources);
    let mut ranges = resources
        .filter(|resource| resource.name == "Crash kernel")
        .map(|range| {
            PageFrameRange::new(range.start >> page_shift, (range.last >> page_shift) + 1)
        });
    [ranges.next(), ranges.next()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::fs;

    use super::*;

    #[test]
    fn reserved_page_frames_are_those_of_the_memory_map() {
        let root = tempfile::tempdir().unwrap();
        let found = || page_frames(&Root::new(root.path()), 12);
        assert_eq!(found(), [None; 2]);
        fs::create_dir(root.path().join("proc")).unwrap();
        let text = "00100000-7fffffff : System RAM\n  01000000-01ffffff : Kernel code\n  \
                    20000000-2fffffff : Crash kernel\n";
        fs::write(root.path().join("proc/iomem"), text).unwrap();
        assert_eq!(found(), [Some(PageFrameRange::new(0x20000, 0x30000)), None]);
    }
}
