//! The real vmcores in samples/.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bigiron_format::codec::{Codec, decompressor};

/// Upper limit of the unpacked size, which the packed files do not contain.
const ROOM: usize = 160 << 20;

/// The path of a file in samples/.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../samples")
        .join(name)
}

/// Unpacks the vmcore of x86-64 into `directory`.
pub fn unpack(directory: &Path) -> PathBuf {
    unpack_vmcore("linux-6.1-5level.elf.zst", directory)
}

/// Unpacks the part of a vmcore of arm64 into `directory`, by the program `xz`.
pub fn unpack_arm64(directory: &Path) -> PathBuf {
    let packed = file("linux-6.12-arm64.elf.xz");
    let unpacked = Command::new("xz").arg("-dc").arg(&packed).output();
    let unpacked = unpacked.unwrap_or_else(|error| {
        panic!("this test needs `xz` (Debian's package xz-utils): {error}")
    });
    assert!(unpacked.status.success(), "{}", packed.display());
    let path = directory.join("sample");
    fs::write(&path, unpacked.stdout).unwrap();
    path
}

fn unpack_vmcore(name: &str, directory: &Path) -> PathBuf {
    let packed = fs::read(file(name)).unwrap();
    let mut bytes = vec![0; ROOM];
    let mut zstd = decompressor(Codec::Zstd).unwrap();
    let size = zstd.decompress(&packed, &mut bytes).unwrap();
    let path = directory.join("sample");
    fs::write(&path, &bytes[..size]).unwrap();
    path
}
