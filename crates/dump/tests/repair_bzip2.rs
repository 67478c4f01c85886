//! Truncated bzip2 vmdumps whose index is rebuilt from their contents: no page is ever wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[path = "common/random.rs"]
mod random;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use bigiron_dump::{
    ChunkCompression, DumpError, DumpOptions, DumpOutput, Format, Progress, Reference,
    Verification, check_vmdump, dump, find_kernel_by_dump, repair_vmdump, verify,
};
use bigiron_helpers::Stop;
use bigiron_kernel::{DumpLevel, IoMethod, Kernel, Source};
use bigiron_synth::{ElfShape, Synth};
use random::Random;

/// 7 MiB with pages of every kind, enough for a few streams.
const MACHINE: &str = "kernel 6.12
    ram 0x0-0x9f 0x100-0x7ff
    pages 0x400 free order=6
    pages 0x440 slab n=100 fill=random
    pages 0x4b0 slab n=32 fill=zero ; 0x4d0 slab n=32 fill=const:7
    pages 0x4f0 slab n=200 fill=random";

/// A machine, a bzip2 dump of it, and room for another file.
struct Lab {
    directory: tempfile::TempDir,
    core: Source,
    whole: Vec<u8>,
}

impl Lab {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let core = Synth::from_text(MACHINE).unwrap().elf(&ElfShape::vmcore());
        let core = Source::from_bytes(Box::new(core), PathBuf::from("core")).unwrap();
        let kernel = Kernel::find(&core, None, IoMethod::Auto, 64).unwrap();
        let path = directory.path().join("whole");
        let options = DumpOptions {
            threads: 2,
            level: DumpLevel::new(16).unwrap(),
            ..DumpOptions::default()
        };
        let format = Format::Vmdump(ChunkCompression::Bzip2);
        let output = DumpOutput::file(format, path.clone());
        dump(
            &kernel.into(),
            &output,
            &options,
            &Progress::new(),
            &Stop::new(),
        )
        .unwrap();
        let whole = fs::read(path).unwrap();
        Self {
            directory,
            core,
            whole,
        }
    }

    fn file(&self, bytes: &[u8]) -> PathBuf {
        let path = self.directory.path().join("cut");
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Compares all pages of `dump` with those of the machine.
    #[track_caller]
    fn read_all(&self, dump: &Source) -> Verification {
        let kernel = find_kernel_by_dump(&self.core, dump.memory());
        let reference = Reference::new(self.core.memory(), dump.memory(), kernel.as_ref());
        match verify(
            dump.memory(),
            Some(&reference),
            1,
            &Progress::new(),
            &Stop::new(),
        ) {
            Ok(found) => found,
            Err(DumpError::Differs { frame, reason }) => panic!("wrong page {frame}: {reason}"),
            Err(error) => panic!("{error}"),
        }
    }
}

fn open(path: &Path) -> Source {
    Source::open(&[path.to_owned()]).unwrap()
}

/// Returns the offsets in the file at which the chunks of a dump end.
fn ends(dump: &Source) -> Vec<usize> {
    let file = dump.memory().vmdump().unwrap().file();
    let pieces = (0..file.chunk_groups()).flat_map(|piece| file.chunks(piece).unwrap());
    let ends = pieces.map(|chunk| chunk.offset as usize + chunk.packed as usize);
    ends.collect()
}

#[test]
fn hundred_truncated_dumps_are_all_repaired() {
    let lab = Lab::new();
    let whole = ends(&open(&lab.file(&lab.whole)));
    let core = *whole.last().unwrap();
    assert!(whole.len() > 6, "{whole:?}");
    let mut random = Random(4);
    // More cuts near the front: unpacking all of it takes longest.
    let mut cut = || {
        let most = 1 + random.below(lab.whole.len());
        random.below(most)
    };
    let mut cuts: Vec<_> = (0..88).map(|_| cut()).collect();
    // At the ends of streams, and in the data after the core.
    cuts.extend(whole.iter().take(6));
    cuts.extend((0..6).map(|_| core + random.below(lab.whole.len() - core)));
    let cuts: Vec<_> = cuts.into_iter().enumerate().collect();
    thread::scope(|scope| {
        for half in cuts.chunks(cuts.len() / 2) {
            let (lab, whole) = (&lab, &whole);
            scope.spawn(move || half.iter().for_each(|cut| repaired(lab, whole, *cut)));
        }
    });
}

/// Cuts the dump whose chunks end at `whole`, and repairs it.
fn repaired(lab: &Lab, whole: &[usize], (number, cut): (usize, usize)) {
    let path = lab.directory.path().join(number.to_string());
    fs::write(&path, &lab.whole[..cut]).unwrap();
    let (headers, core) = (whole[0], whole[whole.len() - 1]);
    if cut < headers {
        assert!(repair_vmdump(&path).is_err(), "cut at {cut}");
        assert!(fs::read(&path).unwrap() == lab.whole[..cut], "{cut}");
        return;
    }
    // Reading all of it without an index takes long.
    let before = (number % 8 == 0).then(|| lab.read_all(&open(&path)).pages);
    let done = repair_vmdump(&path).unwrap().unwrap();
    let kept = cut - done.cut_off as usize;
    assert!(whole.contains(&kept), "cut at {cut}, kept {kept}");
    assert!(fs::read(&path).unwrap()[..kept] == lab.whole[..kept]);

    let repaired = open(&path);
    let vmdump = repaired.memory().vmdump().unwrap();
    let root = vmdump.file().root().unwrap();
    assert_eq!(root.chunks, done.chunks);
    // Earlier losses and exclusions are no longer known.
    assert!(!root.complete && repaired.damage().is_some());
    assert_eq!(repaired.memory().dump_level(), 1);
    if number % 4 == 0 {
        let found = check_vmdump(vmdump, 1, &Stop::new()).unwrap();
        assert_eq!(found, Vec::<String>::new(), "cut at {cut}");
    }
    let after = lab.read_all(&repaired);
    assert_eq!((after.lost, after.damaged), (0, 0), "cut at {cut}");
    assert_eq!(root.dumped, after.pages);
    assert!(before.is_none_or(|before| before == after.pages));
    assert!(kept < core || after.pages > 300, "{after:?}");
    drop(repaired);
    assert_eq!(repair_vmdump(&path).unwrap(), None);
    fs::remove_file(&path).unwrap();
}

#[test]
fn repaired_dump_can_be_truncated_and_repaired_again() {
    let lab = Lab::new();
    let whole = ends(&open(&lab.file(&lab.whole)));
    let path = lab.file(&lab.whole[..whole[whole.len() / 2] + 100]);
    repair_vmdump(&path).unwrap().unwrap();
    let bytes = fs::read(&path).unwrap();
    let repaired = open(&path);
    let pages = lab.read_all(&repaired).pages;
    let file = repaired.memory().vmdump().unwrap().file();
    let root = file.root().unwrap();
    let index = file.index_record(0).unwrap();
    for cut in [
        index.offset + 10,
        index.offset + index.size,
        root.metadata.offset,
        bytes.len() as u64 - 1,
    ] {
        let path = lab.file(&bytes[..cut as usize]);
        assert_eq!(lab.read_all(&open(&path)).pages, pages);
        assert!(repair_vmdump(&path).unwrap().is_some(), "cut at {cut}");
        assert_eq!(lab.read_all(&open(&path)).pages, pages);
    }
}

#[test]
fn bzip2_output_of_a_repaired_dump_starts_with_the_remaining_core() {
    let lab = Lab::new();
    let unpacked = |path: &Path| {
        let output = Command::new("bzip2").args(["-dc"]).arg(path).output();
        let output = output.ok()?;
        assert!(output.status.success(), "{output:?}");
        Some(output.stdout)
    };
    let Some(whole) = unpacked(&lab.file(&lab.whole)) else {
        println!("skipped: bzip2 is not installed");
        return;
    };
    let path = lab.file(&lab.whole[..lab.whole.len() / 2]);
    repair_vmdump(&path).unwrap().unwrap();
    let source = open(&path);
    let file = source.memory().vmdump().unwrap().file();
    let left = file.chunks(0).unwrap().last().unwrap().end() as usize;
    let part = unpacked(&path).unwrap();
    assert!(left > 1 << 20 && part[..left] == whole[..left]);
}
