//! The core of a machine that `VBoxManage debugvm dumpvmcore` writes.

use crate::elf::{EHDR, EM_X86_64, PHDR, PT_LOAD, PT_NOTE, put_ehdr, put_phdr};
use crate::machine::Machine;
use crate::notes::Notes;
use crate::order::ByteOrder;
use crate::shape::ElfShape;

impl Machine {
    /// Returns the core of a machine of x86-64: without any note of the kernel.
    pub fn virtualbox_core(&self) -> Vec<u8> {
        let order = ByteOrder::Little;
        let notes = self.virtualbox_notes().bytes;
        let page = self.page_size();
        let count = self.ram().len() + 1;
        let notes_at = EHDR + count * PHDR;
        let mut at = notes_at + notes.len();
        let mut out = vec![0; notes_at];
        order.put16(&mut out, 18, EM_X86_64);
        put_ehdr(order, &mut out, &ElfShape::vmcore(), EHDR, count, &(0..0));
        put_phdr(order, &mut out[EHDR..], PT_NOTE, &(notes_at..at), 0, 0);
        for (index, range) in self.ram().iter().enumerate() {
            let (start, header) = (range.start * page, EHDR + (index + 1) * PHDR);
            let end = at + ((range.end - range.start) * page) as usize;
            put_phdr(order, &mut out[header..], PT_LOAD, &(at..end), 0, start);
            at = end;
        }
        out.extend(notes);
        out.extend(self.raw_image().0);
        out
    }

    fn virtualbox_notes(&self) -> Notes {
        let order = ByteOrder::Little;
        let mut notes = Notes::new(order);
        let cpus = self.spec().options.cpus;
        let core = [0xc01a_c0de_u32, 0x0001_0006, 24, 0x0700_000e, 1, cpus];
        let core = core.into_iter().flat_map(u32::to_le_bytes);
        notes.push("VBCORE", 0xb00, &core.collect::<Vec<_>>());
        for cpu in 0..cpus {
            let registers = self.registers(cpu);
            let mut state = vec![0; 1024];
            order.put64(&mut state, 112, registers.pc);
            order.put64(&mut state, 120, registers.sp);
            order.put64(&mut state, 128, registers.fp);
            // The selector of the first segment, CS.
            order.put16(&mut state, 144 + 16, 0x10);
            notes.push("VBCPU", 0xb01, &state);
        }
        notes
    }
}
