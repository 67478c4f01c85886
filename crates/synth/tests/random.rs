//! Random texts are valid, varied, and the same for the same seed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::collections::BTreeSet;

use bigiron_synth::{Synth, SynthError, presets, random_machine};

/// Every seed builds for every kernel, and the seeds together contain every class that the
/// kernel has.
#[test]
fn random_texts_build_and_contain_every_class() {
    for kernel in presets() {
        let mut classes = BTreeSet::new();
        for seed in 0..12 {
            let text = random_machine(seed, kernel);
            assert_eq!(text, random_machine(seed, kernel));
            let machine = Synth::from_text(&text)
                .unwrap_or_else(|error| panic!("{kernel}, seed {seed}: {error}\n{text}"));
            assert!(machine.vmcoreinfo().len() < 4096);
            classes.extend(machine.spec().runs.iter().map(|run| run.class.name()));
        }
        let mut expected = 10;
        expected += usize::from(kernel != "4.19"); // offline
        assert!(classes.len() >= expected - 1, "{kernel}: {classes:?}");
    }
}

/// Higher levels only exclude more: a page kept at a level is kept at every level with fewer
/// bits.
#[test]
fn more_bits_keep_fewer_pages() {
    for kernel in presets() {
        let machine = Synth::from_text(&random_machine(7, kernel)).unwrap();
        let kept: Vec<_> = (0..32)
            .map(|level| machine.expected_dumpable(level))
            .collect();
        for level in 0..32u8 {
            for bit in [1, 2, 4, 8, 16] {
                let more = &kept[usize::from(level | bit)];
                let fewer = kept[usize::from(level)].iter();
                assert!(fewer.zip(more).all(|(few, more)| *few || !*more));
            }
        }
    }
}

/// An unknown kernel is an error that names it.
#[test]
fn unknown_kernel_is_an_error() {
    let error = Synth::from_text(&random_machine(0, "9.9")).unwrap_err();
    assert!(matches!(error, SynthError::Line { line: 1, .. }), "{error}");
}

/// A machine that cannot be laid out is an error, with the line if there is one.
#[test]
fn impossible_layouts_are_errors() {
    for (text, expected) in [
        ("kernel 6.1", "no `ram`"),
        ("kernel 6.1\nram 0-9 5-20", "RAM overlaps at page frame 0x5"),
        ("kernel 6.1\nram 0-0x4000", "more than 64 MiB of RAM"),
        ("kernel 6.1\nram 0-0x100", "not enough unnamed RAM"),
        ("kernel 6.1 kaslr=1\nram 0-0x1fff", "kaslr="),
        (
            "kernel 6.1 phys_base=0x10000000\nram 0-0x1fff",
            "page frames 0x11000-0x111ff",
        ),
        (
            "kernel 6.1\nram 0-0xff\npages 0x100 anon",
            "line 3: page frame 0x100 is not RAM",
        ),
        (
            "kernel 6.1\nram 0-0xff\npages 4 anon n=2 ; 5 cache",
            "line 3: page frame 0x5 is named twice",
        ),
        (
            "kernel 6.1\nram 0-0xff\npages 4 anon fill=same:5",
            "line 3: fill=same: expected a named frame",
        ),
        (
            "kernel 6.1\nram 0-0xff\nnode 0 4-9\nnode 1 0-5",
            "nodes overlap",
        ),
    ] {
        let error = Synth::from_text(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}
