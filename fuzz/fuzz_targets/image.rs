//! Arbitrary bytes as headers of memory images, migration streams, saved states and cores of Xen
//! guests, and as memory maps: the ranges are within the image, and reads never leave it.
#![no_main]

use bigiron_format::ReadAt;
use bigiron_format::image::{AvmlFile, ImageRanges, MemoryMap, lime_ranges};
use bigiron_format::migration::MigrationFile;
use bigiron_format::vmware::VmwareState;
use bigiron_format::xen_core::XenCore;
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
    for front in [
        &b"QEVM\0\0\0\x03"[..],
        b"LibvirtQemudSave\x02\0\0\0\0\0\0\0",
    ] {
        if let Ok(file) = MigrationFile::open(Box::new([front, data].concat())) {
            check(file.ranges(), file.size());
            let mut pages = [0; 3 * 4096];
            for range in file.ranges().ranges.iter().take(100) {
                let len = range.size.min(pages.len() as u64) as usize;
                let read = file.read_at(range.offset, &mut pages[..len]);
                assert_eq!(read.expect("no error in memory"), len);
            }
        }
    }
    let state = [b"\xd2\xbe\xd2\xbe", data].concat();
    if let Ok(state) = VmwareState::read(&state) {
        for vmem in [None, Some(0), Some(1 << 20)] {
            if let Ok(Some(image)) = state.ranges(vmem) {
                check(&image, u64::MAX);
            }
        }
        let _ = state.notes();
    }
    if let Ok(core) = XenCore::read(&data.to_vec()) {
        check(&core.ranges, data.len() as u64);
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
        // The page that the end cuts belongs to the range.
        let end = range.offset.checked_add(range.size).expect("no overflow");
        assert!(range.offset < size && end - size.min(end) <= 64 << 10);
        assert!(range.physical.0.checked_add(range.size).is_some());
    }
}
