//! The host's /proc/vmcore.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::spec::XenHost;
use crate::elf::{EHDR, EM_X86_64, PHDR, PT_LOAD, PT_NOTE, put_ehdr, put_phdr};
use crate::notes::Notes;
use crate::order::ByteOrder;
use crate::shape::ElfShape;

const PAGE: usize = 4096;
/// Where kexec-tools says that Linux maps memory, which is wrong for a host.
const PAGE_OFFSET: u64 = 0xffff_8880_0000_0000;

impl XenHost {
    /// Returns the ELF core, in the layout of /proc/vmcore.
    pub fn elf(&self) -> Vec<u8> {
        let mut bytes = self.headers();
        for frame in self.spec.ram.iter().cloned().flatten() {
            bytes.extend_from_slice(&self.page(frame));
        }
        bytes
    }

    /// Writes the ELF core of a host with `fill=zero` into an empty file, with a hole for each page
    /// without contents.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_sparse(&self, file: &File) -> io::Result<()> {
        let headers = self.headers();
        let mut places = Vec::new();
        let mut at = headers.len() as u64;
        for range in &self.spec.ram {
            places.push((range.clone(), at));
            at += (range.end - range.start) * PAGE as u64;
        }
        file.set_len(at)?;
        file.write_all_at(&headers, 0)?;
        let mut frames: Vec<u64> = self.memory.frames().collect();
        frames.sort_unstable();
        for frame in frames {
            let place = places.iter().find(|(range, _)| range.contains(&frame));
            let page = self.page(frame);
            if let Some((range, at)) = place
                && page.iter().any(|byte| *byte != 0)
            {
                file.write_all_at(&page, at + (frame - range.start) * PAGE as u64)?;
            }
        }
        Ok(())
    }

    /// Returns everything before the first page.
    fn headers(&self) -> Vec<u8> {
        let order = ByteOrder::Little;
        let notes = self.notes().bytes;
        let phnum = self.spec.ram.len() + 1;
        let notes_at = (EHDR + phnum * PHDR).next_multiple_of(PAGE);
        let mut at = (notes_at + notes.len()).next_multiple_of(PAGE);
        let mut bytes = vec![0; at];
        bytes[notes_at..notes_at + notes.len()].copy_from_slice(&notes);
        let noted = notes_at..notes_at + notes.len();
        put_phdr(order, &mut bytes[EHDR..], PT_NOTE, &noted, 0, 0);
        for (index, range) in self.spec.ram.iter().enumerate() {
            let size = (range.end - range.start) as usize * PAGE;
            let (header, address) = (EHDR + (index + 1) * PHDR, range.start * PAGE as u64);
            let data = at..at + size;
            let virt = PAGE_OFFSET + address;
            put_phdr(order, &mut bytes[header..], PT_LOAD, &data, virt, address);
            at += size;
        }
        order.put16(&mut bytes, 18, EM_X86_64);
        let shape = ElfShape::vmcore();
        put_ehdr(order, &mut bytes, &shape, EHDR, phnum, &(0..0));
        bytes
    }

    /// The notes that the hypervisor writes (crash.c and kexec.c in xen/).
    fn notes(&self) -> Notes {
        let mut notes = Notes::new(ByteOrder::Little);
        for (cpu, saved) in self.registers.iter().enumerate() {
            let mut registers = vec![0; 336];
            for (position, value) in saved {
                registers[112 + position * 8..][..8].copy_from_slice(&value.to_le_bytes());
            }
            notes.push("CORE", 1, &registers);
            notes.push("Xen", 0x0100_0002, &[0x33; 32]);
            if cpu == 0 {
                let words = self.crash_info.iter().flat_map(|word| word.to_le_bytes());
                notes.push("Xen", 0x0100_0001, &words.collect::<Vec<_>>());
            }
        }
        if self.spec.vmcoreinfo {
            let mut text = self.vmcoreinfo.clone().into_bytes();
            text.resize(PAGE - 28, 0);
            notes.push("VMCOREINFO_XEN", 0, &text);
        }
        notes
    }
}
