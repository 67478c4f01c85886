//! A kdump-compressed or flattened dump with sound headers and arbitrary bitmaps and page
//! descriptors: each page that is read is the one that a simple reader finds, and no more is
//! read and allocated than is in proportion to the dump.
#![no_main]

use bigiron_format::PageFrame;
use bigiron_fuzz::choices::Choices;
use bigiron_fuzz::limits::{DUMP_MEMORY, within};
use bigiron_fuzz::naive_kdump::{NaiveKdump, unflatten};
use bigiron_fuzz::{made_kdump, open};
use bigiron_kernel::IoMethod;
use libfuzzer_sys::fuzz_target;

/// Larger than a dump that the target makes, unless a record lies behind a hole.
const MOST: usize = 4 << 20;

fuzz_target!(|data: &[u8]| {
    let file = made_kdump::encode(&mut Choices(data));
    let Some(dump) = unflatten(&file, MOST) else {
        return;
    };
    within(DUMP_MEMORY, file.len(), || {
        let Ok(source) = open(file.clone()) else {
            return;
        };
        if !dump.starts_with(b"KDUMP   ") || dump.len() < 2 * 4096 {
            return;
        }
        let naive = NaiveKdump::read(&dump);
        let mut reader = source.memory().reader(IoMethod::Read);
        for frame in 0..naive.end_frame.min(1 << 10) {
            let Ok(page) = reader.pages(PageFrame(frame), 1) else {
                continue;
            };
            match naive.page(frame) {
                Some(expected) => assert!(page == expected, "page frame {frame:#x} differs"),
                // What was excluded may be read as zeros.
                None => assert!(
                    page.iter().all(|byte| *byte == 0),
                    "page frame {frame:#x} is not in the dump: {:x?}",
                    naive.descriptor(frame)
                ),
            }
        }
    });
});
