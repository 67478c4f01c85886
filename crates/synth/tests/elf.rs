//! The ELF files have the described layouts, and binutils can read them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::process::Command;

use bigiron_synth::{ByteOrder, ElfShape, Machine, Synth, random_machine_on};
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

/// Runs readelf; returns its output.
fn readelf(options: &str, bytes: &[u8], name: &str) -> String {
    let file = Scratch::new(name);
    std::fs::write(&file.0, bytes).unwrap();
    let output = Command::new("readelf")
        .arg(options)
        .arg(&file.0)
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert_eq!(complaints, "", "{name}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// readelf names the machine and the byte order of every architecture, and finds a process
/// status note of the right size for every CPU.
#[test]
fn readelf_names_every_architecture() {
    if !installed("readelf", "--version") {
        return;
    }
    for (arch, machine_name, order, status) in [
        ("x86_64", "Advanced Micro Devices X86-64", "little", 336),
        ("arm64", "AArch64", "little", 392),
        ("s390x", "IBM S/390", "big", 336),
        ("ppc64le", "PowerPC64", "little", 504),
        ("ppc64", "PowerPC64", "big", 504),
        ("riscv64", "RISC-V", "little", 376),
        ("loongarch64", "LoongArch", "little", 480),
    ] {
        let machine = Synth::from_text(&random_machine_on(3, arch, "6.12")).unwrap();
        for shape in [ElfShape::vmcore(), ElfShape::qemu()] {
            let said = readelf("-hlnW", &machine.elf(&shape), arch);
            let line = |start: &str| {
                let lines = said.lines().map(str::trim_start);
                lines.filter(|line| line.starts_with(start)).count()
            };
            assert!(said.contains(machine_name), "{arch}: {said}");
            assert!(said.contains(&format!("{order} endian")), "{arch}: {said}");
            let status = format!("{status:#010x}");
            let notes = said
                .lines()
                .filter(|line| line.contains("NT_PRSTATUS") && line.contains(&status));
            let cpus = machine.spec().options.cpus as usize;
            assert_eq!(notes.count(), cpus, "{arch}: {said}");
            assert!(line("LOAD ") > 0, "{arch}: {said}");
        }
    }
}

/// Headers and notes can have another byte order than memory, as QEMU 7.2 writes those of a
/// little-endian ppc64; and QEMU has no VMCOREINFO note there.
#[test]
fn headers_can_have_another_byte_order() {
    let text = "arch ppc64le\nkernel 6.1\nram 0x0-0x3ff\npages 0x100 anon fill=stamp";
    let machine = Synth::from_text(text).unwrap();
    let image = machine.elf_image(&ElfShape {
        headers: Some(ByteOrder::Big),
        ..ElfShape::qemu()
    });
    assert_eq!(image.bytes[..6], *b"\x7fELF\x02\x02");
    assert_eq!(image.bytes[18..20], [0, 21]);
    assert!(image.notes.iter().all(|note| note.name != "VMCOREINFO"));
    let load = &image.loads[0];
    let page = load.data.start + 0x100 * 0x1_0000;
    assert_eq!(u64_at(&image.bytes, page + 8), 0x100_0008);
    if installed("readelf", "--version") {
        let said = readelf("-hnW", &image.bytes, "ppc64le");
        assert!(said.contains("big endian"), "{said}");
        assert!(said.contains("NT_PRSTATUS"), "{said}");
    }
}

/// On s390x the lowcore and os_info point to VMCOREINFO's note in memory.
#[test]
fn lowcore_points_to_vmcoreinfo() {
    let text = "arch s390x\nkernel 6.12 vmcoreinfo=page\nram 0x0-0x1fff";
    let machine = Synth::from_text(text).unwrap();
    let word = |at: u64| u64::from_be_bytes(machine.read(at, 8).unwrap().try_into().unwrap());
    let note = word(0xe0c);
    let info = machine.vmcoreinfo();
    let size = (info.len() as u32).to_be_bytes();
    let header = [&[0, 0, 0, 11], &size[..], &[0; 4], b"VMCOREINFO\0\0"].concat();
    assert_eq!(machine.read(note, header.len()).unwrap(), header);
    let text = machine.read(note + header.len() as u64, info.len());
    assert_eq!(text.unwrap(), info.as_bytes());
    let os_info = word(0xe18);
    assert_eq!(machine.read(os_info, 8).unwrap(), b"OSINFOSZ");
    assert_eq!(word(os_info + 32), note);
}
