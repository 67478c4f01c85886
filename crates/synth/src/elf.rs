//! ELF cores in the layouts of kernels and hypervisors.

use std::ops::Range;

use crate::machine::Machine;
use crate::memory::SplitMix;
use crate::notes::{NoteExtent, Notes};
use crate::order::ByteOrder;
use crate::shape::{ElfShape, LoadOrder, Vaddr, Writer};

pub(crate) const EHDR: usize = 64;
pub(crate) const PHDR: usize = 56;
pub(crate) const SHDR: usize = 64;
pub(crate) const EM_X86_64: u16 = 62;
pub(crate) const PT_LOAD: u32 = 1;
pub(crate) const PT_NOTE: u32 = 4;
/// Value of e_phnum that refers to sh_info of section 0 for the actual count.
const PN_XNUM: u16 = 0xffff;
const STRINGS: &[u8] = b"\0.shstrtab\0";

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
    let page = machine.page_size() as usize;
    let arch = machine.spec.platform.arch();
    let order = shape.headers.unwrap_or(machine.order());
    let mut notes = Notes::new(order);
    if shape.prstatus {
        notes.prstatus(machine);
    }
    if shape.qemu_notes && arch.elf_machine() == EM_X86_64 {
        notes.qemu(machine);
    }
    let qemu_omits = shape.writer == Writer::Qemu && !arch.qemu_has_vmcoreinfo();
    if machine.spec.options.vmcoreinfo.in_note() && !qemu_omits {
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
            at.next_multiple_of(page)
        } else {
            at
        }
    };
    let notes_at = align(phdrs.end.max(shdrs.end));
    let mut at = align(notes_at + notes.bytes.len());
    let mut extents = Vec::new();
    for (index, load) in loads.iter().enumerate() {
        let size = (load.frames.end - load.frames.start) as usize * page;
        extents.push(LoadExtent {
            phdr: phoff + (index + 1) * PHDR,
            data: at..at + size,
            paddr: load.frames.start * page as u64,
            vaddr: load.vaddr,
        });
        at += size;
    }

    let mut bytes = vec![0; at];
    bytes[notes_at..notes_at + notes.bytes.len()].copy_from_slice(&notes.bytes);
    put_phdr(
        order,
        &mut bytes[phoff..],
        PT_NOTE,
        &(notes_at..notes_at + notes.bytes.len()),
        0,
        0,
    );
    for (extent, load) in extents.iter().zip(&loads) {
        let header = &mut bytes[extent.phdr..];
        put_phdr(
            order,
            header,
            PT_LOAD,
            &extent.data,
            extent.vaddr,
            extent.paddr,
        );
        for (pfn, bytes) in load
            .frames
            .clone()
            .zip(bytes[extent.data.clone()].chunks_exact_mut(page))
        {
            if let Some(content) = machine.page(pfn) {
                bytes.copy_from_slice(&content);
            }
        }
    }
    if shape.extended_phnum {
        order.put32(&mut bytes, shdrs.start + 44, phnum as u32); // sh_info
    }
    if shape.writer == Writer::Qemu {
        let header = shdrs.start + SHDR;
        order.put32(&mut bytes, header, 1); // sh_name
        order.put32(&mut bytes, header + 4, 3); // SHT_STRTAB
        order.put64(&mut bytes, header + 24, at as u64);
        order.put64(&mut bytes, header + 32, STRINGS.len() as u64);
        bytes.extend(STRINGS);
    }
    let machine_number = arch.elf_machine();
    order.put16(&mut bytes, 18, machine_number);
    put_ehdr(order, &mut bytes, shape, phoff, phnum, &shdrs);

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
    let page_size = machine.page_size();
    for range in machine.ram() {
        let len = range.end - range.start;
        let step = len.div_ceil(shape.loads_per_range.clamp(1, len));
        for start in range.clone().step_by(step as usize) {
            let end = (start + step + shape.overlap).min(range.end);
            let paddr = start * page_size;
            let vaddr = match shape.vaddr {
                Vaddr::DirectMap => machine.layout.direct(paddr),
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
    if shape.image_load && machine.spec.platform.arch().image_load(&machine.spec) {
        let (virt, phys) = machine.image();
        let image = Load {
            frames: phys.start / page_size..phys.end / page_size,
            vaddr: virt.start,
        };
        loads.insert(0, image);
    }
    loads
}

pub(crate) fn put_phdr(
    order: ByteOrder,
    header: &mut [u8],
    kind: u32,
    data: &Range<usize>,
    vaddr: u64,
    paddr: u64,
) {
    order.put32(header, 0, kind);
    // PF_R | PF_W | PF_X for memory, as in the kernel.
    order.put32(header, 4, if kind == PT_LOAD { 7 } else { 0 });
    order.put64(header, 8, data.start as u64);
    order.put64(header, 16, vaddr);
    order.put64(header, 24, paddr);
    order.put64(header, 32, data.len() as u64);
    order.put64(header, 40, data.len() as u64);
}

pub(crate) fn put_ehdr(
    order: ByteOrder,
    bytes: &mut [u8],
    shape: &ElfShape,
    phoff: usize,
    phnum: usize,
    shdrs: &Range<usize>,
) {
    // ELFCLASS64, ELFDATA2LSB or ELFDATA2MSB, EV_CURRENT.
    let data = if order == ByteOrder::Big { 2 } else { 1 };
    bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, data, 1]);
    order.put16(bytes, 16, 4); // ET_CORE
    order.put32(bytes, 20, 1);
    order.put64(bytes, 32, phoff as u64);
    let qemu = shape.writer == Writer::Qemu;
    let shnum = shdrs.len() / SHDR;
    if shnum > 0 {
        order.put64(bytes, 40, shdrs.start as u64);
        order.put16(bytes, 58, SHDR as u16);
        order.put16(bytes, 60, shnum as u16);
    }
    // QEMU 7.2 uses the size of a pointer.
    order.put16(bytes, 52, if qemu { 8 } else { EHDR as u16 });
    order.put16(bytes, 54, PHDR as u16);
    let count = u16::try_from(phnum).unwrap_or(PN_XNUM);
    order.put16(
        bytes,
        56,
        if shape.extended_phnum { PN_XNUM } else { count },
    );
    if qemu {
        order.put16(bytes, 62, 1); // e_shstrndx
    }
}
