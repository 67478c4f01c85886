//! The ELF files have the described layouts, and binutils can read them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::process::Command;

use bigiron_synth::{ElfShape, Machine, Synth};
use common::{Scratch, installed};

const TEXT: &str = "kernel 6.12 cpus=2 vmemmap_leaf=4k image_leaf=4k
ram 0x0-0x9f 0x100-0x7ff 0x100000-0x1003ff
pages 0x100 anon n=8 fill=random ; 0x110 free order=4 fill=zero
pages 0x120 cache n=2 fill=same:0x100";

fn machine() -> Machine {
    Synth::from_text(TEXT).expect("a legal text")
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Every layout contains every page of RAM, at the offset given by its PT_LOAD.
#[test]
fn all_layouts_contain_all_pages() {
    let machine = machine();
    for (name, shape) in ElfShape::all() {
        let image = machine.elf_image(&shape);
        let mut seen = vec![false; machine.max_pfn() as usize];
        for load in &image.loads {
            let header = &image.bytes[load.phdr..];
            assert_eq!(u64_at(header, 8), load.data.start as u64, "{name}");
            assert_eq!(u64_at(header, 24), load.paddr, "{name}");
            for (index, data) in image.bytes[load.data.clone()].chunks(4096).enumerate() {
                let pfn = load.paddr / 4096 + index as u64;
                assert!(machine.page(pfn).unwrap() == data, "{name}: {pfn:#x}");
                seen[pfn as usize] = true;
            }
        }
        let ram: Vec<_> = machine.ram().iter().cloned().flatten().collect();
        assert_eq!(
            seen.iter().filter(|seen| **seen).count(),
            ram.len(),
            "{name}"
        );
        assert!(ram.iter().all(|pfn| seen[*pfn as usize]), "{name}");
    }
}

/// The headers have the particular numbers of their writers.
#[test]
fn headers_have_the_numbers_of_their_writers() {
    let machine = machine();
    let vmcore = machine.elf(&ElfShape::vmcore());
    assert_eq!((u64_at(&vmcore, 32), u16_at(&vmcore, 52)), (64, 64));
    let qemu = machine.elf_image(&ElfShape::qemu());
    assert_eq!((u64_at(&qemu.bytes, 32), u16_at(&qemu.bytes, 52)), (192, 8));
    assert_eq!(u64_at(&qemu.bytes, 40), 64);
    assert!(qemu.loads.iter().all(|load| load.vaddr == 0));
    let extended = machine.elf_image(&ElfShape {
        extended_phnum: true,
        ..ElfShape::vmcore()
    });
    assert_eq!(u16_at(&extended.bytes, 56), 0xffff);
    let count = u64_at(&extended.bytes, extended.shdrs.start + 40) >> 32;
    assert_eq!(count, extended.loads.len() as u64 + 1);
    let vmcoreinfo = qemu.notes.iter().find(|note| note.name == "VMCOREINFO");
    let desc = vmcoreinfo.expect("the note").desc.clone();
    assert_eq!(&qemu.bytes[desc], machine.vmcoreinfo().as_bytes());
}

/// `vmcoreinfo=` determines the location of the text.
#[test]
fn vmcoreinfo_is_at_the_requested_location() {
    for (place, note, page) in [
        ("note", true, false),
        ("page", false, true),
        ("both", true, true),
        ("none", false, false),
    ] {
        let text = TEXT.replacen("cpus=2", &format!("vmcoreinfo={place}"), 1);
        let machine = Synth::from_text(&text).unwrap();
        let image = machine.elf_image(&ElfShape::vmcore());
        let has_note = image.notes.iter().any(|note| note.name == "VMCOREINFO");
        assert_eq!(has_note, note, "{place}");
        let in_memory = machine
            .ram()
            .iter()
            .cloned()
            .flatten()
            .any(|pfn| machine.page(pfn).unwrap().starts_with(b"OSRELEASE=6.12"));
        assert_eq!(in_memory, page, "{place}");
        assert_eq!(machine.vmcoreinfo_page().is_some(), page, "{place}");
    }
}

/// readelf reads every layout without a warning and lists its contents. (With -S it would warn
/// about the count in section 0.)
#[test]
fn readelf_reads_every_layout() {
    if !installed("readelf", "--version") {
        return;
    }
    let machine = machine();
    for (index, (name, shape)) in ElfShape::all().iter().enumerate() {
        let image = machine.elf_image(shape);
        let file = Scratch::new(&format!("readelf-{index}"));
        std::fs::write(&file.0, &image.bytes).unwrap();
        let output = Command::new("readelf")
            .args(["-lnW"])
            .arg(&file.0)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {complaints}");
        assert_eq!(complaints, "", "{name}");
        let lines = |begin: &str| {
            said.lines()
                .filter(|line| line.trim_start().starts_with(begin))
                .count()
        };
        assert_eq!(lines("LOAD "), image.loads.len(), "{name}\n{said}");
        assert_eq!(lines("VMCOREINFO "), 1, "{name}\n{said}");
        let cpus = if shape.prstatus { 2 } else { 0 };
        assert_eq!(said.matches("NT_PRSTATUS").count(), cpus, "{name}\n{said}");
    }
}
