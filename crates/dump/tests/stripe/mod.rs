//! Shared code of the tests of striped dumps: a machine, its dump in one file and in parts, and
//! operations on them.

#[path = "../common/machine.rs"]
mod machine;
#[path = "../common/random.rs"]
mod random;

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use bigiron_dump::{
    ChunkCompression, DumpError, DumpIdentity, DumpOptions, DumpOutput, Format, OutputTarget,
    Progress, Reference, Save, SaveOptions, Saved, Verification, ZstdChunks, check_vmdump, dump,
    find_kernel_by_dump, verify,
};
use bigiron_format::vmdump::{Chunk, VmdumpFile};
use bigiron_helpers::{MemoryBudget, Stop};
use bigiron_kernel::{DumpLevel, IoMethod, Kernel, Source, SourceError};
use tempfile::TempDir;

pub use machine::core;
pub use random::Random;

pub const ID: [u8; 16] = *b"0123456789abcdef";

pub fn source() -> Source {
    Source::from_bytes(Box::new(core().to_vec()), PathBuf::from("core")).unwrap()
}

/// zstd's own parameters, so that a change of our defaults changes no golden file.
const CHUNKS: ZstdChunks = ZstdChunks {
    level: 3,
    bytes: 64 << 10,
};

pub fn options(id: [u8; 16]) -> DumpOptions {
    DumpOptions {
        threads: 2,
        overwrite: true,
        identity: Some(DumpIdentity {
            time: 1_700_000_000,
            id,
        }),
        level: DumpLevel::new(30).unwrap(),
        ..DumpOptions::default()
    }
}

/// Returns the dump as one file.
pub fn whole() -> &'static [u8] {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("whole");
        let output = DumpOutput::file(Format::Vmdump(ChunkCompression::Zstd(CHUNKS)), &path);
        let (source, stop) = (source(), Stop::new());
        let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
        dump(
            &kernel.into(),
            &output,
            &options(ID),
            &Progress::new(),
            &stop,
        )
        .unwrap();
        fs::read(path).unwrap()
    })
}

pub fn stripe(targets: &[OutputTarget], options: &DumpOptions) -> Result<(), DumpError> {
    let (source, stop) = (source(), Stop::new());
    let kernel = Kernel::find(&source, None, IoMethod::Auto, 64).unwrap();
    let output = DumpOutput::Striped {
        chunks: CHUNKS,
        targets: targets.to_vec(),
        recipients: None,
    };
    dump(&kernel.into(), &output, options, &Progress::new(), &stop).map(|_| ())
}

/// Returns the dump in `count` parts.
pub fn parts(count: usize, id: [u8; 16]) -> Vec<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let name = |index| OutputTarget::File(directory.path().join(format!("part{index}")));
    let targets: Vec<_> = (0..count).map(name).collect();
    stripe(&targets, &options(id)).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), count);
    let paths = targets.iter().filter_map(OutputTarget::path);
    paths.map(|path| fs::read(path).unwrap()).collect()
}

pub fn two() -> &'static [Vec<u8>] {
    static PARTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    PARTS.get_or_init(|| parts(2, ID))
}

pub fn open(parts: &[&[u8]]) -> Result<Source, SourceError> {
    let parts = parts.iter().enumerate().map(|(index, bytes)| {
        let bytes: Box<dyn bigiron_format::ReadAt> = Box::new(bytes.to_vec());
        (bytes, PathBuf::from(format!("file{index}")))
    });
    Source::from_several(parts.collect())
}

pub fn refused(parts: &[&[u8]]) -> String {
    match open(parts) {
        Ok(_) => panic!("taken"),
        Err(error) => error.to_string(),
    }
}

/// Compares all pages of `dump` with those of the machine.
#[track_caller]
pub fn read_all(dump: &Source) -> Verification {
    let (progress, stop) = (Progress::new(), Stop::new());
    let source = source();
    let kernel = find_kernel_by_dump(&source, dump.memory());
    let reference = Reference::new(source.memory(), dump.memory(), kernel.as_ref());
    match verify(dump.memory(), Some(&reference), 2, &progress, &stop) {
        Ok(found) => found,
        Err(DumpError::Differs { frame, reason }) => panic!("wrong page {frame}: {reason}"),
        Err(error) => panic!("{error}"),
    }
}

pub fn findings(dump: &Source) -> Vec<String> {
    check_vmdump(dump.memory().vmdump().unwrap(), 2, &Stop::new()).unwrap()
}

pub fn chunks(bytes: &[u8]) -> Vec<Chunk> {
    let file = VmdumpFile::open(Box::new(bytes.to_vec())).unwrap();
    let all = (0..file.chunk_groups()).flat_map(|piece| file.chunks(piece).unwrap());
    all.collect()
}

pub fn ones(bits: &[u8]) -> u64 {
    bits.iter().map(|byte| u64::from(byte.count_ones())).sum()
}

/// Saves `parts`; returns the directory and the result.
pub fn save(parts: &[&[u8]], expand: bool) -> (TempDir, Saved) {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..parts.len())
        .map(|index| directory.path().join(format!("part{index}")))
        .collect();
    for (path, bytes) in paths.iter().zip(parts) {
        fs::write(path, bytes).unwrap();
    }
    let options = SaveOptions {
        directory: directory.path().join("saved"),
        expand,
        again: false,
        keep_mark: false,
        identity: None,
        threads: 3,
        memory: MemoryBudget::of(64 << 20),
    };
    let stop = Stop::new();
    let save = Save::open(&paths, options, &stop, &|_| ())
        .unwrap()
        .unwrap();
    let saved = save.store(&Progress::new(), &stop).unwrap();
    (directory, saved)
}
