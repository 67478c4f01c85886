//! Synthetic crash dumps from a short text, for tests only.
//!
//! Every layout is implemented independently of the project's own parsers, so
//! that one mistake cannot hide in both. The text is also an oracle:
//! [`Machine::expected_dumpable`] determines from it alone the pages that a dump level keeps.
//! [`Machine::mappings`] tells what the kernel can address.
//!
//! ```
//! use bigiron_synth::{ElfShape, Synth};
//!
//! let machine = Synth::from_text(
//!     "kernel 6.12 levels=4 kaslr=0x1e00000   # one `kernel` line, after `arch` if there is one
//!      ram 0x0-0x9f 0x100-0x1fff              # page frames, both ends included
//!      pages 0x200 free order=9
//!      pages 0x400 cache n=16 ; 0x410 cache private n=4 dirty fill=random
//!      pages 0x600 thp ; 0x800 hugetlb ; 0xa00 slab order=2 n=3",
//! )?;
//! let file = machine.elf(&ElfShape::vmcore());
//! assert_eq!(&file[..4], b"\x7fELF");
//! assert!(!machine.expected_dumpable(16)[0x200]);
//! # Ok::<(), bigiron_synth::SynthError>(())
//! ```
//!
//! # The text
//! One statement per line, or several separated by `;`. `#` begins a comment.
//! Numbers are decimal or `0x` hexadecimal.
//!
//! `arch NAME [KEY=VALUE …]`, before `kernel`; x86_64 without the line. All of memory, headers and
//! page tables follow it:
//!
//! | NAME | `pages` (default first) | `bits` | other keys |
//! |---|---|---|---|
//! | `x86_64` | `4k` | | |
//! | `arm64` | `4k`, `16k`, `64k` | `48`, `39`, `52`; with 16k `47`, `36`, `48`, `52`; with 64k `48`, `42`, `52` | `hardware_bits`: `48` (with 16k `47`) for a kernel of 52 bits on hardware with fewer; `memstart`: start of the linear map |
//! | `s390x` (big-endian) | `4k` | | |
//! | `ppc64le`, `ppc64` (big-endian) | `64k`, `4k` | | `mmu`: `radix`, `hash` |
//! | `riscv64` | `4k` | `48`, `39`, `57` | |
//! | `loongarch64` | `16k`, `64k` | | |
//!
//! RAM may begin anywhere, but s390x and ppc64 need frame 0. Kernels of riscv64 and loongarch64
//! begin with 6.1, those of arm64 with 52 bits with 6.9, with pages of 64 KiB 5.4.
//!
//! `kernel NAME [KEY=VALUE …]`, where NAME is one of [`presets`]:
//!
//! | key | value (default first) |
//! |---|---|
//! | `levels` | x86_64: `4`, `5`; s390x: `3`, `4`, `5` |
//! | `kaslr` | `0`; a multiple of 2 MiB; s390x from 6.10 on: added to KERNELOFFSET |
//! | `phys_base` | x86_64: chosen; may be negative; the image is at 16 MiB + kaslr + phys_base |
//! | `page_offset` | the kernel's default without randomization; x86_64, and s390x from 6.10 on |
//! | `vmemmap` | the same; x86_64 |
//! | `direct` | leaves of the direct map, by size: a page, arm64's and riscv64's contiguous pages (`64k` with pages of 4k), those of the two next levels: `2m` and `1g` with pages of 4k |
//! | `vmemmap_leaf`, `image_leaf` | leaves by size; with `mmu=hash` `16m` and a page are the blocks in vmemmap_list |
//! | `sme` | x86_64: none; the bit of the memory encryption mask |
//! | `mem_section` | by kernel; `16`, `32` bytes |
//! | `vmcoreinfo` | `both`, `note`, `page`, `none` |
//! | `memory_failure` | `yes`; `no` leaves out PG_hwpoison, as s390x, riscv64 and loongarch64 do |
//! | `cpus` | `1` |
//! | `nr_free_skew` | `0`; added to the first zone's count of free pages |
//! | `compound_info` | `mask`, `pointer` (7.1 only; pointer on arm64 and ppc64) |
//! | `stack` | `0`; calls on each CPU's stack, see [`Machine::stack`] |
//! | `vmalloc` | `0`; pages mapped in vmalloc's area, scattered |
//!
//! `ram FIRST-LAST …`, `node NUMBER FIRST-LAST` (node 0 for all RAM by default).
//!
//! `pages FRAME CLASS [WORD …]`: CLASS is a name of [`Class::ALL`], `thp` (anonymous,
//! order 9) or `hwpoison` (kernel data, poisoned). Words: `n=` blocks, `order=` of
//! each, `private`, `dirty`, `hwpoison`, `anonbit` (slab), `hvo` (hugetlb: its vmemmap
//! is optimized away), `badorder=` (free), and
//! `fill=stamp|zero|const:BYTE|random[:SEED]|same:FRAME`.
//!
//! `log FORM [n=40] [text_bits=12] [descriptor_bits=7] [cleared=0]`: a kernel log of `n`
//! records in FORM: `lockless`, `lockless-to-the-end`, `records`, `old-records` or `text`
//! (see [`LogForm`]). Without the line there is no log.
//!
//! RAM that is not named is kernel data. The builder allocates from it the memory for
//! page tables, mem_map and so on, so enough must remain: about 2 MiB for the image, 2 MiB
//! for each section of 128 MiB that has some RAM, and 2 MiB for the rest. arm64 before 5.12 needs
//! 16 MiB for a section of 1 GiB, riscv64 16 MiB for mem_section, the hash MMU 16 MiB for a block
//! of struct pages.
//!
//! # Limitations
//! There are no kallsyms, lists of free blocks, and processes; a [`NamedMachine`], and a
//! [`TinyKernel`] of x86_64, have the symbols and types that a test gives them. Struct pages have
//! only the fields that a filter reads. Sizes of `zone` and `pglist_data` depend on a
//! kernel's configuration; they are real, but not those of each kernel. Only x86_64 and ppc64
//! have node_data in VMCOREINFO, as real kernels do.

mod arch;
mod btf;
mod build;
mod checks;
mod cpu_notes;
mod elf;
mod error;
mod frames;
mod image;
mod kallsyms;
mod kernels;
mod layout;
mod machine;
mod memmap;
mod memory;
mod migration;
mod named;
mod notes;
mod oracle;
mod order;
mod pages;
mod paging;
mod platform;
mod printk;
mod random;
mod sadump;
mod shape;
mod spec;
mod stacks;
mod text;
mod tiny;
mod virtualbox;
mod vmcoreinfo;
mod vmware;
mod xen;
mod xen_core;
mod zones;

pub use btf::TinyTypes;
pub use elf::{ElfImage, LoadExtent};
pub use error::SynthError;
pub use frames::Registers;
pub use kernels::{CompoundInfo, HeadLink, Kernel, PageFlags, PageTypes, ZoneLayout, presets};
pub use machine::{Machine, Mapping};
pub use migration::MigrationShape;
pub use named::NamedMachine;
pub use notes::NoteExtent;
pub use order::ByteOrder;
pub use platform::Platform;
pub use printk::{KernelLog, LogForm, LogImage, LogRecord, Written};
pub use random::{random_machine, random_machine_on};
pub use sadump::SadumpShape;
pub use shape::{ElfShape, LoadOrder, Vaddr, Writer};
pub use spec::{Class, Fill, Leaf, Options, Run, Spec, VmcoreinfoPlace};
pub use tiny::{IMAGE, TinyKernel};
pub use xen::{XenHost, XenOwner};
pub use xen_core::XenGuest;

/// Builds machines.
#[derive(Debug, Clone, Copy)]
pub struct Synth;

impl Synth {
    /// Builds the machine described by a text.
    ///
    /// # Errors
    /// If the text is invalid (with its line), or if the machine cannot be laid out.
    pub fn from_text(text: &str) -> Result<Machine, SynthError> {
        build::build(text::parse(text)?)
    }

    /// Builds a machine from a specification.
    ///
    /// # Errors
    /// If the machine cannot be laid out.
    pub fn from_spec(spec: Spec) -> Result<Machine, SynthError> {
        build::build(spec)
    }
}
