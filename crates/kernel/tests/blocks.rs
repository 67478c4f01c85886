//! The filter decides about 64 struct pages at once; one by one it must come to
//! the same, whatever is in the struct pages.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::io::Write;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::filter::SectionResult;
use bigiron_kernel::{DumpLevel, Filter, IoMethod, Kernel, SECTION_FRAMES, Source};
use bigiron_synth::{ElfShape, Machine, Synth, presets, random_machine};
use proptest::prelude::*;

/// Bytes of a struct page of all presets.
const SIZE: usize = 64;

/// The struct pages of a machine: physical address and bytes, in order.
fn struct_pages(machine: &Machine) -> Vec<(u64, [u8; SIZE])> {
    let frames = 0..machine.max_pfn();
    frames
        .filter_map(|frame| {
            let address = machine.struct_page(frame)?;
            let bytes = machine.read(address, SIZE)?;
            Some((address, bytes.try_into().unwrap()))
        })
        .collect()
}

/// Random numbers that are the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// What the kernel says of its struct pages, to make up others that mean something.
struct Words {
    flags: Vec<u64>,
    types: Vec<u32>,
    offsets: [usize; 5],
}

impl Words {
    fn new(info: &Vmcoreinfo) -> Self {
        let offset = |name| info.offset(name);
        let bits = [
            "lru",
            "private",
            "swapcache",
            "swapbacked",
            "slab",
            "hwpoison",
        ];
        let flag = |name: &str| info.number(&format!("PG_{name}")).map(|bit| 1 << bit);
        let mut flags: Vec<u64> = bits.into_iter().filter_map(flag).collect();
        flags.extend(info.number("PG_head_mask").map(i64::cast_unsigned));
        let names = ["SLAB", "BUDDY", "OFFLINE", "UNACCEPTED", "HUGETLB"];
        let value = |name: &str| info.number(&format!("PAGE_{name}_MAPCOUNT_VALUE"));
        let mut types: Vec<u32> = names
            .iter()
            .filter_map(|n| value(n))
            .map(|n| n as u32)
            .collect();
        types.extend([0, 1, u32::MAX]);
        let head = offset("page.compound_head").or(offset("page.compound_info"));
        Self {
            flags,
            types,
            offsets: [
                offset("page.flags").unwrap(),
                offset("page.mapping").unwrap(),
                offset("page._mapcount").unwrap(),
                offset("page.private").unwrap(),
                head.unwrap(),
            ],
        }
    }

    /// Makes a struct page that means something, or nothing.
    fn random(&self, random: &mut Random) -> [u8; SIZE] {
        let mut page = [0; SIZE];
        if random.below(8) == 0 {
            page.as_chunks_mut()
                .0
                .iter_mut()
                .for_each(|word| *word = random.next().to_le_bytes());
        }
        let [flags, mapping, mapcount, private, head] = self.offsets;
        let mut set = |offset: usize, bytes: &[u8]| {
            page[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        let few = random.next() & random.next();
        let chosen = self
            .flags
            .iter()
            .enumerate()
            .filter(|(bit, _)| few >> bit & 1 == 1);
        let chosen = chosen.fold(0, |all, (_, flag)| all | flag);
        // The low byte is the order where this is a second struct page.
        let order = if random.below(2) == 0 {
            random.below(13) as u64
        } else {
            0
        };
        set(flags, &(chosen | order).to_le_bytes());
        let anonymous = random.pick(&[0, 0xffff_8880_0000_1000_u64, 0xffff_8880_0000_1001]);
        set(mapping, &anonymous.to_le_bytes());
        set(mapcount, &random.pick(&self.types).to_le_bytes());
        set(
            private,
            &random
                .pick(&[0_u64, 0, 1, 2, 3, 5, 9, 10, 11, 64, u64::MAX])
                .to_le_bytes(),
        );
        if random.below(4) > 0 {
            let tail = u64::from(random.below(6) == 0);
            set(head, &(0xffff_ea00_0000_0000 | tail).to_le_bytes());
        }
        page
    }
}

/// Everything that the filter decides, section by section.
fn decide(kernel: &Kernel, level: u8, exact_only: bool) -> Vec<(SectionResult, Bitmap)> {
    let mut filter = Filter::new(kernel, DumpLevel::new(level).unwrap()).unwrap();
    if exact_only {
        filter.exact_only();
    }
    let mut reader = kernel.source().reader(IoMethod::Read);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut kept = Bitmap::new(SECTION_FRAMES as usize);
    let mut all = Vec::new();
    for first in kernel.source().sections() {
        let result = filter.scan_section(reader.as_mut(), first, &mut ram, &mut kept);
        all.push((result.unwrap(), kept.clone()));
    }
    all
}

/// Puts a share of `in_256` of the struct pages at random in place of the machine's.
fn scramble(machine: &mut Machine, info: &Vmcoreinfo, random: &mut Random, in_256: usize) {
    let words = Words::new(info);
    for (address, own) in struct_pages(machine) {
        let page = match random.below(256) {
            draw if draw < in_256 => words.random(random),
            _ => own,
        };
        machine.write(address, &page).unwrap();
    }
}

fn open(machine: &Machine) -> (tempfile::NamedTempFile, Source) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&machine.elf(&ElfShape::vmcore())).unwrap();
    let source = Source::open(&[file.path().to_owned()]).unwrap();
    (file, source)
}

/// The text of VMCOREINFO with what `change` makes of each line.
fn change_info(machine: &Machine, change: impl Fn(&str) -> String) -> Vmcoreinfo {
    let text: String = machine
        .vmcoreinfo()
        .lines()
        .map(|line| change(line) + "\n")
        .collect();
    Vmcoreinfo::parse(text.as_bytes(), 0).unwrap()
}

fn assert_same(source: &Source, info: Option<Vmcoreinfo>, what: &str) {
    let kernel = Kernel::find(source, info, IoMethod::Read, 64).unwrap();
    for level in 0..=31 {
        let (blocks, exact) = (decide(&kernel, level, false), decide(&kernel, level, true));
        for ((blocks, kept), (exact, expected)) in blocks.iter().zip(&exact) {
            assert_eq!(blocks, exact, "{what}, level {level}");
            let frame = (0..kept.len()).find(|bit| kept.get(*bit) != expected.get(*bit));
            assert_eq!(frame, None, "{what}, level {level}");
        }
        assert_eq!(blocks.len(), exact.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn blocks_agree_with_single_pages_for_any_struct_pages(
        seed: u64,
        preset in proptest::sample::select(presets()),
        in_256 in proptest::sample::select(vec![0, 1, 8, 64, 256]),
    ) {
        let mut machine = Synth::from_text(&random_machine(seed, preset)).unwrap();
        let info = change_info(&machine, str::to_owned);
        scramble(&mut machine, &info, &mut Random(seed), in_256);
        let (_file, source) = open(&machine);
        assert_same(&source, None, &format!("{preset}, seed {seed}, {in_256} in 256"));
    }
}

/// Layouts that blocks are not made for must not be taken for ones that they are.
#[test]
fn blocks_agree_with_single_pages_in_other_layouts() {
    for preset in ["5.4", "6.12"] {
        let mut machine = Synth::from_text(&random_machine(5, preset)).unwrap();
        let info = change_info(&machine, str::to_owned);
        scramble(&mut machine, &info, &mut Random(5), 32);
        let (_file, source) = open(&machine);
        let changes = [
            ("SIZE(page)=64", "SIZE(page)=56"),
            ("SIZE(page)=64", "SIZE(page)=80"),
            ("SIZE(page)=64", "SIZE(page)=128"),
            ("OFFSET(page.mapping)=24", "OFFSET(page.mapping)=20"),
            ("OFFSET(page._mapcount)=48", "OFFSET(page._mapcount)=50"),
            ("OFFSET(page._mapcount)=48", "OFFSET(page._mapcount)=52"),
            ("OFFSET(page.flags)=0", "OFFSET(page.flags)=8"),
            ("NUMBER(PG_lru)=4", "NUMBER(PG_lru)=40"),
            ("NUMBER(PG_lru)=5", "NUMBER(PG_lru)=30"),
        ];
        for (from, to) in changes {
            let changed = change_info(&machine, |line| match line {
                line if line == from => to.to_owned(),
                line => line.to_owned(),
            });
            assert_same(&source, Some(changed), &format!("{preset}, {to}"));
        }
    }
}
