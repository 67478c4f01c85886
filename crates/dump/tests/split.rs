//! Split dumps whose last part cannot be completed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[path = "common/creates_file.rs"]
mod creates_file;
#[path = "common/machine.rs"]
mod machine;

use std::fs;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use bigiron_dump::{DumpError, DumpOptions, DumpOutput, Progress, dump};
use bigiron_format::ReadAt;
use bigiron_format::codec::{Codec, Compression};
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
