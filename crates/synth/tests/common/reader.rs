//! A short reader of VMCOREINFO, the page tables and mem_section, written independently of the
//! builder.

use std::collections::HashMap;

use bigiron_synth::{ByteOrder, Machine};

use super::walk;

/// Physical memory: returns `len` bytes at an address.
pub type Memory<'a> = dyn Fn(u64, usize) -> Option<Vec<u8>> + 'a;

pub struct Reader<'a> {
    memory: Box<Memory<'a>>,
    big: bool,
    /// utsname.machine.
    pub arch: String,
    pub info: HashMap<String, String>,
}

impl<'a> Reader<'a> {
    pub fn new(machine: &'a Machine) -> Self {
        Self::of(
            Box::new(|paddr, len| machine.read(paddr, len)),
            machine.order() == ByteOrder::Big,
            machine.spec().platform.machine(),
            &machine.vmcoreinfo(),
        )
    }

    pub fn of(memory: Box<Memory<'a>>, big: bool, arch: &str, info: &str) -> Self {
        let pairs = info.lines().filter_map(|line| line.split_once('='));
        let own = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Self {
            memory,
            big,
            arch: arch.to_owned(),
            info: pairs.map(own).collect(),
        }
    }

    pub fn decimal(&self, key: &str) -> i64 {
        self.info[key].parse().unwrap_or_else(|_| panic!("{key}"))
    }

    pub fn offset(&self, key: &str) -> u64 {
        self.decimal(key) as u64
    }

    /// Returns a NUMBER, decimal or hexadecimal with prefix.
    pub fn number(&self, name: &str) -> Option<u64> {
        let value = self.info.get(&format!("NUMBER({name})"))?;
        Some(match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
            None => value.parse::<i64>().unwrap() as u64,
        })
    }

    /// Returns a value in hexadecimal without prefix.
    pub fn hex(&self, key: &str) -> Option<u64> {
        Some(u64::from_str_radix(self.info.get(key)?, 16).unwrap())
    }

    pub fn symbol(&self, name: &str) -> u64 {
        self.hex(&format!("SYMBOL({name})")).expect(name)
    }

    pub fn page_size(&self) -> u64 {
        self.offset("PAGESIZE")
    }

    /// Returns the word at a physical address, as the kernel stores it.
    pub fn phys(&self, paddr: u64) -> u64 {
        self.entry(paddr, self.big).expect("RAM")
    }

    /// Returns a word of four bytes.
    pub fn phys32(&self, paddr: u64) -> u32 {
        let bytes = (self.memory)(paddr, 4).expect("RAM").try_into().unwrap();
        if self.big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    pub fn byte(&self, paddr: u64) -> u8 {
        (self.memory)(paddr, 1).expect("RAM")[0]
    }

    pub fn entry(&self, paddr: u64, big: bool) -> Option<u64> {
        let bytes = (self.memory)(paddr, 8)?.try_into().unwrap();
        Some(if big {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_le_bytes(bytes)
        })
    }

    /// Translates an address by the page tables, and by what the architecture has besides.
    pub fn translate(&self, vaddr: u64) -> Option<u64> {
        match self.arch.as_str() {
            "x86_64" => walk::x86_64(self, vaddr),
            "aarch64" => walk::arm64(self, vaddr),
            "s390x" => walk::s390x(self, vaddr),
            "riscv64" => walk::riscv64(self, vaddr),
            "loongarch64" => walk::loongarch64(self, vaddr),
            _ => walk::ppc64(self, vaddr),
        }
    }

    pub fn virt(&self, vaddr: u64) -> u64 {
        let paddr = self.translate(vaddr);
        self.phys(paddr.unwrap_or_else(|| panic!("{vaddr:#x} is not mapped")))
    }

    /// Returns SECTION_SIZE_BITS, which older kernels do not tell.
    fn section_size_bits(&self) -> u64 {
        if let Some(bits) = self.number("SECTION_SIZE_BITS") {
            return bits;
        }
        match self.arch.as_str() {
            "aarch64" => 30,
            "s390x" => 28,
            "ppc64le" | "ppc64" => 24,
            "loongarch64" => 29,
            _ => 27,
        }
    }

    /// Returns the virtual address of a frame's struct page, by mem_section.
    pub fn struct_page(&self, pfn: u64) -> Option<u64> {
        let size = self.offset("SIZE(mem_section)");
        let per_root = self.page_size() / size;
        let section = (pfn * self.page_size()) >> self.section_size_bits();
        assert!(section / per_root < self.offset("LENGTH(mem_section)"));
        let root = self.virt(self.symbol("mem_section") + section / per_root * 8);
        if root == 0 {
            return None;
        }
        let coded = self.virt(root + section % per_root * size);
        (coded & 2 != 0).then(|| (coded & !0x1f).wrapping_add(pfn * 64))
    }
}
