//! ELF notes: NT_PRSTATUS, QEMU's CPU state, VMCOREINFO.

use std::ops::Range;

use crate::machine::Machine;
use crate::order::ByteOrder;

const NT_PRSTATUS: u32 = 1;
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
#[derive(Debug)]
pub(crate) struct Notes {
    /// Order of the headers and descriptors.
    order: ByteOrder,
    pub(crate) bytes: Vec<u8>,
    pub(crate) extents: Vec<NoteExtent>,
}

impl Notes {
    pub(crate) fn new(order: ByteOrder) -> Self {
        Self {
            order,
            bytes: Vec::new(),
            extents: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, name: &'static str, kind: u32, desc: &[u8]) {
        let header = self.bytes.len();
        // The name's size includes its NUL. Name and descriptor are padded to four bytes.
        let namesz = name.len() as u32 + 1;
        for word in [namesz, desc.len() as u32, kind] {
            self.bytes.extend(self.order.u32(word));
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
            let registers = machine.registers(cpu);
            let arch = machine.spec.platform.arch;
            let mut desc = arch.prstatus(&registers, self.order);
            self.order.put32(&mut desc, 32, cpu + 1); // pr_pid
            self.push("CORE", NT_PRSTATUS, &desc);
            arch.cpu_notes(cpu, self);
        }
    }

    /// QEMU's state of an x86_64 CPU.
    pub(crate) fn qemu(&mut self, machine: &Machine) {
        let order = self.order;
        let five = machine.spec.options.levels == 5;
        for cpu in 0..machine.spec.options.cpus {
            let mut desc = vec![0; QEMU_STATE];
            order.put32(&mut desc, 0, 1); // version
            order.put32(&mut desc, 4, QEMU_STATE as u32);
            let (image, _) = machine.image();
            order.put64(&mut desc, 8 + 16 * 8, image.start + 16 * u64::from(cpu)); // rip
            let cr = 392; // after 18 registers and 10 segments of 24 bytes
            order.put64(&mut desc, cr, 0x8005_0033);
            let sme_mask = crate::arch::sme_mask(&machine.spec);
            order.put64(&mut desc, cr + 24, machine.top_table() | sme_mask);
            // PAE and PGE and, with five levels, LA57.
            order.put64(&mut desc, cr + 32, 0xa0 | u64::from(five) << 12);
            self.push("QEMU", 0, &desc);
        }
    }

    pub(crate) fn vmcoreinfo(&mut self, machine: &Machine) {
        self.push("VMCOREINFO", 0, machine.vmcoreinfo().as_bytes());
    }
}
