//! Address translation by tables made by hand, entry by entry as the manuals of the processors
//! describe them: what no machine of `architectures.rs` has.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::path::PathBuf;

use bigiron_format::bytes::Endian;
use bigiron_format::elf::LoadSegment;
use bigiron_format::elf::write::CoreLayout;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::{PhysAddr, VirtAddr};
use bigiron_kernel::arch::{Entries, Leaf, TableEntry, Translator, find};
use bigiron_kernel::{IoMethod, KernelError, PhysicalMemory, Source};

/// Memory from address 0 on, without a kernel.
struct Memory {
    machine: &'static str,
    endian: Endian,
    bytes: Vec<u8>,
}

impl Memory {
    fn new(machine: &'static str, endian: Endian, size: usize) -> Self {
        let bytes = vec![0; size];
        Self {
            machine,
            endian,
            bytes,
        }
    }

    fn put(&mut self, order: Endian, at: usize, value: u64) {
        order.put_u64(&mut self.bytes, at, value);
    }

    /// The dump, whose headers have the machine's byte order.
    fn source(&self) -> Source {
        let size = self.bytes.len() as u64;
        let mut layout = CoreLayout {
            machine: find(self.machine).unwrap().elf_machine,
            endian: self.endian,
            notes: Vec::new(),
            segments: vec![LoadSegment {
                file_offset: 0,
                file_size: size,
                physical: PhysAddr(0),
                virt: VirtAddr(0),
                memory_size: size,
            }],
        };
        layout.place(4096).unwrap();
        let mut core = layout.encode(false);
        core.resize(layout.segments[0].file_offset as usize, 0);
        core.extend(&self.bytes);
        Source::from_bytes(Box::new(core), PathBuf::from("core")).unwrap()
    }

    /// Passes the translator for VMCOREINFO `text` to `check`.
    fn with(&self, text: &str, check: impl FnOnce(&Translation)) {
        let source = self.source();
        let memory = PhysicalMemory::new(source.memory(), IoMethod::Read, 4);
        let info = Vmcoreinfo::parse(text.as_bytes(), 0).unwrap();
        let translator = (find(self.machine).unwrap().translator)(&info, &memory).unwrap();
        check(&Translation { translator, memory });
    }

    fn error(&self, text: &str) -> KernelError {
        let source = self.source();
        let memory = PhysicalMemory::new(source.memory(), IoMethod::Read, 4);
        let info = Vmcoreinfo::parse(text.as_bytes(), 0).unwrap();
        let made = (find(self.machine).unwrap().translator)(&info, &memory);
        made.map(|_| ()).unwrap_err()
    }
}

struct Translation<'a> {
    translator: Box<dyn Translator>,
    memory: PhysicalMemory<'a>,
}

impl Translation<'_> {
    fn of(&self, address: u64) -> Option<(u64, u64)> {
        let mut entries = Entries::new(&self.memory);
        let leaf: Option<Leaf> = self
            .translator
            .walk(&mut entries, VirtAddr(address))
            .unwrap();
        leaf.map(|leaf| (leaf.physical.0, leaf.len))
    }

    fn levels(&self, address: u64) -> Vec<&'static str> {
        let mut seen = Vec::new();
        let mut visit = |entry: TableEntry| seen.push(entry.level);
        let mut entries = Entries::seen_by(&self.memory, &mut visit);
        self.translator
            .walk(&mut entries, VirtAddr(address))
            .unwrap();
        seen
    }
}

const LITTLE: Endian = Endian::Little;
const BIG: Endian = Endian::Big;

#[test]
fn riscv64_leaves_of_every_level_and_svnapot() {
    let mut memory = Memory::new("riscv64", LITTLE, 0x8000);
    let table = |at: u64| at >> 12 << 10 | 1;
    let leaf = |at: u64| at >> 12 << 10 | 0xcf;
    // The last three entries of the top table of Sv39, for 1 GiB each.
    memory.put(LITTLE, 0x1000 + 8 * 511, table(0x2000));
    memory.put(LITTLE, 0x1000 + 8 * 510, leaf(0x40_0000_0000));
    // The type of memory is in bits 62:61.
    memory.put(LITTLE, 0x2000 + 8, leaf(0x8020_0000) | 1 << 61);
    memory.put(LITTLE, 0x2000, table(0x3000));
    memory.put(LITTLE, 0x3000, leaf(0x1234_5000));
    for page in 16..32 {
        memory.put(LITTLE, 0x3000 + 8 * page, leaf(0x8010_8000) | 1 << 63);
    }
    memory.put(LITTLE, 0x3000 + 8 * 40, leaf(0x8010_4000) | 1 << 63);
    let text = "SYMBOL(swapper_pg_dir)=ffffffff80001000\nNUMBER(VA_BITS)=39\n\
        NUMBER(va_kernel_pa_offset)=0xffffffff80000000\n";
    memory.with(text, |by| {
        let base = 0xffff_ffff_c000_0000;
        assert_eq!(by.of(base + 0x123), Some((0x1234_5123, 0x1000 - 0x123)));
        assert_eq!(by.of(base + 0x1_5004), Some((0x8010_5004, 0xaffc)));
        assert_eq!(by.of(base + 40 * 0x1000), None, "no size of Svnapot");
        assert_eq!(by.of(base + 0x20_0000), Some((0x8020_0000, 0x20_0000)));
        assert_eq!(by.of(base - 1), Some((0x40_3fff_ffff, 1)));
        assert_eq!(by.of(base - 0x4000_0001), None);
        assert_eq!(by.of(base & 0x7f_ffff_ffff), None, "not canonical");
        assert_eq!(by.levels(base), ["PGD", "PMD", "PTE"]);
    });
    // Before 6.4 the root is found by the address that the kernel is linked to.
    let old = "SYMBOL(swapper_pg_dir)=ffffffff80001000\nNUMBER(VA_BITS)=39\n\
        NUMBER(KERNEL_LINK_ADDR)=0xffffffff80000000\nNUMBER(phys_ram_base)=0\n";
    memory.with(old, |by| {
        assert_eq!(
            by.of(0xffff_ffff_c000_0123),
            Some((0x1234_5123, 0x1000 - 0x123))
        );
    });
    let wrong = memory.error("SYMBOL(swapper_pg_dir)=ffffffff80001000\nNUMBER(VA_BITS)=40\n");
    assert!(wrong.to_string().contains("39, 48 or 57"), "{wrong}");
}

#[test]
fn arm64_addresses_of_52_bits_in_each_form_of_descriptor() {
    // 64 KiB pages: address bits 51:48 are in bits 15:12.
    let mut memory = Memory::new("arm64", LITTLE, 0x6_0000);
    memory.put(LITTLE, 0x1_0000 + 8 * 1023, 0x2_0000 | 3);
    memory.put(LITTLE, 0x2_0000 + 8 * 8191, 0x3_0000 | 3);
    memory.put(LITTLE, 0x2_0000 + 8 * 8190, 0x2000_0000 | 0xa000 | 1);
    memory.put(LITTLE, 0x3_0000 + 8 * 8191, 0x1234_0000 | 0xf000 | 0x703);
    memory.put(LITTLE, 0x3_0000 + 8 * 8190, 0x1234_0000 | 1);
    let text = "PAGESIZE=65536\nSYMBOL(swapper_pg_dir)=ffff800000010000\n\
        NUMBER(kimage_voffset)=0xffff800000000000\nNUMBER(VA_BITS)=52\n\
        NUMBER(TCR_EL1_T1SZ)=0x10\n";
    memory.with(text, |by| {
        assert_eq!(
            by.of(u64::MAX - 0xffff),
            Some((0xf_0000_1234_0000, 0x1_0000))
        );
        assert_eq!(
            by.of(u64::MAX - 0x1_ffff),
            None,
            "a block at the lowest level"
        );
        let block = (1 << 29) - 1;
        assert_eq!(by.of(!block - 1), Some((0xa_0000_3fff_ffff, 1)));
        // A tag in the top byte is ignored; user addresses are not the kernel's.
        assert_eq!(
            by.of(0xf0ff_ffff_ffff_0000),
            Some((0xf_0000_1234_0000, 0x1_0000))
        );
        assert_eq!(by.of(0xff7f_ffff_ffff_0000), None);
    });
    // 4 KiB pages with LPA2: bits 51:50 are in bits 9:8; without, these are the shareability.
    let mut memory = Memory::new("arm64", LITTLE, 0x8000);
    for (from, index, to) in [(1, 15, 2), (2, 511, 3), (3, 511, 4), (4, 511, 5)] {
        memory.put(LITTLE, 0x1000 * from + 8 * index, (0x1000 * to) | 3);
    }
    memory.put(LITTLE, 0x5000 + 8 * 511, 0x2_0000_1234_5000 | 0x303);
    let text = |bits: u32, unused: u32, root: u32| {
        format!(
            "PAGESIZE=4096\nSYMBOL(swapper_pg_dir)=ffff80000000{root}000\n\
             NUMBER(kimage_voffset)=0xffff800000000000\nNUMBER(VA_BITS)={bits}\n\
             NUMBER(TCR_EL1_T1SZ)=0x{unused:x}\n"
        )
    };
    memory.with(&text(52, 12, 1), |by| {
        assert_eq!(by.of(u64::MAX - 0xfff), Some((0xe_0000_1234_5000, 0x1000)));
        assert_eq!(by.levels(u64::MAX), ["PGD", "P4D", "PUD", "PMD", "PTE"]);
    });
    memory.with(&text(52, 16, 2), |by| {
        assert_eq!(by.of(u64::MAX - 0xfff), Some((0x1234_5000, 0x1000)));
        assert_eq!(by.levels(u64::MAX), ["PGD", "PUD", "PMD", "PTE"]);
    });
}

#[test]
fn s390x_tables_with_missing_quarters_and_large_pages() {
    let mut memory = Memory::new("s390x", BIG, 0x2_0000);
    // A region 3 table at 0x4000; its first entry leads to a segment table of which only the
    // second and third quarters exist.
    memory.put(BIG, 0x4000, 0x8000 | 1 << 6 | 2 | 1 << 2);
    for entry in 1..2048 {
        memory.put(BIG, 0x4000 + 8 * entry, 0x20 | 1 << 2);
    }
    memory.put(BIG, 0x4000 + 8, 0x1_8000_0000 | 0x400 | 1 << 2);
    for segment in 0..2048 {
        memory.put(BIG, 0x8000 + 8 * segment, 0x4000_0000 | 0x400);
    }
    memory.put(BIG, 0x8000 + 8 * 600, 0x1_0800);
    memory.put(BIG, 0x1_0800 + 8 * 255, 0x1234_5000 | 0x200);
    memory.put(BIG, 0x1_0800 + 8 * 254, 0x400);
    memory.with("SYMBOL(swapper_pg_dir)=4000\n", |by| {
        let at = |segment: u64| segment << 20;
        assert_eq!(by.of(at(511)), None, "in the first quarter");
        assert_eq!(by.of(at(512)), Some((0x4000_0000, 1 << 20)));
        assert_eq!(by.of(at(1536)), None, "in the last quarter");
        assert_eq!(by.of(at(601) - 1), Some((0x1234_5fff, 1)));
        assert_eq!(by.of(at(601) - 0x1001), None);
        assert_eq!(by.of(0x8000_0004), Some((0x1_8000_0004, 0x7fff_fffc)));
        assert_eq!(by.of(1 << 42), None);
        assert_eq!(by.of(0x1ff0), Some((0x1ff0, 0x10)), "the prefix area");
        assert_eq!(by.levels(at(600)), ["region 3", "segment", "page"]);
    });
    // Since 6.10 the image has addresses of its own.
    let text = "SYMBOL(swapper_pg_dir)=3ffe0004000\nKERNELOFFSET=3ffe0000000\nKERNELOFFPHYS=0\n\
        SAMODE31=2000\nEAMODE31=3000\n";
    memory.with(text, |by| {
        assert_eq!(by.of(512 << 20), Some((0x4000_0000, 1 << 20)));
        assert_eq!(by.of(0x2ffc), Some((0x2ffc, 4)));
        assert_eq!(by.of(0x3000), None);
    });
}

#[test]
fn ppc64_radix_entries_are_big_endian_in_both_byte_orders() {
    for endian in [LITTLE, BIG] {
        let mut memory = Memory::new("ppc64le", endian, 0x4_0000);
        let next = |at: u64| 1 << 63 | at | 9;
        let leaf = |at: u64| 0xc000_0000_0000_018f | at;
        memory.put(BIG, 0x1_0000, next(0x2_0000));
        memory.put(BIG, 0x2_0000, next(0x2_1000));
        memory.put(BIG, 0x2_0008, leaf(0x4000_0000));
        memory.put(BIG, 0x2_1000, next(0x2_2000));
        memory.put(BIG, 0x2_1008, leaf(0x60_0000));
        memory.put(BIG, 0x2_2000 + 8 * 31, leaf(0x1234_0000));
        memory.put(BIG, 0x1_0000 + 8 * 0x1000, next(0x2_0000));
        let text = "PAGESIZE=65536\nSYMBOL(swapper_pg_dir)=c000000000010000\nNUMBER(RADIX_MMU)=1\n";
        memory.with(text, |by| {
            let base = 0xc000_0000_0000_0000;
            assert_eq!(by.of(base + 0x1f_0010), Some((0x1234_0010, 0xfff0)));
            assert_eq!(by.of(base + 0x20_0000), Some((0x60_0000, 0x20_0000)));
            assert_eq!(by.of(base + 0x4000_0001), Some((0x4000_0001, 0x3fff_ffff)));
            assert_eq!(by.of(base + 0x1e_0000), None);
            // vmalloc, in the upper half of the tables.
            assert_eq!(
                by.of(base + (1 << 51) + 0x20_0000),
                Some((0x60_0000, 0x20_0000))
            );
            assert_eq!(by.of(base + (1 << 52)), None);
            assert_eq!(by.of(0xd000_0000_0020_0000), None);
            assert_eq!(by.levels(base + 0x1f_0000), ["PGD", "PUD", "PMD", "PTE"]);
        });
    }
}

#[test]
fn ppc64_hash_finds_struct_pages_by_the_list_and_vmalloc_by_tables() {
    let base = 0xc000_0000_0000_0000_u64;
    for endian in [LITTLE, BIG] {
        let mut memory = Memory::new("ppc64le", endian, 0x4_0000);
        // vmemmap_list at 0x100: two entries of {list, phys, virt_addr}.
        memory.put(endian, 0x100, base + 0x200);
        let vmemmap = base + (3 << 50);
        for (at, words) in [
            (0x200, [base + 0x300, 0x100_0000, vmemmap + 0x100_0000]),
            (0x300, [0, 0x500_0000, vmemmap]),
        ] {
            for (index, word) in words.into_iter().enumerate() {
                memory.put(endian, at + 8 * index, word);
            }
        }
        // mmu_vmemmap_psize is 2; mmu_psize_defs[2].shift is 24.
        endian.put_u32(&mut memory.bytes, 0x400, 2);
        endian.put_u32(&mut memory.bytes, 0x500 + 2 * 48, 24);
        memory.put(BIG, 0x1_0000 + 8 * 128, 0x2_0000);
        memory.put(BIG, 0x2_0000, 0x2_2000);
        memory.put(BIG, 0x2_2000, 0x2_4000);
        memory.put(BIG, 0x2_4000 + 8 * 7, 0xc000_0000_1234_018e);
        let text = "PAGESIZE=65536\nSYMBOL(swapper_pg_dir)=c000000000010000\nNUMBER(RADIX_MMU)=0\n\
            SYMBOL(vmemmap_list)=c000000000000100\nOFFSET(vmemmap_backing.list)=0\n\
            OFFSET(vmemmap_backing.phys)=8\nOFFSET(vmemmap_backing.virt_addr)=16\n\
            SYMBOL(mmu_vmemmap_psize)=c000000000000400\nSYMBOL(mmu_psize_defs)=c000000000000500\n\
            SIZE(mmu_psize_def)=48\nOFFSET(mmu_psize_def.shift)=0\n";
        memory.with(text, |by| {
            assert_eq!(by.of(vmemmap + 0x10), Some((0x500_0010, 0xff_fff0)));
            assert_eq!(by.of(vmemmap + 0x1ff_ffff), Some((0x1ff_ffff, 1)));
            assert_eq!(by.of(vmemmap + 0x200_0000), None);
            assert_eq!(by.of(base + 0x3_0004).map(|found| found.0), Some(0x3_0004));
            assert_eq!(
                by.of(base + (1 << 51) + 0x7_0008),
                Some((0x1234_0008, 0xfff8))
            );
            assert_eq!(by.of(base + (1 << 51) + 0x8_0000), None);
            // Regions of their own before 5.2.
            assert_eq!(by.of(0xf000_0000_0000_0000), None);
        });
        // A list that leads back to itself.
        memory.put(endian, 0x300, base + 0x200);
        let error = memory.error(text).to_string();
        assert!(error.contains("vmemmap_list"), "{error}");
    }
}

#[test]
fn ppc64_without_a_key_is_told_by_the_features_of_the_cpu() {
    let mut memory = Memory::new("ppc64le", LITTLE, 0x4_0000);
    memory.put(LITTLE, 0x100, 0xc000_0000_0000_0200);
    memory.put(BIG, 0x1_0000, 0xc000_0080_0000_018f);
    let text = "PAGESIZE=65536\nSYMBOL(swapper_pg_dir)=c000000000010000\n\
        SYMBOL(cur_cpu_spec)=c000000000000100\nOFFSET(cpu_spec.mmu_features)=24\n";
    for (features, mapped) in [(0x40, Some(0x80_0000_0000)), (0, Some(0))] {
        memory.put(LITTLE, 0x200 + 24, features);
        memory.with(text, |by| {
            let found = by.of(0xc000_0000_0000_0000).map(|found| found.0);
            assert_eq!(found, mapped, "{features:#x}");
        });
    }
}

#[test]
fn loongarch64_windows_and_tables_of_each_page_size() {
    let window = 0x9000_0000_0000_0000_u64;
    // 16 KiB pages, three levels of 11 bits.
    let mut memory = Memory::new("loongarch64", LITTLE, 0x2_0000);
    let tables = [(0x4000, 0x8000), (0x8000, 0xc000)];
    for (from, to) in tables {
        for index in 0..2048 {
            memory.put(LITTLE, from + 8 * index, window + to);
        }
    }
    memory.put(LITTLE, 0xc000 + 8 * 3, 0x1234_4000 | 0x181);
    memory.put(LITTLE, 0xc000 + 8 * 4, 0x1234_4000 | 0x100);
    memory.put(LITTLE, 0x8000 + 8 * 9, 0x4000_0000 | 0x1c1);
    let text = "PAGESIZE=16384\nSYMBOL(swapper_pg_dir)=9000000000004000\n";
    memory.with(text, |by| {
        let base = 0xffff_8000_0000_0000;
        assert_eq!(by.of(window + 0x1234).map(|found| found.0), Some(0x1234));
        assert_eq!(
            by.of(0x8000_0000_0000_5678).map(|found| found.0),
            Some(0x5678)
        );
        assert_eq!(by.of(base + 0xc010), Some((0x1234_4010, 0x3ff0)));
        assert_eq!(by.of(base + 0x1_0000), None);
        assert_eq!(by.of(base + (9 << 25) + 1), Some((0x4000_0001, 0x1ff_ffff)));
        assert_eq!(by.of(0xc000_0000_0000_0000), None);
        assert_eq!(by.levels(base), ["PGD", "PMD", "PTE"]);
    });
    // 4 KiB pages and four levels, in the same memory.
    let mut memory = Memory::new("loongarch64", LITTLE, 0x2_0000);
    for (from, to) in [(0x1000, 0x2000), (0x2000, 0x3000), (0x3000, 0x4000)] {
        memory.put(LITTLE, from, window + to);
    }
    memory.put(LITTLE, 0x1000 + 8 * 256, window + 0x2000);
    memory.put(LITTLE, 0x4000, 0x5000 | 0x181);
    let text = "PAGESIZE=4096\nSYMBOL(swapper_pg_dir)=9000000000001000\n";
    memory.with(text, |by| {
        assert_eq!(by.of(0xffff_8000_0000_0008), Some((0x5008, 0xff8)));
        assert_eq!(by.levels(0xffff_8000_0000_0000).len(), 4);
    });
}
