//! ELF notes: NT_PRSTATUS, QEMU's CPU state, VMCOREINFO.

use std::ops::Range;

use crate::machine::Machine;

const NT_PRSTATUS: u32 = 1;
/// sizeof(struct elf_prstatus) on x86_64.
const PRSTATUS: usize = 336;
/// sizeof(QEMUCPUState), target/i386/arch_dump.c.
const QEMU_STATE: usize = 440;

/// Extents of a note in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteExtent {
    /// The name.
    pub name: &'static str,
    /// Offset of the note's header.
    pub header: usize,
    /// Extent of the descriptor.
    pub desc: Range<usize>,
}

/// Notes in the order in which they are added. Offsets are relative to the first note.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) bytes: Vec<u8>,
    pub(crate) extents: Vec<NoteExtent>,
}

impl Notes {
    fn push(&mut self, name: &'static str, kind: u32, desc: &[u8]) {
        let header = self.bytes.len();
        // The name's size includes its NUL. Name and descriptor are padded to four bytes.
        let namesz = name.len() as u32 + 1;
        for word in [namesz, desc.len() as u32, kind] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        let start = self.bytes.len();
        self.bytes.extend(desc);
        self.extents.push(NoteExtent {
            name,
            header,
            desc: start..self.bytes.len(),
        });
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    pub(crate) fn prstatus(&mut self, machine: &Machine) {
        for cpu in 0..machine.spec.options.cpus {
            let mut desc = vec![0; PRSTATUS];
            put32(&mut desc, 32, cpu + 1); // pr_pid
            let (image, _) = machine.image();
            put64(&mut desc, 112 + 16 * 8, image.start + 16 * u64::from(cpu)); // rip
            put64(&mut desc, 112 + 17 * 8, 0x10); // cs
            put64(&mut desc, 112 + 19 * 8, machine.page_offset() + 0x1000); // rsp
            self.push("CORE", NT_PRSTATUS, &desc);
        }
    }

    pub(crate) fn qemu(&mut self, machine: &Machine) {
        let five = machine.spec.options.levels == 5;
        for cpu in 0..machine.spec.options.cpus {
            let mut desc = vec![0; QEMU_STATE];
            put32(&mut desc, 0, 1); // version
            put32(&mut desc, 4, QEMU_STATE as u32);
            let (image, _) = machine.image();
            put64(&mut desc, 8 + 16 * 8, image.start + 16 * u64::from(cpu)); // rip
            let cr = 392; // after 18 registers and 10 segments of 24 bytes
            put64(&mut desc, cr, 0x8005_0033);
            put64(
                &mut desc,
                cr + 24,
                machine.top_table() | machine.layout.sme_mask,
            );
            // PAE and PGE and, with five levels, LA57.
            put64(&mut desc, cr + 32, 0xa0 | u64::from(five) << 12);
            self.push("QEMU", 0, &desc);
        }
    }

    pub(crate) fn vmcoreinfo(&mut self, machine: &Machine) {
        self.push("VMCOREINFO", 0, machine.vmcoreinfo().as_bytes());
    }
}

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
