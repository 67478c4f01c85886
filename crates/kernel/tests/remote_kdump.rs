//! Of a kdump-compressed dump that lies with another machine the RAM bitmap is not read to open it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::{Endian, ReadAt};
use bigiron_format::kdump::PageDescriptor;
use bigiron_kernel::{SECTION_FRAMES, Source};

use common::kdump_headers::headers;

/// 4 GiB of memory: 128 KiB for each bitmap.
const END: u64 = 1 << 20;
/// A page that was dumped, and one that is RAM and was not.
const DUMPED: u64 = 5;
const EXCLUDED: u64 = 7;

/// Bytes that count what is read of one range of them.
struct Counted {
    bytes: Vec<u8>,
    counted: Range<u64>,
    count: Arc<AtomicU64>,
    is_remote: bool,
}

impl ReadAt for Counted {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read_at(offset, buf)?;
        if self.counted.contains(&offset) {
            self.count.fetch_add(count as u64, Ordering::Relaxed);
        }
        Ok(count)
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn is_remote(&self) -> bool {
        self.is_remote
    }
}

/// A dump, and the place of its RAM bitmap.
fn dump() -> (Vec<u8>, Range<u64>) {
    let headers = headers(END);
    let layout = headers.layout;
    let data = layout.descriptor(1);
    let mut bytes = vec![0; data as usize + 4096];
    let mut put = |offset: u64, value: &[u8]| {
        bytes[offset as usize..offset as usize + value.len()].copy_from_slice(value);
    };
    put(0, &headers.encode());
    put(layout.ram_bitmap(), &[1 << DUMPED | 1 << EXCLUDED]);
    put(layout.dumped_bitmap(), &[1 << DUMPED]);
    let descriptor = PageDescriptor {
        offset: data,
        size: 4096,
        flags: 0,
        page_flags: 0,
    };
    put(layout.descriptor(0), &descriptor.encode(Endian::Little));
    let ram = layout.ram_bitmap()..layout.dumped_bitmap();
    (bytes, ram)
}

/// Opens the dump; returns it, and the counter of what was read of the RAM bitmap.
fn open(bytes: Vec<u8>, counted: Range<u64>, is_remote: bool) -> (Source, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Counted {
        bytes,
        counted,
        count: Arc::clone(&count),
        is_remote,
    };
    let source = Source::from_bytes(Box::new(counted), PathBuf::from("dump")).unwrap();
    (source, count)
}

#[test]
fn ram_bitmap_is_read_where_it_is_asked_for() {
    let (bytes, ram) = dump();
    let (near, count) = open(bytes.clone(), ram.clone(), false);
    assert!(count.load(Ordering::Relaxed) > 0);
    let (far, count) = open(bytes, ram, true);
    assert_eq!(count.load(Ordering::Relaxed), 0);
    let pages = |source: &Source| {
        let mut bits = Bitmap::new(SECTION_FRAMES as usize);
        source.memory().ram(PageFrame(0), &mut bits).unwrap();
        (
            bits.get(DUMPED as usize),
            bits.get(EXCLUDED as usize),
            bits.count(),
        )
    };
    assert_eq!(pages(&near), (true, true, 2));
    assert_eq!(pages(&far), (true, true, 2));
    assert!(count.load(Ordering::Relaxed) > 0);
}
