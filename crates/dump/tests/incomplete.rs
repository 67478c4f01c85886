//! The name of a dump that fails halfway.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[path = "common/creates_file.rs"]
mod creates_file;
#[path = "common/machine.rs"]
mod machine;

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bigiron_dump::{DumpError, DumpOptions, DumpOutput, Format, OutputTarget, Progress, dump};
use bigiron_format::ReadAt;
use bigiron_format::codec::{Codec, Compression};
use bigiron_helpers::Stop;
use bigiron_kernel::{DumpLevel, IoMethod, Kernel, Source};
use creates_file::CreatesFile;
use machine::core;

/// Makes a dump that does not fit, and returns the file that it says to have kept. If `occupied`,
/// a file of its name appears while pages are copied.
fn kept(path: &Path, occupied: bool, options: DumpOptions) -> Option<PathBuf> {
    let progress = Arc::new(Progress::new());
    let bytes: Box<dyn ReadAt> = match occupied {
        true => Box::new(CreatesFile {
            path: path.to_owned(),
            progress: Arc::clone(&progress),
        }),
        false => Box::new(core().to_vec()),
    };
    let source = Source::from_bytes(bytes, PathBuf::from("core")).unwrap();
    let kernel = Kernel::find(&source, None, IoMethod::Read, 16).unwrap();
    let format = Format::Kdump {
        compression: Compression::new(Codec::Zstd).into(),
        flattened: false,
    };
    let output = DumpOutput::whole(format, OutputTarget::File(path.to_owned()));
    let options = DumpOptions {
        level: DumpLevel::default(),
        size_limit: NonZeroU64::new(512 << 10),
        ..options
    };
    match dump(&kernel.into(), &output, &options, &progress, &Stop::new()) {
        Err(DumpError::Write { kept, .. }) => kept,
        result => panic!("{result:?}"),
    }
}

#[test]
fn incomplete_dump_gets_its_final_name_on_request() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("dump");
    let incomplete = root.path().join("dump.incomplete");
    let found = kept(&path, false, DumpOptions::default());
    assert_eq!(found, Some(incomplete.clone()));
    fs::remove_file(&incomplete).unwrap();
    let options = DumpOptions {
        names_incomplete: true,
        ..DumpOptions::default()
    };
    assert_eq!(kept(&path, false, options), Some(path.clone()));
    assert!(path.exists() && !incomplete.exists());
}

#[test]
fn incomplete_dump_replaces_no_file() {
    for overwrite in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("dump");
        let incomplete = root.path().join("dump.incomplete");
        let options = DumpOptions {
            names_incomplete: true,
            overwrite,
            ..DumpOptions::default()
        };
        let found = kept(&path, true, options);
        assert_eq!(
            found,
            Some(if overwrite { path.clone() } else { incomplete })
        );
        let is_foreign = fs::read(&path).unwrap() == b"foreign";
        assert_eq!(is_foreign, !overwrite);
    }
}
