//! A kdump-compressed file may claim all memory that there can be, in holes.
//! In a file of its own, since it measures the whole process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use bigiron_format::PageFrame;
use bigiron_format::bytes::Endian;
use bigiron_format::kdump::PageDescriptor;
use bigiron_kernel::{IoMethod, SECTION_FRAMES, Source};

use common::kdump_headers::headers;

/// 4 PiB of memory: 128 GiB for each bitmap.
const END: u64 = 1 << 40;
/// Far more than any scan of holes takes; reading them would take minutes.
const TIME_LIMIT: Duration = Duration::from_secs(10);
const MEMORY_LIMIT: u64 = 16 << 20;

fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib << 10
}

#[test]
fn holes_of_a_sparse_kdump_file_take_no_time_or_memory() {
    let headers = headers(END);
    let layout = headers.layout;
    let file = tempfile::NamedTempFile::new().unwrap();
    let put = |offset, bytes: &[u8]| file.as_file().write_all_at(bytes, offset).unwrap();
    put(0, &headers.encode());
    // A few pages, of which the last ones are at the end of what is claimed.
    let frames = [
        0,
        5,
        SECTION_FRAMES * 1000 + 17,
        END / 2 + 3,
        END - 2,
        END - 1,
    ];
    let data = layout.descriptor(frames.len() as u64);
    for (index, frame) in (0..).zip(frames) {
        for bitmap in [layout.ram_bitmap(), layout.dumped_bitmap()] {
            let mut byte = [0];
            let at = bitmap + frame / 8;
            let _ = file.as_file().read_at(&mut byte, at).unwrap();
            put(at, &[byte[0] | 1 << (frame % 8)]);
        }
        let descriptor = PageDescriptor {
            offset: data + index * 4096,
            size: 4096,
            ..Default::default()
        };
        put(layout.descriptor(index), &descriptor.encode(Endian::Little));
        put(descriptor.offset, &[index as u8 + 1; 4096]);
    }

    let (begin, before) = (Instant::now(), peak_memory());
    let source = Source::open(&[file.path().to_owned()]).unwrap();
    assert_eq!(source.damage(), None);
    let memory = source.memory();
    let found: Vec<u64> = memory.sections().map(|first| first.0).collect();
    // The holes of a file system may be larger than the bitmap of one section.
    assert!(found.len() < 1000, "{} chunks", found.len());
    for frame in frames {
        assert!(found.contains(&(frame / SECTION_FRAMES * SECTION_FRAMES)));
    }
    let mut reader = memory.reader(IoMethod::Auto);
    for (index, frame) in (0..).zip(frames) {
        let page = reader.pages(PageFrame(frame), 1).unwrap();
        assert!(page == vec![index + 1; 4096], "page frame {frame:#x}");
    }
    assert!(reader.pages(PageFrame(END / 2), 1).is_err());
    assert!(begin.elapsed() < TIME_LIMIT, "{:?}", begin.elapsed());
    let taken = peak_memory() - before;
    assert!(taken < MEMORY_LIMIT, "{taken} bytes");
}
