//! The real vmcore in samples/.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "not all tests need all of it; a test that cannot go on should panic"
)]

use std::fs;

use bigiron_format::VirtAddr;
use bigiron_format::codec::{Codec, decompressor};
use bigiron_inspect::Program;
use bigiron_kernel::{IoMethod, Kernel, Source};

/// More than it takes: the packed files do not tell their sizes.
const ROOM: usize = 160 << 20;

/// A file of the sample, unpacked.
pub fn unpacked(name: &str) -> Vec<u8> {
    let path = format!("{}/../../samples/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut bytes = vec![0; ROOM];
    let mut zstd = decompressor(Codec::Zstd).unwrap();
    let size = zstd.decompress(&fs::read(path).unwrap(), &mut bytes);
    bytes.truncate(size.unwrap());
    bytes
}

/// The vmcore itself.
pub fn sample() -> Vec<u8> {
    unpacked("linux-6.1-5level.elf.zst")
}

/// Opens a vmcore and its kernel's names.
pub fn with_program<T>(bytes: &[u8], work: impl FnOnce(&Program) -> T) -> T {
    let source = Source::from_bytes(Box::new(bytes.to_vec()), "sample".into()).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    work(&Program::open(&kernel).unwrap())
}

/// Where in the file what is at an address lies.
pub fn offset(program: &Program, address: VirtAddr) -> usize {
    let kernel = program.kernel();
    let physical = kernel.translate(address).unwrap().unwrap().physical;
    let mut segments = kernel.source().header_segments().iter();
    let inside = |start: u64| physical.0.wrapping_sub(start);
    let segment = segments
        .find(|segment| inside(segment.physical.0) < segment.file_size)
        .unwrap();
    (segment.file_offset + inside(segment.physical.0)) as usize
}
