//! A short reader of VMCOREINFO, the page tables and mem_section, written independently of the
//! builder.

use std::collections::HashMap;

use bigiron_synth::Machine;

pub struct Reader<'a> {
    pub machine: &'a Machine,
    pub info: HashMap<String, String>,
}

impl<'a> Reader<'a> {
    pub fn new(machine: &'a Machine) -> Self {
        let info = machine.vmcoreinfo();
        let pairs = info.lines().filter_map(|line| line.split_once('='));
        let own = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Self {
            machine,
            info: pairs.map(own).collect(),
        }
    }

    pub fn decimal(&self, key: &str) -> i64 {
        self.info[key].parse().unwrap_or_else(|_| panic!("{key}"))
    }

    pub fn offset(&self, key: &str) -> u64 {
        self.decimal(key) as u64
    }

    pub fn symbol(&self, name: &str) -> u64 {
        u64::from_str_radix(&self.info[&format!("SYMBOL({name})")], 16).unwrap()
    }

    pub fn phys(&self, paddr: u64) -> u64 {
        let bytes = self.machine.read(paddr, 8).expect("RAM");
        u64::from_le_bytes(bytes.try_into().unwrap())
    }

    /// Translates an address by the page tables.
    pub fn translate(&self, vaddr: u64) -> Option<u64> {
        let base = self.decimal("NUMBER(phys_base)");
        let sme = match self.info.get("NUMBER(sme_mask)") {
            Some(mask) => mask.parse::<i64>().unwrap() as u64,
            None => 0,
        };
        let mut table =
            (self.symbol("swapper_pg_dir") - 0xffff_ffff_8000_0000).wrapping_add_signed(base);
        let five = self.decimal("NUMBER(pgtable_l5_enabled)") == 1;
        for shift in [48, 39, 30, 21, 12].iter().skip(usize::from(!five)) {
            let entry = self.phys(table + ((vaddr >> shift) % 512) * 8);
            if entry & 1 == 0 {
                return None;
            }
            let mask = (1 << shift) - 1;
            let target = entry & 0x000f_ffff_ffff_f000 & !sme;
            if *shift == 12 || (entry & 0x80 != 0 && *shift < 39) {
                return Some((target & !mask) | (vaddr & mask));
            }
            table = target;
        }
        None
    }

    pub fn virt(&self, vaddr: u64) -> u64 {
        let paddr = self.translate(vaddr);
        self.phys(paddr.unwrap_or_else(|| panic!("{vaddr:#x} is not mapped")))
    }

    /// Returns the virtual address of a frame's struct page, by mem_section.
    pub fn struct_page(&self, pfn: u64) -> Option<u64> {
        let size = self.offset("SIZE(mem_section)");
        let per_root = 4096 / size;
        let section = pfn >> (27 - 12);
        assert!(section / per_root < self.offset("LENGTH(mem_section)"));
        let root = self.virt(self.symbol("mem_section") + section / per_root * 8);
        if root == 0 {
            return None;
        }
        let coded = self.virt(root + section % per_root * size);
        (coded & 2 != 0).then(|| (coded & !0x1f) + pfn * 64)
    }
}
