//! ELF cores in the layouts of kernels and hypervisors.

use std::ops::Range;

use crate::machine::Machine;
use crate::memory::{PAGE, SplitMix};
use crate::notes::{NoteExtent, Notes, put16, put32, put64};

const EHDR: usize = 64;
const PHDR: usize = 56;
const SHDR: usize = 64;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
/// Value of e_phnum that refers to sh_info of section 0 for the actual count.
const PN_XNUM: u16 = 0xffff;
const STRINGS: &[u8] = b"\0.shstrtab\0";

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
    /// True for QEMU's notes.
    pub qemu_notes: bool,
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

/// Extents of a PT_LOAD in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadExtent {
    /// Offset of the program header.
    pub phdr: usize,
    /// Extent of the data.
    pub data: Range<usize>,
    /// p_paddr.
    pub paddr: u64,
    /// p_vaddr.
    pub vaddr: u64,
}

/// An ELF file, with the extents of its headers, notes and segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElfImage {
    /// The file.
    pub bytes: Vec<u8>,
    /// The program headers.
    pub phdrs: Range<usize>,
    /// The section headers; empty if there are none.
    pub shdrs: Range<usize>,
    /// The notes.
    pub notes: Vec<NoteExtent>,
    /// The PT_LOADs in the order of their headers.
    pub loads: Vec<LoadExtent>,
}

/// A PT_LOAD to write.
struct Load {
    frames: Range<u64>,
    vaddr: u64,
}

impl Machine {
    /// Returns the ELF core in the given layout.
    pub fn elf(&self, shape: &ElfShape) -> Vec<u8> {
        self.elf_image(shape).bytes
    }

    /// Returns the ELF core with the extents of its headers, notes and segments, for tests that
    /// damage them.
    pub fn elf_image(&self, shape: &ElfShape) -> ElfImage {
        write(self, shape)
    }
}

fn write(machine: &Machine, shape: &ElfShape) -> ElfImage {
    let loads = loads(machine, shape);
    let mut notes = Notes::default();
    if shape.prstatus {
        notes.prstatus(machine);
    }
    if shape.qemu_notes {
        notes.qemu(machine);
    }
    if machine.spec.options.vmcoreinfo.in_note() {
        notes.vmcoreinfo(machine);
    }

    let phnum = loads.len() + 1;
    let aligned = shape.writer == Writer::Vmcore;
    // The order in the file: headers, notes, data, and QEMU's section names.
    let (phoff, shdrs) = match shape.writer {
        Writer::Qemu => (EHDR + 2 * SHDR, EHDR..EHDR + 2 * SHDR),
        Writer::Vmcore => {
            let end = EHDR + phnum * PHDR;
            let count = usize::from(shape.extended_phnum);
            (EHDR, end..end + count * SHDR)
        }
    };
    let phdrs = phoff..phoff + phnum * PHDR;
    let align = |at: usize| {
        if aligned {
            at.next_multiple_of(PAGE)
        } else {
            at
        }
    };
    let notes_at = align(phdrs.end.max(shdrs.end));
    let mut at = align(notes_at + notes.bytes.len());
    let mut extents = Vec::new();
    for (index, load) in loads.iter().enumerate() {
        let size = (load.frames.end - load.frames.start) as usize * PAGE;
        extents.push(LoadExtent {
            phdr: phoff + (index + 1) * PHDR,
            data: at..at + size,
            paddr: load.frames.start * PAGE as u64,
            vaddr: load.vaddr,
        });
        at += size;
    }

    let mut bytes = vec![0; at];
    bytes[notes_at..notes_at + notes.bytes.len()].copy_from_slice(&notes.bytes);
    put_phdr(
        &mut bytes[phoff..],
        PT_NOTE,
        &(notes_at..notes_at + notes.bytes.len()),
        0,
        0,
    );
    for (extent, load) in extents.iter().zip(&loads) {
        let header = &mut bytes[extent.phdr..];
        put_phdr(header, PT_LOAD, &extent.data, extent.vaddr, extent.paddr);
        for (pfn, bytes) in load
            .frames
            .clone()
            .zip(bytes[extent.data.clone()].chunks_exact_mut(PAGE))
        {
            if let Some(page) = machine.page(pfn) {
                bytes.copy_from_slice(&page);
            }
        }
    }
    if shape.extended_phnum {
        put32(&mut bytes, shdrs.start + 44, phnum as u32); // sh_info
    }
    if shape.writer == Writer::Qemu {
        let header = shdrs.start + SHDR;
        put32(&mut bytes, header, 1); // sh_name
        put32(&mut bytes, header + 4, 3); // SHT_STRTAB
        put64(&mut bytes, header + 24, at as u64);
        put64(&mut bytes, header + 32, STRINGS.len() as u64);
        bytes.extend(STRINGS);
    }
    put_ehdr(&mut bytes, shape, phoff, phnum, &shdrs);

    for note in &mut notes.extents {
        note.header += notes_at;
        note.desc = note.desc.start + notes_at..note.desc.end + notes_at;
    }
    ElfImage {
        bytes,
        phdrs,
        shdrs,
        notes: notes.extents,
        loads: extents,
    }
}

fn loads(machine: &Machine, shape: &ElfShape) -> Vec<Load> {
    let mut loads = Vec::new();
    for range in machine.ram() {
        let len = range.end - range.start;
        let step = len.div_ceil(shape.loads_per_range.clamp(1, len));
        for start in range.clone().step_by(step as usize) {
            let end = (start + step + shape.overlap).min(range.end);
            let paddr = start * PAGE as u64;
            let vaddr = match shape.vaddr {
                Vaddr::DirectMap => machine.page_offset() + paddr,
                Vaddr::Zero => 0,
                Vaddr::Physical => paddr,
            };
            loads.push(Load {
                frames: start..end,
                vaddr,
            });
        }
    }
    match shape.order {
        LoadOrder::Sorted => {}
        LoadOrder::Reversed => loads.reverse(),
        LoadOrder::Shuffled(seed) => {
            let mut random = SplitMix::new(seed);
            for last in (1..loads.len()).rev() {
                loads.swap(last, random.below(last as u64 + 1) as usize);
            }
        }
    }
    if shape.image_load {
        let (virt, phys) = machine.image();
        let image = Load {
            frames: phys.start / PAGE as u64..phys.end / PAGE as u64,
            vaddr: virt.start,
        };
        loads.insert(0, image);
    }
    loads
}

fn put_phdr(header: &mut [u8], kind: u32, data: &Range<usize>, vaddr: u64, paddr: u64) {
    put32(header, 0, kind);
    // PF_R | PF_W | PF_X for memory, as in the kernel.
    put32(header, 4, if kind == PT_LOAD { 7 } else { 0 });
    put64(header, 8, data.start as u64);
    put64(header, 16, vaddr);
    put64(header, 24, paddr);
    put64(header, 32, data.len() as u64);
    put64(header, 40, data.len() as u64);
}

fn put_ehdr(bytes: &mut [u8], shape: &ElfShape, phoff: usize, phnum: usize, shdrs: &Range<usize>) {
    // ELFCLASS64, ELFDATA2LSB, EV_CURRENT.
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    put16(bytes, 16, 4); // ET_CORE
    put16(bytes, 18, 62); // EM_X86_64
    put32(bytes, 20, 1);
    put64(bytes, 32, phoff as u64);
    let qemu = shape.writer == Writer::Qemu;
    let shnum = shdrs.len() / SHDR;
    if shnum > 0 {
        put64(bytes, 40, shdrs.start as u64);
        put16(bytes, 58, SHDR as u16);
        put16(bytes, 60, shnum as u16);
    }
    // QEMU 7.2 uses the size of a pointer.
    put16(bytes, 52, if qemu { 8 } else { EHDR as u16 });
    put16(bytes, 54, PHDR as u16);
    let count = u16::try_from(phnum).unwrap_or(PN_XNUM);
    put16(
        bytes,
        56,
        if shape.extended_phnum { PN_XNUM } else { count },
    );
    if qemu {
        put16(bytes, 62, 1); // e_shstrndx
    }
}
