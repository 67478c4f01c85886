//! The real vmcore in samples/.

use std::fs;
use std::path::{Path, PathBuf};

use bigiron_format::codec::{Codec, decompressor};

/// Upper limit of the unpacked size, which the packed file does not contain.
const ROOM: usize = 160 << 20;

/// Unpacks it into `directory`.
pub fn unpack(directory: &Path) -> PathBuf {
    let packed = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../samples/linux-6.1-5level.elf.zst"
    );
    let packed = fs::read(packed).unwrap();
    let mut bytes = vec![0; ROOM];
    let mut zstd = decompressor(Codec::Zstd).unwrap();
    let size = zstd.decompress(&packed, &mut bytes).unwrap();
    let path = directory.join("sample");
    fs::write(&path, &bytes[..size]).unwrap();
    path
}
