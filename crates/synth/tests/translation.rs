//! libkdumpfile translates the addresses of every recorded mapping as the builder meant them.
//!
//! The architectures are those that libkdumpfile 0.5.1 translates: it knows no radix tables of
//! ppc64, no riscv64 and no loongarch64. With pages of 64 KiB and a kernel of 52 bits on
//! hardware with 48 it takes the number of bits from the hardware, which is wrong; and of
//! physical addresses with LPA and LPA2 it drops a bit, so RAM is low here.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};

use bigiron_synth::{ElfShape, Machine, Synth, Vaddr, random_machine_on};
use common::Scratch;

const SCRIPT: &str = "tests/common/translate.py";
/// The script's exit status without libkdumpfile.
const NOT_INSTALLED: i32 = 77;

/// Words of an `arch` line, and kernels.
const CASES: [(&str, [&str; 3]); 15] = [
    ("x86_64", ["4.19", "6.1", "7.1"]),
    ("arm64", ["4.19", "6.1", "6.12"]),
    ("arm64 bits=39", ["5.4", "6.6", "7.1"]),
    ("arm64 bits=52", ["6.9", "6.12", "7.1"]),
    ("arm64 bits=52 hardware_bits=48", ["6.9", "6.12", "7.1"]),
    ("arm64 pages=16k", ["4.19", "5.10", "6.12"]),
    ("arm64 pages=16k bits=36", ["5.4", "6.1", "6.16"]),
    ("arm64 pages=16k bits=48", ["5.4", "6.3", "7.1"]),
    ("arm64 pages=16k bits=52", ["6.9", "6.10", "7.1"]),
    (
        "arm64 pages=16k bits=52 hardware_bits=47",
        ["6.9", "6.12", "7.1"],
    ),
    ("arm64 pages=64k", ["4.19", "5.4", "6.12"]),
    ("arm64 pages=64k bits=42", ["4.19", "6.1", "7.1"]),
    ("arm64 pages=64k bits=52", ["5.4", "6.6", "7.1"]),
    ("s390x", ["4.19", "5.15", "6.9"]),
    ("s390x", ["6.10", "6.12", "7.1"]),
];

/// Runs the script with the first of these interpreters that has libkdumpfile.
fn translate(core: &Path, mappings: &Path, root: &str) -> Option<Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(SCRIPT);
    for python in ["python3", "/usr/bin/python3"] {
        let mut command = Command::new(python);
        command.arg(&script).arg(core).arg(mappings);
        // libkdumpfile takes swapper_pg_dir of s390x for a physical address.
        if !root.is_empty() {
            command.arg(root);
        }
        let output = command.output().ok();
        let found = output.filter(|output| output.status.code() != Some(NOT_INSTALLED));
        if found.is_some() {
            return found;
        }
    }
    println!("skipped: the Python bindings of libkdumpfile are not installed");
    None
}

fn files(machine: &Machine) -> (Scratch, Scratch) {
    let (core, mappings) = (Scratch::new("core"), Scratch::new("mappings"));
    // With virtual addresses at p_vaddr it would not read the tables alone.
    let shape = ElfShape {
        vaddr: Vaddr::Physical,
        image_load: false,
        ..ElfShape::vmcore()
    };
    std::fs::write(&core.0, machine.elf(&shape)).unwrap();
    let mut lines = String::new();
    // Some of the pages, if they are many, and all of what was mapped last.
    let count = machine.mappings().len();
    let some = |index: &usize| index.is_multiple_of(count / 1000 + 1) || *index + 100 > count;
    for index in (0..count).filter(some) {
        let mapping = &machine.mappings()[index];
        let (virt, len) = (
            mapping.virt.start,
            mapping.virt.end.wrapping_sub(mapping.virt.start),
        );
        writeln!(lines, "{virt:x} {:x} {len:x}", mapping.paddr).unwrap();
    }
    std::fs::write(&mappings.0, lines).unwrap();
    (core, mappings)
}

#[test]
fn libkdumpfile_translates_every_mapping() {
    for (index, (arch, kernels)) in CASES.into_iter().enumerate() {
        for (seed, kernel) in kernels.into_iter().enumerate() {
            let text = random_machine_on((10 * index + seed) as u64, arch, kernel);
            let machine = Synth::from_text(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let (core, mappings) = files(&machine);
            let root = match arch {
                "s390x" => format!("{:x}", machine.top_table()),
                _ => String::new(),
            };
            let Some(output) = translate(&core.0, &mappings.0, &root) else {
                return;
            };
            let said =
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(output.status.success(), "{arch}, {kernel}: {said}\n{text}");
        }
    }
}
