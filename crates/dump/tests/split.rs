//! Split dumps whose last part cannot be completed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[path = "common/creates_file.rs"]
mod creates_file;
#[path = "common/machine.rs"]
mod machine;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bigiron_dump::{DumpError, DumpOptions, DumpOutput, Progress, dump};
use bigiron_format::codec::{Codec, Compression};
use bigiron_format::failing::Failing;
use bigiron_format::kdump::{DESCRIPTOR_SIZE, KdumpHeaders};
use bigiron_format::{PageFrame, ReadAt};
use bigiron_helpers::Stop;
use bigiron_kernel::{IoMethod, Kernel, Source};
use creates_file::CreatesFile;
use machine::core;
use tempfile::TempDir;

/// Splits a dump over `a` and `b` in `directory`; if `occupied`, a file `b` appears while pages
/// are copied.
fn split(directory: &TempDir, occupied: bool, options: &DumpOptions) -> Result<(), DumpError> {
    let progress = Arc::new(Progress::new());
    let files = ["a", "b"].map(|name| directory.path().join(name));
    let bytes: Box<dyn ReadAt> = match occupied {
        true => Box::new(CreatesFile {
            path: files[1].clone(),
            progress: Arc::clone(&progress),
        }),
        false => Box::new(core().to_vec()),
    };
    let source = Source::from_bytes(bytes, PathBuf::from("core")).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Read, 16).unwrap();
    let output = DumpOutput::Split {
        compression: Compression::new(Codec::Zstd).into(),
        granule: 1,
        files: files.to_vec(),
    };
    dump(&kernel.into(), &output, options, &progress, &Stop::new()).map(|_| ())
}

/// Returns the stored sizes of all pages of the dump in these parts, with a bad range in the first.
fn stored(parts: &[Vec<u8>], bad: Option<Range<u64>>) -> BTreeMap<u64, u64> {
    let named = parts.iter().enumerate().map(|(number, bytes)| {
        let bad = bad.iter().filter(|_| number == 0).cloned().collect();
        let file: Box<dyn ReadAt> = Box::new(Failing::new(bytes.clone(), bad));
        (file, PathBuf::from(format!("part{number}")))
    });
    let source = Source::from_several(named.collect()).unwrap();
    let memory = source.memory();
    let sizes = memory.extensions().stored_sizes.unwrap();
    let mut found = BTreeMap::new();
    for first in memory.sections() {
        let see = &mut |frame: PageFrame, size| {
            found.insert(frame.0, size);
        };
        sizes.stored(first, see).unwrap();
    }
    found
}

#[test]
fn bad_sector_of_a_part_costs_nothing_in_a_bitmap_and_only_the_descriptors_in_it_behind() {
    let directory = tempfile::tempdir().unwrap();
    split(&directory, false, &DumpOptions::default()).unwrap();
    let parts = ["a", "b"].map(|name| fs::read(directory.path().join(name)).unwrap());
    let layout = KdumpHeaders::read(&parts[0]).unwrap().layout;
    let good = stored(&parts, None);
    for bitmap in [layout.ram_bitmap(), layout.dumped_bitmap()] {
        assert_eq!(stored(&parts, Some(bitmap..bitmap + 4096)), good);
    }
    let second = layout.descriptor(1);
    let bad = second..second + DESCRIPTOR_SIZE as u64;
    let found = stored(&parts, Some(bad));
    assert_eq!(found.len(), good.len() - 1);
    assert!(found.iter().all(|(frame, size)| good[frame] == *size));
}

fn names(directory: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(directory.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn split_dump_whose_last_part_cannot_be_named_leaves_no_part_under_its_final_name() {
    let directory = tempfile::tempdir().unwrap();
    let error = split(&directory, true, &DumpOptions::default()).unwrap_err();
    assert!(matches!(error, DumpError::Write { .. }), "{error}");
    assert_eq!(names(&directory), ["a.incomplete", "b", "b.incomplete"]);
    assert_eq!(fs::read(directory.path().join("b")).unwrap(), b"foreign");
}

#[test]
fn split_dump_whose_bitmaps_exceed_the_size_limit_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let options = DumpOptions {
        size_limit: NonZeroU64::new(4096),
        ..DumpOptions::default()
    };
    let error = split(&directory, false, &options).unwrap_err();
    assert!(error.is_output_full(), "{error}");
    assert_eq!(names(&directory), [""; 0]);
}
