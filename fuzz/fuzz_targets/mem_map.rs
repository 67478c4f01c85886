//! A valid machine with modified memory: the fuzzer overwrites bytes of its dump, including
//! page tables, mem_map, struct pages and VMCOREINFO. The filter must end, and stay within its
//! section.
#![no_main]

use std::sync::LazyLock;

use bigiron_format::bitmap::Bitmap;
use bigiron_fuzz::Patched;
use bigiron_kernel::{DumpLevel, Filter, IoMethod, Kernel, SECTION_FRAMES, zones};
use bigiron_synth::{ElfShape, Synth};
use libfuzzer_sys::fuzz_target;

/// One kernel for each method of classifying pages and of finding struct pages.
const MACHINES: [&str; 3] = [
    "kernel 6.12 levels=4 kaslr=0x1e00000 vmemmap_leaf=4k
     ram 0x0-0x9f 0x100-0xfff
     pages 0x200 free order=9 ; 0x400 cache n=16 ; 0x600 thp ; 0x800 hugetlb",
    "kernel 6.1 levels=5
     ram 0x0-0x9f 0x100-0xfff
     pages 0x200 free order=9 ; 0x400 cache n=16 ; 0x600 thp ; 0x800 hugetlb",
    "kernel 6.6 levels=4 vmcoreinfo=page
     ram 0x0-0x9f 0x100-0xfff
     pages 0x200 free order=9 ; 0x400 cache n=16 ; 0x600 thp ; 0x800 hugetlb",
];

/// The dumps, and the locations of significant words in each: those that are not zero, outside
/// of pages that only have contents.
static DUMPS: LazyLock<Vec<(Vec<u8>, Vec<usize>)>> = LazyLock::new(|| {
    MACHINES
        .iter()
        .map(|text| {
            let machine = Synth::from_text(text).expect("a legal text");
            let dump = machine.elf(&ElfShape::vmcore());
            let word = |at: &usize| dump[*at..*at + 8] != [0; 8];
            let places = (0..dump.len() - 8).step_by(8).filter(word).collect();
            (dump, places)
        })
        .collect()
});

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, level], edits)) = data.split_first_chunk() else {
        return;
    };
    let (dump, places) = &DUMPS[usize::from(choice) % DUMPS.len()];
    let patches = edits.chunks_exact(12).take(64).map(|edit| {
        let (place, value) = edit.split_at(4);
        let place = u32::from_le_bytes(place.try_into().expect("4 bytes")) as usize;
        (places[place % places.len()], value.to_vec())
    });
    let dump = Patched {
        base: dump,
        patches: patches.collect(),
    };
    let Ok(source) = bigiron_fuzz::open(dump) else {
        return;
    };
    let Ok(kernel) = Kernel::find(&source, None, IoMethod::Read, 8) else {
        return;
    };
    let _ = zones::free_pages(&kernel);
    let level = DumpLevel::new(level % 32).expect("below 32");
    let Ok(filter) = Filter::new(&kernel, level) else {
        return;
    };
    let mut reader = kernel.source().reader(IoMethod::Read);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut kept = Bitmap::new(SECTION_FRAMES as usize);
    for first in bigiron_fuzz::sections(kernel.source()) {
        if let Ok(result) = filter.scan_section(reader.as_mut(), first, &mut ram, &mut kept) {
            assert!(result.kept <= result.ram && result.ram <= SECTION_FRAMES);
            assert_eq!(result.kept + result.excluded.total(), result.ram);
        }
    }
});
