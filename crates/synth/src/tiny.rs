//! A kernel of a few pages, made to measure: page tables, symbols, types and whatever else a
//! test puts into its memory, true or not.

use crate::btf::TinyTypes;
use crate::kallsyms;
use crate::order::ByteOrder;

/// Where the kernel's image is mapped (__START_KERNEL_map); it begins at physical address 0.
pub const IMAGE: u64 = 0xffff_ffff_8000_0000;
/// Where [`TinyKernel::alias`] shows one page.
const ALIAS: u64 = 0xffff_ff00_0000_0000;
const PAGE: usize = 4096;
/// A present and writable entry, and one that is a leaf.
const TABLE: u64 = 3;
const LARGE: u64 = 0x83;

/// The entry that points to the table in a page frame.
fn table(frame: u64) -> u64 {
    (frame * PAGE as u64) | TABLE
}

/// The memory of a kernel for x86-64 with four levels of page tables.
#[derive(Clone, Debug)]
pub struct TinyKernel {
    /// Physical memory. The page frames 1 to 6 are page tables.
    pub memory: Vec<u8>,
    /// Bytes of RAM that the core claims, of which those beyond the memory are not in it.
    pub ram: u64,
    /// Physical address of a page of a device, which is not in the core; 0 for none.
    pub device: u64,
    info: String,
}

impl Default for TinyKernel {
    fn default() -> Self {
        Self::new("6.1.0")
    }
}

impl TinyKernel {
    /// Creates a kernel of a release, of which 1 GiB of the image is mapped.
    pub fn new(release: &str) -> Self {
        let mut kernel = Self {
            memory: vec![0; 16 * PAGE],
            ram: 0,
            device: 0,
            info: format!(
                "OSRELEASE={release}\nPAGESIZE={PAGE}\nSYMBOL(swapper_pg_dir)={:x}\n\
                 NUMBER(phys_base)=0\n",
                IMAGE + PAGE as u64
            ),
        };
        kernel.entry(1, 511, table(2));
        kernel.entry(2, 510, table(3));
        for index in 0..512 {
            kernel.entry(3, index, (index as u64) << 21 | LARGE);
        }
        kernel
    }

    fn entry(&mut self, frame: usize, index: usize, value: u64) {
        let at = frame * PAGE + 8 * index;
        self.memory[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Adds lines to VMCOREINFO.
    pub fn info(&mut self, lines: &str) {
        self.info.push_str(lines);
    }

    /// Adds `bytes` to the memory, at the start of a page; returns their address.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.next();
        self.memory.resize((at - IMAGE) as usize, 0);
        self.memory.extend_from_slice(bytes);
        at
    }

    /// Adds a page with words.
    pub fn put_words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(&bytes)
    }

    /// The address of the next item.
    pub fn next(&self) -> u64 {
        IMAGE + self.memory.len().next_multiple_of(PAGE) as u64
    }

    /// Shows the page at `address` all over 512 GiB; returns the start of these.
    pub fn alias(&mut self, address: u64) -> u64 {
        let page = address - IMAGE;
        for index in 0..512 {
            self.entry(4, index, page | TABLE);
            self.entry(5, index, table(4));
            self.entry(6, index, table(5));
        }
        self.entry(1, 510, table(6));
        ALIAS
    }

    /// Adds kallsyms: the letter and name of each symbol, below 128 bytes, and its address.
    pub fn symbols(&mut self, symbols: &[(&str, u64)]) {
        for (name, bytes) in kallsyms::tables(symbols, ByteOrder::Little) {
            let address = self.put(&bytes);
            self.info(&format!("SYMBOL({name})={address:x}\n"));
        }
    }

    /// Adds types and symbols, among them those that locate the types and the image.
    pub fn names(&mut self, types: &TinyTypes, symbols: &[(&str, u64)]) {
        let bytes = types.bytes(ByteOrder::Little);
        let start = self.put(&bytes);
        let mut all = vec![
            ("D__start_BTF", start),
            ("D__stop_BTF", start + bytes.len() as u64),
            ("T_text", IMAGE),
            ("T_stext", IMAGE),
            ("B_end", IMAGE + (1 << 30)),
        ];
        all.extend(symbols);
        self.symbols(&all);
    }

    /// Returns an ELF core with this memory.
    pub fn elf(&self) -> Vec<u8> {
        let mut memory = self.memory.clone();
        memory.resize(memory.len().next_multiple_of(PAGE), 0);
        let mut note = Vec::new();
        for word in [11, self.info.len() as u32, 0] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"VMCOREINFO\0\0");
        note.extend(self.info.bytes());
        note.resize(note.len().next_multiple_of(4), 0);
        let headers = 64 + 3 * 56;
        let start = (headers + note.len()).next_multiple_of(PAGE);
        let mut out = b"\x7fELF\x02\x01\x01".to_vec();
        out.resize(16, 0);
        // Elf64_Ehdr: a core for x86-64, and its three program headers.
        out.extend([4, 0, 62, 0]);
        out.extend(1_u32.to_le_bytes());
        for word in [0_u64, 64, 0] {
            out.extend(word.to_le_bytes());
        }
        out.extend(0_u32.to_le_bytes());
        for word in [64_u16, 56, 3, 0, 0, 0] {
            out.extend(word.to_le_bytes());
        }
        // Elf64_Phdr: type, flags, offset, virtual and physical address, both sizes, alignment.
        let (note_len, len) = (note.len() as u64, memory.len() as u64);
        let ram = self.ram.max(len);
        let segments = [
            (4_u32, [headers as u64, 0, 0, note_len, note_len, 0]),
            (1, [start as u64, IMAGE, 0, len, ram, 0]),
            (
                1,
                [
                    start as u64,
                    0,
                    self.device,
                    0,
                    if self.device == 0 { 0 } else { PAGE as u64 },
                    0,
                ],
            ),
        ];
        for (kind, words) in segments {
            out.extend(kind.to_le_bytes());
            out.extend(0_u32.to_le_bytes());
            for word in words {
                out.extend(word.to_le_bytes());
            }
        }
        out.extend(note);
        out.resize(start, 0);
        out.extend(memory);
        out
    }
}
