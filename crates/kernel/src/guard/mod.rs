//! The page frames that a debugger needs, whatever their struct pages say.
//!
//! A damaged struct page, or a kernel that the filter does not understand, must not cost the kernel
//! image: without it no debugger opens the dump. What the kernel uses for itself is found by what
//! it says of itself (symbols, page tables, VMCOREINFO), not by struct pages. What cannot be found
//! is not guarded: the filter decides there as it does everywhere else.

mod mapped;
mod names;
mod set;

use bigiron_format::{PageFrame, VirtAddr};

use crate::kernel::Kernel;
use crate::mem_map::MemMap;
use crate::printk::Log;
use crate::source::SECTION_FRAMES;
use crate::struct_pages::described_end;
use crate::zones;

pub use set::{GuardedFrames, GuardedUse};

use mapped::{Areas, Mapped};
use names::Names;

/// Maximum number of mappings of one area: 2 GiB in pages of 4 KiB.
const MAX_MAPPINGS: u64 = 1 << 19;
/// Maximum number of sections of the memory map: 128 TiB of 128 MiB each.
const MAX_SECTIONS: usize = 1 << 20;
/// Maximum number of CPUs (NR_CPUS is at most 8192).
const MAX_CPUS: u32 = 1 << 14;
/// Bytes of the dump's memory that limit the number of page tables.
const MAX_TABLE_BYTES: u64 = 1 << 32;
/// Large pages of the image's mapping (2 MiB on x86-64), at whose end freed memory may follow.
const IMAGE_ALIGNMENT: u64 = 2 << 20;

/// Finds the guarded page frames of a kernel; none if its memory map is not found.
pub fn of(kernel: &Kernel) -> GuardedFrames {
    let map = MemMap::find(kernel);
    map.map_or_else(
        |_| GuardedFrames::default(),
        |map| find(kernel, &map, described_end(kernel, &map)),
    )
}

/// Finds the guarded page frames of a kernel whose memory map is `map`. The struct pages from
/// `described_end` on are not read by anyone (see [`described_end`]).
pub fn find(kernel: &Kernel, map: &MemMap, described_end: Option<PageFrame>) -> GuardedFrames {
    let names = Names::find(kernel);
    let mut finder = Finder {
        kernel,
        map,
        page_shift: kernel.source().page_shift(),
        found: GuardedFrames::default(),
    };
    let direct = finder.direct_mapping();
    let image = finder.image(&names, direct);
    finder.per_cpu(&names);
    for (node, bytes) in zones::nodes(kernel) {
        finder.add(GuardedUse::Nodes, node.0, bytes);
    }
    finder.log();
    finder.vmcoreinfo(&names);
    let mem_map = finder.mem_map(described_end);
    let architecture = kernel.architecture();
    let areas = Areas {
        image,
        image_area: architecture.image_area,
        modules: (architecture.modules)(kernel.info()),
        mem_map: &mem_map,
        direct,
    };
    let most = kernel.size_up_to(MAX_TABLE_BYTES) >> finder.page_shift;
    let stack = names.stack_size(finder.page_shift);
    let mut mapped = Mapped::new(areas, stack, finder.page_shift, &mut finder.found);
    let is_tree = kernel.visit_tables(most, &mut mapped);
    mapped.end();
    if !is_tree {
        for (start, end) in mem_map {
            finder.add(GuardedUse::MemMap, start, end - start);
        }
    }
    finder.found.finish();
    finder.found
}

struct Finder<'a, 's> {
    kernel: &'a Kernel<'s>,
    map: &'a MemMap,
    page_shift: u32,
    found: GuardedFrames,
}

impl Finder<'_, '_> {
    /// Adds `bytes` of kernel memory from `address` on, as far as they are mapped.
    fn add(&mut self, used_for: GuardedUse, address: u64, bytes: u64) {
        let page = 1_u64 << self.page_shift;
        let (mut at, mut left) = (address, bytes);
        for _ in 0..MAX_MAPPINGS {
            if left == 0 {
                break;
            }
            let len = match self.kernel.translate(VirtAddr(at)) {
                Ok(Some(leaf)) => {
                    let len = leaf.len.min(left);
                    self.found
                        .add(used_for, leaf.physical.0, len, self.page_shift);
                    len
                }
                Ok(None) | Err(_) => page - (at & (page - 1)),
            };
            left = left.saturating_sub(len);
            let Some(next) = at.checked_add(len) else {
                break;
            };
            at = next;
        }
    }

    /// Returns the first and the last address of the direct mapping, which is told by an object
    /// that lies in it.
    fn direct_mapping(&self) -> Option<(u64, u64)> {
        let (object, _) = self.map.table_of_tables()?;
        let physical = self.kernel.translate(object).ok()??.physical;
        let base = object.0.wrapping_sub(physical.0);
        let end = self.kernel.source().end_frame().0;
        let bytes = end.checked_mul(1 << self.page_shift)?;
        Some((base, base.checked_add(bytes)?.checked_sub(1)?))
    }

    /// Guards the image and returns its first and last virtual address, as far as they are known.
    fn image(&mut self, names: &Names, direct: Option<(u64, u64)>) -> Option<(u64, u64)> {
        if let Some((start, end)) = names.image() {
            for (from, to) in names.used_parts(1 << self.page_shift) {
                self.add(GuardedUse::Image, from, to - from);
            }
            let end = end.max(names.end().unwrap_or(end));
            let last = (end - 1) | (IMAGE_ALIGNMENT - 1);
            return Some((start, last));
        }
        let start = self.kernel.info().symbol("_stext")?.0 >> self.page_shift << self.page_shift;
        let is_alone = direct.is_some_and(|(first, last)| !(first..=last).contains(&start));
        if self.kernel.architecture().image_area.is_some() || !is_alone {
            return None;
        }
        // As far as it is contiguous.
        let mut at = start;
        let first = self.kernel.translate(VirtAddr(start)).ok()??.physical;
        for _ in 0..MAX_MAPPINGS {
            let Ok(Some(leaf)) = self.kernel.translate(VirtAddr(at)) else {
                break;
            };
            if leaf.len == 0 || leaf.physical.0.wrapping_sub(first.0) != at - start {
                break;
            }
            self.found.add(
                GuardedUse::ImageMapping,
                leaf.physical.0,
                leaf.len,
                self.page_shift,
            );
            at = at.checked_add(leaf.len)?;
        }
        (at > start).then(|| (start, at - 1))
    }

    /// Guards the variables of each CPU that the image declares; what is allocated later is in
    /// other places.
    fn per_cpu(&mut self, names: &Names) {
        let (Some((start, end)), Some(offsets)) = (names.per_cpu(), names.per_cpu_offset) else {
            return;
        };
        let Some(count) = names.nr_cpu_ids else {
            return;
        };
        let count = self.kernel.read_u32("nr_cpu_ids", count).unwrap_or(0);
        for cpu in 0..count.min(MAX_CPUS) {
            let slot = VirtAddr(offsets.0.wrapping_add(8 * u64::from(cpu)));
            if let Ok(offset) = self.kernel.read_u64("__per_cpu_offset", slot) {
                let area = start.wrapping_add(offset);
                self.add(GuardedUse::PerCpu, area, end - start);
            }
        }
    }

    fn log(&mut self) {
        // A dump without a readable log is a dump all the same.
        if let Ok(log) = Log::open(self.kernel) {
            for (address, bytes) in log.areas() {
                self.add(GuardedUse::Log, address.0, bytes);
            }
        }
    }

    fn vmcoreinfo(&mut self, names: &Names) {
        let page = 1_u64 << self.page_shift;
        // The note has a header before the page of text (VMCOREINFO_NOTE_SIZE).
        for (pointer, bytes) in [
            (names.vmcoreinfo_note, 2 * page),
            (names.vmcoreinfo_data, page),
        ] {
            let Some(pointer) = pointer else {
                continue;
            };
            if let Ok(address) = self.kernel.read_u64("a pointer to VMCOREINFO", pointer) {
                self.add(GuardedUse::Vmcoreinfo, address, bytes);
            }
        }
    }

    /// Guards the tables of sections, and returns the virtual addresses of struct pages: the first
    /// one and the one behind the last.
    fn mem_map(&mut self, described_end: Option<PageFrame>) -> Vec<(u64, u64)> {
        let (kernel, map) = (self.kernel, self.map);
        let shift = map.frames_shift();
        let bytes = map.page_struct_size() << shift;
        let mut found: Vec<(u64, u64)> = Vec::new();
        if let Some((roots, bytes)) = map.table_of_tables() {
            self.add(GuardedUse::MemMap, roots.0, bytes);
        }
        let mut next = 0;
        let mut table_before = None;
        let is_described = |first: &PageFrame| described_end.is_none_or(|end| *first < end);
        let sections = kernel.source().sections().take_while(is_described);
        for first in sections.take(MAX_SECTIONS) {
            let last = (first.0 + SECTION_FRAMES - 1) >> shift;
            for section in (first.0 >> shift).max(next)..=last {
                next = section + 1;
                let Ok(Some(table)) = map.table_with(kernel, section) else {
                    continue;
                };
                if table_before != Some(table) {
                    table_before = Some(table);
                    self.add(GuardedUse::MemMap, table.0.0, table.1);
                }
                let Ok(Some(decoded)) = map.section(kernel, section) else {
                    continue;
                };
                let frame = PageFrame(section << shift);
                let start = map.page_struct(decoded, frame).0;
                let end = start.saturating_add(bytes);
                match found.last_mut() {
                    Some(before) if before.1 == start => before.1 = end,
                    _ => found.push((start, end)),
                }
            }
        }
        found.sort_unstable();
        found
    }
}
