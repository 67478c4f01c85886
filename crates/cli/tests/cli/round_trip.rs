//! Dumps of random machines in all formats, converted and read back.

use std::collections::BTreeMap;
use std::fs;

use bigiron_synth::{ElfShape, Synth, presets, random_machine};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::common::{Lab, arg, descriptor_of, field, machine, present, run};

const CASES: u32 = 24;

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    kernel: &'static str,
    shape: usize,
    level: u8,
    codec: &'static str,
    threads: &'static str,
    format: &'static str,
    io: &'static str,
    cache: &'static str,
    more: &'static [&'static str],
}

fn cases() -> impl Strategy<Value = Case> {
    (
        (
            any::<u64>(),
            prop::sample::select(presets()),
            0..ElfShape::all().len(),
        ),
        0..=31_u8,
        prop::sample::select(vec![
            "none", "zlib:1", "lzo", "snappy", "zstd", "zstd:-5", "zstd:7", "adaptive",
        ]),
        prop::sample::select(vec!["1", "2", "3", "8"]),
        prop::sample::select(vec!["kdump", "flattened", "elf", "vmdump", "vmdump"]),
        prop::sample::select(vec!["auto", "mmap", "read"]),
        prop::sample::select(vec!["0", "1", "64"]),
        prop::sample::select(vec![
            &[][..],
            &["--without", "equal-pages"],
            &["--without", "incompressible"],
            &["--without", "scan-blocks"],
            &["--without", "equal-pages,incompressible,scan-blocks"],
            &["--write-limit", "100M"],
        ]),
    )
        .prop_map(
            |((seed, kernel, shape), level, codec, threads, format, io, cache, more)| Case {
                seed,
                kernel,
                shape,
                level,
                codec,
                threads,
                format,
                io,
                cache,
                more,
            },
        )
}

#[test]
fn dumps_of_random_machines_keep_the_expected_pages_and_bytes() {
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    runner
        .run(&cases(), |case| {
            one_case(&case);
            Ok(())
        })
        .unwrap();
}

fn one_case(case: &Case) {
    let machine = Synth::from_text(&random_machine(case.seed, case.kernel)).unwrap();
    let lab = Lab::new();
    let vmcore = &lab.file("vmcore", &machine.elf(&ElfShape::all()[case.shape].1));
    let level = case.level.to_string();
    let codec = match (case.format, case.codec) {
        ("vmdump", "none" | "lzo") => "bzip2",
        ("vmdump", other) if !other.starts_with("zstd") => "zstd",
        (_, codec) => codec,
    };
    let mut options = vec!["-d", &level, "-c", codec, "-j", case.threads];
    options.extend([
        "-f",
        case.format,
        "--io",
        case.io,
        "--cache-pages",
        case.cache,
    ]);
    options.extend(case.more);
    let dump = lab.dump("dump", &options);
    run(&["verify", arg(&dump), "--against", arg(vmcore)]).code(0);
    // The ELF writer omits zero pages and fills short gaps.
    if case.format != "elf" {
        let mut expected = machine.expected_dumpable(case.level);
        expected.resize(present(&dump).len(), false);
        assert_eq!(present(&dump), expected);
    }
}

#[test]
fn filtering_in_two_steps_equals_filtering_at_once() {
    let lab = Lab::new();
    let (all, twice) = (lab.dump("all", &["-d", "1"]), lab.path("twice"));
    let at_once = lab.dump("at-once", &["-d", "31"]);
    run(&["dump", "-d", "31", arg(&all), arg(&twice)]).code(0);
    assert_eq!(present(&twice), present(&at_once));
    run(&["verify", arg(&twice), "--against", arg(&at_once)]).code(0);
    run(&["verify", arg(&at_once), "--against", arg(&twice)]).code(0);
}

#[test]
fn conversion_through_all_formats_keeps_all_pages() {
    let lab = Lab::new();
    let mut last = lab.dump("first", &["-d", "30", "-c", "zlib"]);
    let first = last.clone();
    for (step, (format, codec)) in [
        ("flattened", "lzo"),
        ("vmdump", "zstd"),
        ("kdump", "zlib"),
        ("vmdump", "bzip2"),
        ("vmdump", "zstd:3"),
        ("elf", "none"),
        ("flattened", "snappy"),
        ("vmdump", "bzip2"),
        ("elf", "none"),
        ("vmdump", "zstd"),
        ("kdump", "zstd"),
    ]
    .iter()
    .enumerate()
    {
        let next = lab.path(&step.to_string());
        let options = ["dump", "-d", "0", "-f", format, "-c", codec];
        run(&[&options[..], &[arg(&last), arg(&next)]].concat()).code(0);
        run(&["verify", arg(&next), "--against", arg(lab.vmcore())]).code(0);
        last = next;
    }
    let (before, after) = (present(&first), present(&last));
    let missing = (0..before.len()).find(|frame| before[*frame] && !after[*frame]);
    assert_eq!(missing, None);
}

#[test]
fn threads_and_memory_limits_do_not_change_the_pages() {
    let lab = Lab::new();
    let one = lab.dump("one", &["-j1"]);
    for options in [
        &["-j8"][..],
        &["-j4", "--memory-limit", "8M"],
        &["-c", "none", "-j2", "--memory-limit", "64M"],
        &["--io", "mmap"],
        &["--without", "equal-pages"],
        &["--without", "incompressible"],
        &["-c", "adaptive"],
        &["-c", "adaptive", "--write-limit", "4M", "-j3"],
        &["-c", "lzo", "--write-limit", "1G"],
        &["-f", "elf", "--memory-limit", "1K"],
    ] {
        let other = lab.dump("other", options);
        if options.contains(&"elf") {
            // The ELF writer fills short gaps, and therefore has more pages; those of the other dump are equal.
            run(&["verify", arg(&other), "--against", arg(lab.vmcore())]).code(0);
            continue;
        }
        assert_eq!(present(&one), present(&other));
        run(&["verify", arg(&other), "--against", arg(&one)]).code(0);
    }
    let arguments = ["dump", "-j4", "--memory-limit", "8M", arg(lab.vmcore())];
    let outcome = run(&[&arguments[..], &[arg(&lab.path("o"))]].concat()).code(0);
    outcome.says(&["warning", "helpers instead of 4", "memory limit"]);
}

#[test]
fn equal_pages_and_zero_pages_are_stored_once() {
    let lab = Lab::new();
    // With two helpers an equal page may be stored twice.
    let options = ["-d", "31", "-j1", "--without", "direct-writes"];
    let kdump = fs::read(lab.dump("kdump", &options)).unwrap();
    let mut places = BTreeMap::new();
    let mut offset = |frame| {
        let offset = field(&kdump, descriptor_of(&kdump, frame));
        *places.entry(offset).or_insert(0) += 1;
        offset
    };
    let (zero, constant) = (offset(0x500), offset(0x520));
    for frame in 1..32 {
        assert_eq!(offset(0x500 + frame), zero);
        assert_eq!(offset(0x520 + frame), constant);
    }
    assert_ne!(zero, constant);
    assert_ne!(offset(0x400), offset(0x401));
    assert!(
        machine()
            .page(0x500)
            .is_some_and(|page| page.iter().all(|byte| *byte == 0))
    );
}
