//! Dumps of a kernel that continues to run.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bigiron_dump::{DumpOptions, DumpOutput, Format, Phase, Progress, dump, verify};
use bigiron_format::ReadAt;
use bigiron_format::codec::{Codec, Compression};
use bigiron_helpers::{MemoryBudget, Stop};
use bigiron_kernel::{IoMethod, Kernel, PageReader, RUNNING_KERNEL, Source};
use bigiron_synth::{ElfShape, Synth};

/// One machine at two moments: pages that were free are in use, and pages in use are free.
fn moments() -> [Vec<u8>; 2] {
    [("free", "anon"), ("anon", "free")].map(|(one, other)| {
        let mut text = String::from("kernel 6.12\nram 0x0-0x9f 0x100-0x3fff\n");
        for block in 0..64 {
            let class = if block % 3 == 0 { one } else { other };
            let first = 0x1000 + 16 * block;
            let more = if class == "free" {
                "order=3"
            } else {
                "n=8 fill=random:7"
            };
            text.push_str(&format!("pages {first:#x} {class} {more}\n"));
        }
        let shape = ElfShape::vmcore();
        Synth::from_text(&text).unwrap().elf(&shape)
    })
}

/// Memory source that shows one moment to the filter, and the other when pages are copied.
struct Restless {
    moments: [Vec<u8>; 2],
    progress: Arc<Progress>,
}

impl ReadAt for Restless {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let moment = usize::from(self.progress.phase() == Phase::Copying);
        self.moments[moment].as_slice().read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.moments[0].len() as u64
    }
}

/// Dumps the changing machine, with a memory budget too small for a bitmap, and checks that
/// every page of the dump is from one of the two moments.
fn dump_and_check(format: Format, directory: &Path) {
    let (progress, stop) = (Arc::new(Progress::new()), Stop::new());
    let restless = Restless {
        moments: moments(),
        progress: Arc::clone(&progress),
    };
    let running = Source::from_bytes(Box::new(restless), PathBuf::from(RUNNING_KERNEL)).unwrap();
    let kernel = Kernel::find(&running, None, IoMethod::Read, 16).unwrap();
    let path = directory.join(format.name());
    let options = DumpOptions {
        threads: 2,
        memory: MemoryBudget::of(1024),
        ..DumpOptions::default()
    };
    let output = DumpOutput::file(format, &path);
    let summary = dump(&kernel.into(), &output, &options, &progress, &stop).unwrap();
    assert_eq!(summary.lost, 0);
    assert!(summary.warnings.iter().all(|text| !text.contains("WRONG")));

    let made = Source::open(&[path]).unwrap();
    assert_eq!(made.damage(), None);
    let notes = made.memory().notes();
    assert!(notes.live_task().is_some());
    let found = verify(made.memory(), None, 2, &progress, &stop).unwrap();
    assert_eq!((found.lost, found.damaged), (0, 0));
    assert!(found.pages > 256, "{found:?}");

    let [one, other] = moments()
        .map(|bytes| Source::from_bytes(Box::new(bytes), PathBuf::from("moment")).unwrap());
    let readers = [&made, &one, &other].map(|source| source.memory().reader(IoMethod::Read));
    let [mut ours, mut one, mut other] = readers;
    for frame in (0x1000..0x1400).map(bigiron_format::PageFrame) {
        let page =
            |reader: &mut Box<dyn PageReader + '_>| reader.pages(frame, 1).map(<[u8]>::to_vec);
        if let Ok(page_of_dump) = page(&mut ours) {
            let possible = [page(&mut one).unwrap(), page(&mut other).unwrap()];
            assert!(possible.contains(&page_of_dump), "{frame:?}");
        }
    }
}

#[test]
fn pages_that_change_during_the_dump_corrupt_no_format() {
    let directory = tempfile::tempdir().unwrap();
    let formats = [
        Format::default(),
        Format::Kdump {
            compression: Compression::new(Codec::Zstd).into(),
            flattened: true,
        },
        Format::ELF,
    ];
    for format in formats {
        dump_and_check(format, directory.path());
    }
}

#[test]
fn kernel_without_proc_kcore_is_reported() {
    if Path::new(RUNNING_KERNEL).exists() {
        println!("skipped: this kernel has {RUNNING_KERNEL}; vmtest/live dumps one");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bigiron"))
        .arg("live")
        .arg(directory.path().join("live"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("CONFIG_PROC_KCORE"), "{said}");
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
}
