//! Arbitrary bytes as VMCOREINFO, including the layout of struct page that it describes and the
//! classification of pages by that layout.
#![no_main]

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::page::{ExcludedClasses, PageLayout};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The struct pages follow the first NUL.
    let Ok(info) = Vmcoreinfo::parse(data, 0) else {
        return;
    };
    info.page_shift();
    info.kernel_offset();
    let Ok(layout) = PageLayout::new(&info, Endian::Little) else {
        return;
    };
    assert!((32..=4096).contains(&layout.size));
    let mut structs = data.get(info.text().len()..).unwrap_or_default().to_vec();
    structs.resize(structs.len().max(2 * layout.size), 0xa5);
    let wanted = ExcludedClasses {
        cache: true,
        cache_private: true,
        user: true,
        free: true,
    };
    let pages: Vec<&[u8]> = structs.chunks_exact(layout.size).collect();
    for (frame, pair) in pages.windows(2).enumerate() {
        for second in [pair[1], &[]] {
            let verdict = layout.classify(frame as u64, pair[0], second, wanted);
            assert!(verdict.order < 64);
        }
    }
});
