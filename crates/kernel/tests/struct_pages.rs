//! What every page frame is used for, against the filter, which is judged by
//! others, and machines whose every page is known.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::BTreeMap;
use std::io::Write;

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_kernel::mem_map::MemMap;
use bigiron_kernel::page::{KindBits, PageClass, PageKind, PageLayout};
use bigiron_kernel::struct_pages::StructPages;
use bigiron_kernel::{DumpLevel, ExcludedCounts, Filter, IoMethod, Kernel, SECTION_FRAMES, Source};
use bigiron_synth::{ElfShape, Machine, Synth, presets, random_machine};

/// Calls `work` with the kernel of a machine.
fn with_kernel(machine: &Machine, work: impl FnOnce(&Kernel)) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&machine.elf(&ElfShape::vmcore())).unwrap();
    let source = Source::open(&[file.path().to_owned()]).unwrap();
    work(&Kernel::find(&source, None, IoMethod::Read, 16).unwrap());
}

/// What each page frame of RAM is, by its struct page.
fn kinds(kernel: &Kernel) -> BTreeMap<u64, PageKind> {
    let layout = PageLayout::new(kernel.info(), kernel.source().endian()).unwrap();
    let map = MemMap::find(kernel).unwrap();
    let mut pages = StructPages::new(kernel, &map, &layout, KindBits::default());
    let mut reader = kernel.source().reader(IoMethod::Read);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut found = BTreeMap::new();
    for first in kernel.source().sections() {
        kernel.source().ram(first, &mut ram).unwrap();
        let mut behind = first.0;
        let mut see = |frame: PageFrame, frames: u64, kind: PageKind, page: &[u8]| {
            assert!(frame.0 >= behind, "{frame:?} comes twice");
            assert!(frames > 0 && !page.is_empty());
            behind = frame.0 + frames;
            assert!(behind <= first.0 + SECTION_FRAMES, "beyond the section");
            let inside = (frame.0..behind).filter(|at| ram.get((at - first.0) as usize));
            found.extend(inside.map(|at| (at, kind)));
        };
        pages
            .visit_section(reader.as_mut(), first, &mut see)
            .unwrap();
    }
    found
}

/// The filter's counts where all is left out but zero pages.
fn excluded(kernel: &Kernel) -> ExcludedCounts {
    let filter = Filter::new(kernel, DumpLevel::new(30).unwrap()).unwrap();
    let mut reader = kernel.source().reader(IoMethod::Read);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut kept = Bitmap::new(SECTION_FRAMES as usize);
    let mut counts = ExcludedCounts::default();
    for first in kernel.source().sections() {
        let result = filter.scan_section(reader.as_mut(), first, &mut ram, &mut kept);
        counts.add(&result.unwrap().excluded);
    }
    counts
}

#[test]
fn classes_agree_with_the_filter_on_every_kernel() {
    for preset in presets() {
        for seed in 0..3 {
            let text = random_machine(seed, preset);
            let machine = Synth::from_text(&text).unwrap();
            with_kernel(&machine, |kernel| {
                let kinds = kinds(kernel);
                let count = |class| {
                    let of_class = kinds
                        .values()
                        .filter(|kind| **kind == PageKind::Class(class));
                    of_class.count() as u64
                };
                let ours = ExcludedCounts {
                    cache: count(PageClass::Cache),
                    cache_private: count(PageClass::CachePrivate),
                    user: count(PageClass::User),
                    free: count(PageClass::Free),
                    unaccepted: count(PageClass::Unaccepted),
                    hw_poison: count(PageClass::HwPoison),
                    offline: count(PageClass::Offline),
                    ..ExcludedCounts::default()
                };
                assert_eq!(ours, excluded(kernel), "{preset}, seed {seed}\n{text}");
            });
        }
    }
}

#[test]
fn slab_pages_are_distinguished_from_other_kernel_memory() {
    let text = "kernel 6.12\nram 0x0-0x9f 0x100-0x1fff\n\
        pages 0x200 free order=9 ; 0x500 slab n=32 ; 0xa00 slab order=2 n=3 ; 0x800 hugetlb order=9\n";
    let machine = Synth::from_text(text).unwrap();
    with_kernel(&machine, |kernel| {
        for (frame, kind) in kinds(kernel) {
            let is_slab = machine.class(frame) == Some("slab");
            assert_eq!(
                kind == PageKind::Slab,
                is_slab,
                "frame {frame:#x} is {kind:?}"
            );
        }
    });
}
