//! The core of a Xen guest, as `xl dump-core` writes it (docs/formats/xen-core.md).

use crate::elf::{EHDR, EM_X86_64, SHDR, put_ehdr};
use crate::machine::Machine;
use crate::notes::Notes;
use crate::order::ByteOrder;
use crate::shape::ElfShape;

const PAGE: usize = 4096;
const CONTEXT: usize = 5168;
/// Frames that follow each other in the machine too: those of a large page.
const TOGETHER: u64 = 512;
/// First frame that the guest has of the machine.
const MACHINE_START: u64 = 0x8_0000;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;

/// Kind of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XenGuest {
    /// HVM or PVH: its page tables have its own frames.
    Hardware,
    /// PV: its page tables have frames of the machine.
    Paravirtual,
}

impl Machine {
    /// Returns the core of a machine of x86-64 with four levels of page tables, none of whose
    /// entries maps more than 2 MiB.
    pub fn xen_core(&self, guest: XenGuest) -> Vec<u8> {
        let frames: Vec<u64> = self.ram().iter().cloned().flatten().collect();
        let of = |frame: u64| self.page(frame).unwrap_or_default();
        let mut pages: Vec<Vec<u8>> = frames.iter().map(|frame| of(*frame)).collect();
        let end = frames.last().map_or(0, |last| last + 1);
        let machine = |frame| machine_frame(frame, end);
        if guest == XenGuest::Paravirtual {
            let mut tables = vec![(self.top_table() >> 12, 3)];
            let mut done: Vec<u64> = Vec::new();
            while let Some((frame, level)) = tables.pop() {
                if done.contains(&frame) {
                    continue;
                }
                done.push(frame);
                let index = frames.binary_search(&frame).unwrap_or_default();
                for entry in pages[index].chunks_exact_mut(8) {
                    let mut word = [0; 8];
                    word.copy_from_slice(entry);
                    let old = u64::from_le_bytes(word);
                    if old & PRESENT == 0 {
                        continue;
                    }
                    let target = (old & ADDRESS) >> 12;
                    let is_leaf = level == 0 || old & LARGE != 0;
                    assert!(!is_leaf || level < 2, "a page of 1 GiB");
                    if !is_leaf {
                        tables.push((target, level - 1));
                    }
                    let new = old & !ADDRESS | machine(target) << 12;
                    entry.copy_from_slice(&new.to_le_bytes());
                }
            }
        }
        let list: Vec<u8> = match guest {
            XenGuest::Hardware => frames.iter().flat_map(|f| f.to_le_bytes()).collect(),
            XenGuest::Paravirtual => {
                let pairs = frames.iter().flat_map(|frame| [*frame, machine(*frame)]);
                pairs.flat_map(u64::to_le_bytes).collect()
            }
        };
        let (magic, list_name) = match guest {
            XenGuest::Hardware => (0xf00f_ebee_u64, ".xen_pfn"),
            XenGuest::Paravirtual => (0xf00f_ebed, ".xen_p2m"),
        };
        let cpus = u64::from(self.spec().options.cpus);
        let mut header = Vec::new();
        for word in [magic, cpus, frames.len() as u64, PAGE as u64] {
            header.extend(word.to_le_bytes());
        }
        let mut notes = Notes::new(ByteOrder::Little);
        notes.push("Xen", 0x0200_0000, &[]);
        notes.push("Xen", 0x0200_0001, &header);
        notes.push("Xen", 0x0200_0002, &[0; 1276]);
        notes.push("Xen", 0x0200_0003, &1_u64.to_le_bytes());
        let contexts = (0..cpus).flat_map(|cpu| self.context(cpu as u32, guest));
        elf(vec![
            (".note.Xen", notes.bytes),
            (".xen_prstatus", contexts.collect()),
            (".xen_shared_info", vec![0; PAGE]),
            (".xen_pages", pages.concat()),
            (list_name, list),
        ])
    }

    /// The registers of a CPU.
    fn context(&self, cpu: u32, guest: XenGuest) -> Vec<u8> {
        let registers = self.registers(cpu);
        let order = ByteOrder::Little;
        let mut out = vec![0; CONTEXT];
        order.put64(&mut out, 552, registers.fp);
        order.put64(&mut out, 648, registers.pc);
        order.put64(&mut out, 672, registers.sp);
        let (flags, segment) = match guest {
            XenGuest::Hardware => (0_u64, 0x10_u16),
            // In the kernel, which has a segment of programs.
            XenGuest::Paravirtual => (4, 0xe033),
        };
        order.put64(&mut out, 512, flags);
        order.put16(&mut out, 656, segment);
        out
    }
}

/// The machine's frame of a frame: those of a large page stay together, all others are mixed.
fn machine_frame(frame: u64, end: u64) -> u64 {
    let parts = end.div_ceil(TOGETHER).next_power_of_two();
    let part = (frame / TOGETHER * 5 + 3) % parts;
    MACHINE_START + part * TOGETHER + frame % TOGETHER
}

/// Returns an ELF core with these sections and no segments.
fn elf(mut sections: Vec<(&str, Vec<u8>)>) -> Vec<u8> {
    let mut names = b"\0.shstrtab\0".to_vec();
    let mut starts = vec![1];
    for (name, _) in &sections {
        starts.push(names.len() as u32);
        names.extend(name.as_bytes());
        names.push(0);
    }
    sections.insert(0, (".shstrtab", names));
    let count = sections.len() + 1;
    let order = ByteOrder::Little;
    let mut out = vec![0; EHDR];
    order.put16(&mut out, 18, EM_X86_64);
    let headers = EHDR..EHDR + SHDR * count;
    put_ehdr(order, &mut out, &ElfShape::vmcore(), 0, 0, &headers);
    order.put16(&mut out, 62, 1); // e_shstrndx
    let mut at = headers.end;
    out.resize(EHDR + SHDR, 0);
    for ((_, data), name) in sections.iter().zip(starts) {
        // The pages begin at a multiple of their size.
        at = match data.len() > PAGE && data.len().is_multiple_of(PAGE) {
            true => at.next_multiple_of(PAGE),
            false => at,
        };
        out.extend(name.to_le_bytes());
        out.extend(1_u32.to_le_bytes());
        for word in [0, 0, at as u64, data.len() as u64, 0, 0, 0] {
            out.extend(word.to_le_bytes());
        }
        at += data.len();
    }
    for (index, (_, data)) in sections.iter().enumerate() {
        let header = EHDR + SHDR * (index + 1);
        let mut offset = [0; 8];
        offset.copy_from_slice(&out[header + 24..header + 32]);
        out.resize(u64::from_le_bytes(offset) as usize, 0);
        out.extend(data);
    }
    out
}
