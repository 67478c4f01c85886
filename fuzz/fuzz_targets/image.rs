//! Arbitrary bytes as headers of memory images and as memory maps: the ranges are within the
//! image, and reads never leave it.
#![no_main]

use bigiron_format::ReadAt;
use bigiron_format::image::{AvmlFile, ImageRanges, MemoryMap, lime_ranges};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let lime = [b"EMiL\x01\0\0\0", data].concat();
    if let Ok(image) = lime_ranges(&lime) {
        check(&image, lime.len() as u64);
    }
    let avml = [b"AVML\x02\0\0\0", data].concat();
    if let Ok(file) = AvmlFile::open(Box::new(avml)) {
        check(file.ranges(), file.size());
        let mut page = [0; 4096];
        for at in [0, file.size() / 2, file.size(), u64::MAX] {
            if let Ok(count) = file.read_at(at, &mut page) {
                assert!(count as u64 <= file.size().saturating_sub(at));
            }
        }
    }
    if let Ok(map) = MemoryMap::parse(data) {
        for size in [0, 4096, 1 << 20] {
            if let Ok(image) = map.place(size) {
                check(&image, size);
            }
        }
    }
});

fn check(image: &ImageRanges, size: u64) {
    for range in &image.ranges {
        assert!(range.size > 0);
        assert!(range.offset.checked_add(range.size).expect("no overflow") <= size);
        assert!(range.physical.0.checked_add(range.size).is_some());
    }
}
