//! `bigiron-bench read` measures every kind of dump within the memory allowed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::fs;
use std::path::Path;
use std::process::Command;

use bigiron_dump::{
    ChunkCompression, DumpOptions, DumpOutput, Format, OutputTarget, Progress, ZstdChunks, dump,
};
use bigiron_helpers::Stop;
use bigiron_kernel::{IoMethod, Kernel, PhysicalMemory, Source};
use bigiron_synth::{ElfShape, Synth};
use serde_json::Value;

const MACHINE: &str = "kernel 6.1
    ram 0x0-0x9f 0x100-0x1fff
    pages 0x200 free order=9
    pages 0x400 slab n=64 fill=random
    pages 0x480 cache n=16 ; 0x490 cache private n=4 dirty fill=random
    pages 0x500 slab n=32 fill=zero ; 0x520 slab n=32 fill=const:7
    pages 0x600 thp ; 0x800 hugetlb order=9 ; 0xa00 slab order=2 n=3";

fn make_dump(core: &Path, output: &Path, format: Format) {
    let source = Source::open(&[core.to_owned()]).unwrap();
    let pages = PhysicalMemory::DEFAULT_CACHE_PAGES;
    let kernel = Kernel::find(&source, None, IoMethod::Auto, pages).unwrap();
    let output = DumpOutput::Whole {
        format,
        target: OutputTarget::File(output.to_owned()),
        recipients: None,
    };
    let (options, progress) = (DumpOptions::default(), Progress::new());
    dump(&kernel.into(), &output, &options, &progress, &Stop::new()).unwrap();
}

fn read(arguments: &[&str], dump: &Path) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_bigiron-bench"))
        .arg("read")
        .args(arguments)
        .arg(dump)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    output.stdout
}

#[test]
fn every_format_is_measured_within_the_memory_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let core = directory.path().join("core");
    let machine = Synth::from_text(MACHINE).unwrap();
    fs::write(&core, machine.elf(&ElfShape::vmcore())).unwrap();
    let vmdump = Format::Vmdump(ChunkCompression::Zstd(ZstdChunks::default()));
    for format in [vmdump, Format::default(), Format::ELF] {
        let name = format.name();
        let dump = directory.path().join(name);
        make_dump(&core, &dump, format);
        let printed = read(&["--runs", "1", "--cache", "8M", "--json"], &dump);
        let results: Value = serde_json::from_slice(&printed).unwrap();
        let number = |key: &str| results[key].as_u64().unwrap();
        assert_eq!(number("cache_bytes"), 8 << 20);
        assert!(number("peak_bytes") <= 8 << 20, "{name}");
        let is_elf = format == Format::ELF;
        assert_eq!(number("peak_bytes") == 0, is_elf);
        let rows = results["rows"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["seconds"].as_f64() > Some(0.0)));
        let bare = rows[0]["what"].as_str().unwrap().starts_with("bare codec");
        assert_eq!(bare, format == vmdump);
        let lists = directory.path().join(format!("{name}-lists"));
        fs::create_dir(&lists).unwrap();
        read(&["--list", lists.to_str().unwrap()], &dump);
        let all = fs::metadata(lists.join("all")).unwrap().len();
        assert_eq!(all, 8 * number("pages"), "{name}");
    }
}
