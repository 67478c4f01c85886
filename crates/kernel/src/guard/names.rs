//! The symbols that tell where the kernel's own memory is.

use bigiron_format::VirtAddr;

use crate::kernel::Kernel;
use crate::symbols::kallsyms;

/// THREAD_SIZE of most kernels with pages of up to 16 KiB.
const USUAL_STACK: u64 = 16 << 10;
/// Maximum plausible size of a stack.
const MAX_STACK: u64 = 1 << 20;
/// Maximum size of a kernel image (KERNEL_IMAGE_SIZE of x86-64).
const MAX_IMAGE: u64 = 1 << 30;
/// Maximum size of the variables of a CPU.
const MAX_PER_CPU: u64 = 64 << 20;

/// A part of the image by the symbols of its borders.
type Part = (Option<VirtAddr>, Option<VirtAddr>);

/// Addresses of symbols, as far as the kernel has them: since 6.0, VMCOREINFO leads to kallsyms.
#[derive(Debug, Default)]
pub(super) struct Names {
    image: Part,
    /// Parts of the image that are freed when the kernel has started: the padding between code,
    /// constants and variables, what only the start needs (free_kernel_image_pages,
    /// arch/x86/mm/init.c; free_initmem), the locks of alternatives on a machine with one CPU
    /// (alternative_instructions, arch/x86/kernel/alternative.c), and the rest of what would be
    /// decrypted (mem_encrypt_free_decrypted_mem, arch/x86/mm/mem_encrypt_amd.c).
    freed: [Part; 5],
    end: Option<VirtAddr>,
    per_cpu: Part,
    pub(super) per_cpu_offset: Option<VirtAddr>,
    pub(super) nr_cpu_ids: Option<VirtAddr>,
    pub(super) vmcoreinfo_note: Option<VirtAddr>,
    pub(super) vmcoreinfo_data: Option<VirtAddr>,
    stack: Part,
}

impl Names {
    /// Finds the symbols of a kernel. If its table of symbols cannot be read, none is known.
    pub(super) fn find(kernel: &Kernel) -> Self {
        let wanted = [
            "_text",
            "_stext",
            "__bss_stop",
            "_etext",
            "__start_rodata",
            "__end_rodata",
            "_sdata",
            "__init_begin",
            "__init_end",
            "__smp_locks",
            "__smp_locks_end",
            "__start_bss_decrypted_unused",
            "__end_bss_decrypted",
            "_end",
            "__per_cpu_start",
            "__per_cpu_end",
            "__per_cpu_offset",
            "nr_cpu_ids",
            "vmcoreinfo_note",
            "vmcoreinfo_data",
            "__start_init_stack",
            "__end_init_stack",
            "__start_init_task",
            "__end_init_task",
        ];
        let Ok(found) = kallsyms::find(kernel, wanted) else {
            return Self::default();
        };
        let [
            text,
            stext,
            bss_stop,
            etext,
            start_rodata,
            end_rodata,
            sdata,
            init_begin,
            init_end,
            locks,
            locks_end,
            decrypted_unused,
            decrypted_end,
            end,
            per_cpu_start,
            per_cpu_end,
            per_cpu_offset,
            nr_cpu_ids,
            vmcoreinfo_note,
            vmcoreinfo_data,
            start_stack,
            end_stack,
            start_task,
            end_task,
        ] = found;
        Self {
            image: (text.or(stext), bss_stop),
            freed: [
                (etext, start_rodata),
                (end_rodata, sdata),
                (init_begin, init_end),
                (locks, locks_end),
                (decrypted_unused, decrypted_end),
            ],
            end,
            per_cpu: (per_cpu_start, per_cpu_end),
            per_cpu_offset,
            nr_cpu_ids,
            vmcoreinfo_note,
            vmcoreinfo_data,
            // The name of the stack's borders before 6.10 (commit 2cb15faaedeb) was init_task.
            stack: (start_stack.or(start_task), end_stack.or(end_task)),
        }
    }

    /// The first address of the image and the one behind it.
    pub(super) fn image(&self) -> Option<(u64, u64)> {
        part(self.image, MAX_IMAGE)
    }

    /// The address behind all that is mapped with the image.
    pub(super) fn end(&self) -> Option<u64> {
        self.end.map(|end| end.0)
    }

    /// The parts of the image that are in use, for pages of `page` bytes. A page that is in use in
    /// part is in use.
    pub(super) fn used_parts(&self, page: u64) -> Vec<(u64, u64)> {
        let mut parts = Vec::from_iter(self.image());
        for freed in self.freed {
            let Some((start, end)) = part(freed, MAX_IMAGE) else {
                continue;
            };
            let (start, end) = (start.next_multiple_of(page), end / page * page);
            let cut = |(from, to): (u64, u64)| [(from, to.min(start)), (from.max(end), to)];
            if start < end {
                parts = parts.into_iter().flat_map(cut).collect();
                parts.retain(|(from, to)| from < to);
            }
        }
        parts
    }

    /// The first address of the per-CPU variables in the image and the one behind them; each CPU's
    /// own are at an offset from there.
    pub(super) fn per_cpu(&self) -> Option<(u64, u64)> {
        part(self.per_cpu, MAX_PER_CPU)
    }

    /// The size of a kernel stack, in bytes.
    pub(super) fn stack_size(&self, page_shift: u32) -> u64 {
        let found = part(self.stack, MAX_STACK).map(|(start, end)| end - start);
        let plausible = found.filter(|size| size.is_power_of_two() && size >> page_shift > 0);
        plausible.unwrap_or(USUAL_STACK.max(1 << page_shift))
    }
}

/// Returns the borders of a part that has some bytes, and at most `most`.
fn part(part: Part, most: u64) -> Option<(u64, u64)> {
    let (start, end) = (part.0?.0, part.1?.0);
    let is_plausible = start < end && end - start <= most;
    is_plausible.then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: u64, end: u64) -> Part {
        (Some(VirtAddr(start)), Some(VirtAddr(end)))
    }

    #[test]
    fn freed_parts_of_the_image_are_not_in_use_but_pages_at_their_borders_are() {
        let names = Names {
            image: at(0x1000, 0x9000),
            freed: [
                at(0x2800, 0x4000),
                at(0x5000, 0x5fff),
                at(0x7000, 0x9000),
                (None, None),
                at(0x9000, 0x8000),
            ],
            ..Names::default()
        };
        let used = names.used_parts(0x1000);
        assert_eq!(used, [(0x1000, 0x3000), (0x4000, 0x7000)]);
        assert!(Names::default().used_parts(0x1000).is_empty());
    }

    #[test]
    fn size_of_a_stack_is_that_of_the_first_task_if_it_is_plausible() {
        let size = |stack| {
            let names = Names {
                stack,
                ..Names::default()
            };
            names.stack_size(12)
        };
        assert_eq!(size(at(0x10000, 0x18000)), 0x8000);
        for wrong in [
            at(0x10000, 0x10800),
            at(0x10000, 0x17000),
            at(2, 1),
            (None, None),
        ] {
            assert_eq!(size(wrong), 0x4000);
        }
    }
}
