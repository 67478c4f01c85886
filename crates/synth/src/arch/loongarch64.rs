//! loongarch64: pages of 16 and 64 KiB; the linear map and the image lie in a window that the
//! hardware maps without tables.
//!
//! LoongArch Reference Manual, volume 1, "Multi-level page table structure supported by page
//! walking"; addresses: arch/loongarch/include/asm/{addrspace,pgtable}.h.

use crate::arch::contract::{Architecture, Areas, Block, Ground, prstatus};
use crate::error::SynthError;
use crate::frames::{CALL, FRAME, Frames, Registers, frame_records};
use crate::kernels::{Kernel, ZoneLayout};
use crate::layout::Layout;
use crate::machine::Mapping;
use crate::order::ByteOrder;
use crate::paging::{Attributes, Codec, Entry, Level};
use crate::platform::Platform;
use crate::spec::{Leaf, Options, Spec};
use crate::vmcoreinfo::Info;

/// CSR_DMW1_BASE: the cached window.
const WINDOW: u64 = 0x9000_0000_0000_0000;
/// vm_map_base on machines with 48 bits of virtual addresses.
const VM_MAP_BASE: u64 = 0xffff_8000_0000_0000;

/// `addi.d sp, sp, -192` makes a frame, `st.d ra, sp, 184` keeps the return address.
const PROLOGUE: u64 = 0x02fd_0063 | 0x29c2_e061 << 32;

#[derive(Debug)]
pub(super) struct Loongarch64;

impl Architecture for Loongarch64 {
    fn machine(&self) -> &'static str {
        "loongarch64"
    }

    fn elf_machine(&self) -> u16 {
        258
    }

    fn page_shifts(&self) -> &'static [u32] {
        &[14, 16]
    }

    /// Three levels of 11 bits, and two of 13.
    fn bits(&self, page_shift: u32) -> &'static [u32] {
        if page_shift == 14 { &[47] } else { &[42] }
    }

    fn first_kernel(&self) -> (u16, u16) {
        (6, 1)
    }

    fn default_options(&self, _platform: &Platform, options: &mut Options) {
        options.levels = 0;
        options.direct = Leaf::Small;
        options.vmemmap_leaf = Leaf::Small;
        options.image_leaf = Leaf::Small;
    }

    fn check_options(&self, spec: &Spec) -> Result<(), &'static str> {
        if spec.options.kaslr != 0 {
            return Err("kaslr=: only the address of the image changes");
        }
        Ok(())
    }

    fn leaf_shift(&self, platform: &Platform, leaf: Leaf) -> Option<u32> {
        let large = 2 * platform.page_shift - 3;
        (leaf == Leaf::Large).then_some(large)
    }

    fn section_size_bits(&self, _spec: &Spec) -> u32 {
        29
    }

    fn max_physmem_bits(&self, _spec: &Spec) -> u32 {
        48
    }

    /// CONFIG_ARCH_FORCE_MAX_ORDER is 11 and 13.
    fn page_orders(&self, platform: &Platform) -> u8 {
        if platform.page_shift == 14 { 12 } else { 14 }
    }

    /// The layout of riscv64, as there is no vmcore at hand.
    fn zones(&self, kernel: &Kernel) -> ZoneLayout {
        crate::arch::riscv64::Riscv64.zones(kernel)
    }

    fn max_nodes(&self) -> u64 {
        64
    }

    fn memory_failure(&self) -> bool {
        false
    }

    fn areas(&self, spec: &Spec, _ram_base: u64) -> Areas {
        let platform = &spec.platform;
        // The struct pages of all memory that the processor can address are at the end.
        let struct_pages = 64 << (48 - platform.page_shift);
        let end = VM_MAP_BASE.wrapping_add(1 << platform.bits);
        Areas {
            page_offset: WINDOW,
            vmemmap: end.wrapping_sub(struct_pages),
            vmalloc: VM_MAP_BASE + (1 << 25),
            image_virt: None,
            image_phys: None,
        }
    }

    fn linear_map_in_tables(&self, _spec: &Spec) -> bool {
        false
    }

    fn codec(&self, spec: &Spec, layout: &Layout) -> Box<dyn Codec> {
        Box::new(Entries {
            page_shift: spec.platform.page_shift,
            bits: spec.platform.bits,
            invalid: layout.swapper_pg_dir(),
        })
    }

    /// Writes invalid_pmd_table; invalid_pte_table is empty.
    fn extra(&self, ground: &mut Ground<'_>, _: &[Block]) -> Result<Vec<Mapping>, SynthError> {
        let codec = self.codec(ground.spec, ground.layout);
        let page_size = ground.layout.page_size;
        let table = ground.layout.image_paddr(ground.layout.swapper_pg_dir()) + 2 * page_size;
        let entry = codec.empty(1).to_le_bytes();
        ground
            .memory
            .write(table, &entry.repeat((page_size / 8) as usize))?;
        Ok(Vec::new())
    }

    /// The kernel has no lines of its own.
    fn vmcoreinfo(&self, _info: &mut Info, _spec: &Spec, _layout: &Layout) {}

    /// `struct user_pt_regs`: r0 to r31, orig_a0, era, badv, reserved words.
    fn prstatus(&self, registers: &Registers, order: ByteOrder) -> Vec<u8> {
        let words = [
            (8, registers.lr),
            (3 * 8, registers.sp),
            (22 * 8, registers.fp),
            (33 * 8, registers.pc),
        ];
        prstatus(order, 480, &words)
    }

    fn image_load(&self, _spec: &Spec) -> bool {
        false
    }

    /// Each function but the outermost, which begins a thread, has a prologue before the call and the address
    /// in it. Its frame ends with a record, after which is the frame pointer.
    fn stack(&self, _spec: &Spec, outermost: u64, calls: &[u64]) -> Frames {
        let mut frames = frame_records(outermost, calls, -16, |_, call| call);
        frames.registers.sp = frames.registers.fp - FRAME;
        let callers = calls.len().saturating_sub(1);
        let prologues = calls[..callers].iter();
        frames
            .words
            .extend(prologues.map(|call| (call / CALL * CALL - 12, PROLOGUE)));
        frames
    }
}

const VALID: u64 = 1;
const DIRTY: u64 = 1 << 1;
/// Coherent cached.
const CACHED: u64 = 1 << 4;
/// Global in a page table, a leaf in a directory.
const GLOBAL: u64 = 1 << 6;
const HUGE: u64 = 1 << 6;
const PRESENT: u64 = 1 << 7;
const WRITE: u64 = 1 << 8;
const MODIFIED: u64 = 1 << 9;
/// Global in a directory.
const HUGE_GLOBAL: u64 = 1 << 12;
const NO_EXEC: u64 = 1 << 62;

#[derive(Debug)]
struct Entries {
    page_shift: u32,
    bits: u32,
    /// Address of the top-level table, which the invalid tables follow.
    invalid: u64,
}

impl Codec for Entries {
    fn levels(&self) -> Vec<Level> {
        let bits = self.page_shift - 3;
        let mut levels: Vec<_> = (self.page_shift..self.bits)
            .step_by(bits as usize)
            .map(|shift| Level { shift, bits })
            .collect();
        levels.reverse();
        levels
    }

    /// An empty entry of a directory points to the invalid table of the next level. An empty
    /// entry of a page table is global, as its neighbour is.
    fn empty(&self, height: usize) -> u64 {
        match height {
            0 => GLOBAL,
            _ => self
                .invalid
                .wrapping_add((height as u64) << self.page_shift),
        }
    }

    /// Directories hold virtual addresses.
    fn table(&self, _height: usize, next: u64) -> u64 {
        WINDOW | next
    }

    fn leaf(&self, height: usize, paddr: u64, attributes: Attributes) -> u64 {
        let level = if height > 0 {
            HUGE | HUGE_GLOBAL
        } else {
            GLOBAL
        };
        let no_exec = if attributes.exec { 0 } else { NO_EXEC };
        paddr | VALID | DIRTY | CACHED | PRESENT | WRITE | MODIFIED | level | no_exec
    }

    fn read(&self, height: usize, entry: u64) -> Entry {
        if entry == self.empty(height) || entry == 0 {
            Entry::Empty
        } else if height == 0 || entry & HUGE != 0 {
            Entry::Leaf
        } else {
            Entry::Table(entry & ((1 << 48) - 1))
        }
    }
}
