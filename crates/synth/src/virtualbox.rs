//! The core of a machine that `VBoxManage debugvm dumpvmcore` writes.

use crate::machine::Machine;

const EHDR: usize = 64;
const PHDR: usize = 56;

impl Machine {
    /// Returns the core of a machine of x86-64: without any note of the kernel.
    pub fn virtualbox_core(&self) -> Vec<u8> {
        let cpus = self.spec().options.cpus;
        let mut core = Vec::new();
        for word in [0xc01a_c0de_u32, 0x0001_0006, 24, 0x0700_000e, 1, cpus] {
            core.extend(word.to_le_bytes());
        }
        let mut notes = note(b"VBCORE\0", 0xb00, &core);
        for cpu in 0..cpus {
            let registers = self.registers(cpu);
            let mut state = vec![0; 1024];
            put(&mut state, 112, &registers.pc.to_le_bytes());
            put(&mut state, 120, &registers.sp.to_le_bytes());
            put(&mut state, 128, &registers.fp.to_le_bytes());
            // The selector of the first segment, CS.
            put(&mut state, 144 + 16, &0x10_u16.to_le_bytes());
            notes.extend(note(b"VBCPU\0", 0xb01, &state));
        }

        let page = self.page_size();
        let count = self.ram().len() + 1;
        let mut headers = Vec::new();
        let at = (EHDR + count * PHDR) as u64;
        header(&mut headers, 4, at, 0, notes.len() as u64);
        let mut data = at + notes.len() as u64;
        for range in self.ram() {
            let size = (range.end - range.start) * page;
            header(&mut headers, 1, data, range.start * page, size);
            data += size;
        }
        let mut out = vec![0; EHDR];
        put(&mut out, 0, b"\x7fELF\x02\x01\x01");
        for (at, half) in [
            (16, 4_u16),
            (18, 62),
            (52, 64),
            (54, 56),
            (56, count as u16),
        ] {
            put(&mut out, at, &half.to_le_bytes());
        }
        put(&mut out, 20, &1_u32.to_le_bytes());
        put(&mut out, 32, &(EHDR as u64).to_le_bytes());
        out.extend(headers);
        out.extend(notes);
        out.extend(self.raw_image().0);
        out
    }
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

fn note(name: &[u8], kind: u32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [name.len() as u32, data.len() as u32, kind] {
        out.extend(word.to_le_bytes());
    }
    out.extend(name);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend(data);
    out
}

fn header(out: &mut Vec<u8>, kind: u32, offset: u64, physical: u64, size: u64) {
    out.extend(kind.to_le_bytes());
    out.extend(4_u32.to_le_bytes());
    for word in [offset, 0, physical, size, size, 0] {
        out.extend(word.to_le_bytes());
    }
}
