//! The layouts of ELF cores.

use crate::order::ByteOrder;

/// The program whose layout the file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// /proc/vmcore: program headers directly after the ELF header, data page-aligned.
    Vmcore,
    /// QEMU 7.2's dump-guest-memory: two section headers first, e_phoff 192, e_ehsize 8, data
    /// not aligned, the section names at the very end.
    Qemu,
}

/// p_vaddr of the PT_LOADs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vaddr {
    /// The address in the direct map.
    DirectMap,
    /// Zero.
    Zero,
    /// The physical address.
    Physical,
}

/// Order of the PT_LOADs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadOrder {
    /// Ascending by physical address.
    Sorted,
    /// Descending by physical address.
    Reversed,
    /// Shuffled with a seed.
    Shuffled(u64),
}

/// The layout of an ELF core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElfShape {
    /// The program whose layout the file has.
    pub writer: Writer,
    /// p_vaddr of the PT_LOADs.
    pub vaddr: Vaddr,
    /// True for a first PT_LOAD of the kernel's image, which overlaps that of its RAM.
    pub image_load: bool,
    /// True for e_phnum 0xffff with the count in section 0, whatever the count.
    pub extended_phnum: bool,
    /// Number of PT_LOADs per range of RAM.
    pub loads_per_range: u64,
    /// Number of page frames by which a PT_LOAD overlaps the next one.
    pub overlap: u64,
    /// Order of the PT_LOADs.
    pub order: LoadOrder,
    /// True for NT_PRSTATUS notes.
    pub prstatus: bool,
    /// True for QEMU's notes, which only x86_64 has.
    pub qemu_notes: bool,
    /// Byte order of headers and notes, if it is not that of memory: QEMU 7.2 writes those of a
    /// little-endian ppc64 big-endian.
    pub headers: Option<ByteOrder>,
}

impl ElfShape {
    /// Returns the layout of /proc/vmcore.
    pub fn vmcore() -> Self {
        Self {
            writer: Writer::Vmcore,
            vaddr: Vaddr::DirectMap,
            image_load: true,
            extended_phnum: false,
            loads_per_range: 1,
            overlap: 0,
            order: LoadOrder::Sorted,
            prstatus: true,
            qemu_notes: false,
            headers: None,
        }
    }

    /// Returns QEMU's layout, with p_vaddr 0 as in older versions. 7.2 writes the physical
    /// address: set `vaddr` to [`Vaddr::Physical`].
    pub fn qemu() -> Self {
        Self {
            writer: Writer::Qemu,
            vaddr: Vaddr::Zero,
            image_load: false,
            qemu_notes: true,
            ..Self::vmcore()
        }
    }

    /// Returns the layouts that every reader should support, with names.
    pub fn all() -> Vec<(&'static str, Self)> {
        let (vmcore, qemu) = (Self::vmcore(), Self::qemu());
        let extended_phnum = true;
        vec![
            ("vmcore", vmcore),
            ("qemu", qemu),
            (
                "qemu with physical p_vaddr",
                Self {
                    vaddr: Vaddr::Physical,
                    ..qemu
                },
            ),
            (
                "vmcore, extended",
                Self {
                    extended_phnum,
                    loads_per_range: 3,
                    ..vmcore
                },
            ),
            (
                "qemu, extended",
                Self {
                    extended_phnum,
                    ..qemu
                },
            ),
            (
                "vmcore, shuffled",
                Self {
                    loads_per_range: 5,
                    order: LoadOrder::Shuffled(1),
                    ..vmcore
                },
            ),
            (
                "vmcore, reversed and overlapping",
                Self {
                    loads_per_range: 4,
                    overlap: 3,
                    order: LoadOrder::Reversed,
                    ..vmcore
                },
            ),
            (
                "vmcore without CPUs",
                Self {
                    prstatus: false,
                    ..vmcore
                },
            ),
        ]
    }
}
