//! makedumpfile keeps exactly the pages that the text's oracle keeps.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::path::Path;
use std::process::Command;

use bigiron_synth::{ElfShape, Machine, Synth, presets, random_machine};
use common::{Scratch, installed};

/// Levels that contain each bit alone, combined with others, and not at all.
const LEVELS: [u8; 9] = [0, 1, 2, 4, 6, 8, 16, 23, 31];

/// True if the installed makedumpfile supports this kernel's struct pages. 1.7.2 supports
/// kernels up to 6.1; later changes of names require later versions.
fn knows(version: (u32, u32, u32), kernel: &str) -> bool {
    let needed = match kernel {
        "4.19" | "5.4" | "5.10" | "5.15" | "6.1" => (1, 7, 0),
        "6.3" => (1, 7, 3),
        "6.6" | "6.9" => (1, 7, 5),
        "6.10" | "6.12" => (1, 7, 7),
        // Page types of 6.16 are supported from 1.7.9 on; no release supports 7.1's yet.
        "6.16" => (1, 7, 9),
        _ => return false,
    };
    version >= needed
}

fn version() -> Option<(u32, u32, u32)> {
    if !installed("makedumpfile", "-v") {
        return None;
    }
    let output = Command::new("makedumpfile").arg("-v").output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let (_, rest) = said.split_once("version ")?;
    let mut numbers = rest
        .split(|c: char| !c.is_ascii_digit())
        .map(|word| word.parse().unwrap_or(0));
    Some((numbers.next()?, numbers.next()?, numbers.next()?))
}

/// Returns the second bitmap of a kdump-compressed file, one bool per page frame.
fn second_bitmap(file: &Path) -> Vec<bool> {
    let bytes = std::fs::read(file).unwrap();
    assert!(bytes.starts_with(b"KDUMP   "));
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (block, sub_header, bitmaps) = (u32_at(428), u32_at(432), u32_at(436));
    let frames = u64::from_le_bytes(bytes[block + 96..block + 104].try_into().unwrap());
    let start = (1 + sub_header + bitmaps / 2) * block;
    (0..frames as usize)
        .map(|pfn| bytes[start + pfn / 8] >> (pfn % 8) & 1 == 1)
        .collect()
}

fn compare(machine: &Machine, shape: &ElfShape, level: u8, what: &str) {
    let (input, output) = (Scratch::new("in"), Scratch::new("out"));
    std::fs::write(&input.0, machine.elf(shape)).unwrap();
    // Without -c the pages are not compressed, which would take most of the time.
    let run = Command::new("makedumpfile")
        .args(["-d", &level.to_string()])
        .args([&input.0, &output.0])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    assert!(run.status.success(), "{what}, level {level}: {said}");
    let kept = second_bitmap(&output.0);
    let expected = machine.expected_dumpable(level);
    assert_eq!(kept.len(), expected.len(), "{what}, level {level}");
    let wrong: Vec<_> = (0..expected.len())
        .filter(|pfn| kept[*pfn] != expected[*pfn])
        .map(|pfn| format!("{pfn:#x} {:?} kept: {}", machine.run(pfn as u64), kept[pfn]))
        .collect();
    let few = &wrong[..wrong.len().min(10)];
    assert!(
        wrong.is_empty(),
        "{what}, level {level}: {} wrong: {few:#?}",
        wrong.len()
    );
}

/// Random machines of every kernel that the installed makedumpfile supports, in the layout of
/// /proc/vmcore, at several dump levels.
#[test]
fn makedumpfile_keeps_the_expected_pages() {
    let Some(version) = version() else { return };
    for kernel in presets() {
        if !knows(version, kernel) {
            println!("skipped: makedumpfile {version:?} does not support {kernel}");
            continue;
        }
        for seed in 0..3 {
            let mut text = random_machine(seed, kernel);
            // Older versions treat any word at page.mapping with bit 0 set as an anonymous
            // mapping, even for slab.
            if version < (1, 7, 7) {
                text = text.replace(" anonbit", "");
            }
            let machine = Synth::from_text(&text).unwrap();
            // Each machine at three of the levels; the seeds together cover all levels.
            for level in LEVELS.iter().skip(seed as usize).step_by(3) {
                compare(
                    &machine,
                    &ElfShape::vmcore(),
                    *level,
                    &format!("{kernel}, seed {seed}"),
                );
            }
        }
    }
}

/// Cases that the random texts omit: blocks with an impossible order, which are kept, and
/// optimized vmemmap, whose tails look like heads.
#[test]
fn unusual_struct_pages_are_kept_or_excluded_as_expected() {
    let Some(version) = version() else { return };
    let cases = [
        (
            "5.10",
            "pages 0x400 free order=4 badorder=11 ; 0x500 free order=4 n=3",
        ),
        (
            "6.1",
            "pages 0x400 hugetlb hvo n=2 ; 0x800 hugetlb hvo order=8 hwpoison",
        ),
    ];
    for (kernel, pages) in cases {
        if !knows(version, kernel) {
            continue;
        }
        let text = format!("kernel {kernel} vmemmap_leaf=4k\nram 0x0-0x1fff\n{pages}");
        let machine = Synth::from_text(&text).unwrap();
        for level in [0, 8, 16, 31] {
            compare(&machine, &ElfShape::vmcore(), level, pages);
        }
    }
}

/// Without PG_hwpoison, levels 0 and 1 do not read struct pages, and offline pages are kept.
/// More PT_LOADs, out of order, change nothing.
#[test]
fn offline_pages_are_kept_without_hwpoison() {
    let Some(version) = version() else { return };
    for kernel in presets()
        .into_iter()
        .filter(|kernel| knows(version, kernel))
    {
        let text = format!(
            "kernel {kernel} memory_failure=no
             ram 0x0-0x1fff
             pages 0x400 cache n=16 ; 0x500 anon n=16"
        );
        let offline = if kernel == "4.19" {
            ""
        } else {
            "\npages 0x600 offline n=32"
        };
        let machine = Synth::from_text(&(text + offline)).unwrap();
        let shape = ElfShape {
            loads_per_range: 3,
            ..ElfShape::vmcore()
        };
        for level in [0, 1, 2, 31] {
            compare(&machine, &shape, level, kernel);
        }
    }
}
