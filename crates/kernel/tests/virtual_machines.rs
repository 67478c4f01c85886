//! The memory of virtual machines in the forms that hypervisors save it, as `bigiron_synth` writes
//! them: QEMU's migration stream, libvirt's save image, VMware's saved state, VirtualBox's core, and
//! the core of a Xen guest.

#![cfg(feature = "images")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::path::PathBuf;
use std::sync::OnceLock;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::ReadAt;
use bigiron_format::{PageFrame, VirtAddr};
use bigiron_kernel::{IoMethod, Kernel, SECTION_FRAMES, Source, SourceError};
use bigiron_synth::{Machine, MigrationShape, Synth, XenGuest};

const PAGE: usize = 4096;
/// A machine with RAM above 4 GiB, as QEMU places it behind the first 2 GiB of 2824 MiB.
const MACHINE: &str = "kernel 6.12 cpus=3 stack=3 direct=2m
    ram 0x0-0x9f 0x100-0x17ff 0x130000-0x1307ff
    pages 0x400 slab n=64 fill=random ; 0x130100 slab n=64 fill=random";

fn machine() -> &'static Machine {
    static MADE: OnceLock<Machine> = OnceLock::new();
    MADE.get_or_init(|| Synth::from_text(MACHINE).unwrap())
}

fn open(files: Vec<Vec<u8>>) -> Result<Source, SourceError> {
    let files = files.into_iter().enumerate().map(|(index, file)| {
        let bytes: Box<dyn ReadAt> = Box::new(file);
        (bytes, PathBuf::from(format!("file{index}")))
    });
    Source::from_several(files.collect())
}

fn refused(file: Vec<u8>, reason: &str) {
    let error = open(vec![file]).err().unwrap().to_string();
    assert!(error.contains(reason), "{error}");
}

/// The page of the machine, as an image has it.
type Page<'p> = &'p dyn Fn(u64) -> Vec<u8>;

/// Asserts that all pages of the machine's RAM are right; returns how many are absent.
fn check_pages(source: &Source, page: Page<'_>) -> usize {
    let memory = source.memory();
    let mut reader = memory.reader(IoMethod::Auto);
    let mut bits = Bitmap::new(SECTION_FRAMES as usize);
    let mut present = 0;
    for first in memory.sections() {
        memory.present(first, &mut bits).unwrap();
        let mut at = 0;
        while let Some((start, len)) = bits.next_run(at, bits.len(), 100) {
            let frame = first.0 + start as u64;
            let pages = reader.pages(PageFrame(frame), len).unwrap();
            for (frame, found) in (frame..).zip(pages.chunks_exact(PAGE)) {
                assert!(page(frame) == found, "{frame:#x}");
            }
            present += pages.len() / PAGE;
            at = start + pages.len() / PAGE;
        }
    }
    let ram: u64 = machine()
        .ram()
        .iter()
        .map(|range| range.end - range.start)
        .sum();
    ram as usize - present
}

fn plain(frame: u64) -> Vec<u8> {
    machine().page(frame).unwrap()
}

/// Asserts that the kernel is found, and with `registers` those of its CPUs.
fn check_kernel(source: &Source, registers: bool) {
    let kernel = Kernel::find(source, None, IoMethod::Read, 64).unwrap();
    assert!(kernel.utsname().release().starts_with("6.12"));
    let notes: Vec<_> = source.memory().notes().intact().collect();
    let notes = notes.iter().filter(|note| note.name == b"CORE");
    let mut count = 0;
    for (cpu, note) in notes.enumerate() {
        let expected = machine().registers(cpu as u32);
        let at = |index: usize| {
            let at = 112 + 8 * index;
            u64::from_le_bytes(note.desc[at..at + 8].try_into().unwrap())
        };
        let found = (at(16), at(19), at(4), at(17));
        assert_eq!(found, (expected.pc, expected.sp, expected.fp, 0x10));
        count += 1;
    }
    assert_eq!(count, if registers { 3 } else { 0 });
}

fn check(files: Vec<Vec<u8>>, kind: &str, registers: bool) {
    let source = open(files).unwrap();
    assert_eq!(source.kind(), kind);
    assert_eq!(source.damage(), None);
    assert_eq!(check_pages(&source, &plain), 0);
    check_kernel(&source, registers);
}

#[test]
fn migration_stream_has_the_pages_that_were_sent_last() {
    let shapes = [
        (MigrationShape::Stopped, "QEMU migration stream"),
        (MigrationShape::Running, "QEMU migration stream"),
        (MigrationShape::Libvirt, "libvirt save image"),
    ];
    for (shape, kind) in shapes {
        check(vec![machine().migration(shape)], kind, false);
    }
}

#[test]
fn truncated_migration_stream_has_the_pages_before_its_end() {
    let mut stream = machine().migration(MigrationShape::Stopped);
    let whole = stream.len();
    stream.truncate(whole - whole / 8);
    let source = open(vec![stream]).unwrap();
    assert!(source.damage().unwrap().contains("truncated"));
    let absent = check_pages(&source, &plain);
    assert!(absent > 0 && absent < 0x1000, "{absent}");
    check_kernel(&source, false);
}

#[test]
fn migration_stream_in_a_form_that_is_not_read_is_refused_by_name() {
    let stream = machine().migration(MigrationShape::Stopped);
    // The first page, behind the end of the first section and the start of the next one.
    let names = stream.windows(9).enumerate();
    let mut names = names.filter(|(_, bytes)| bytes == b"\x08vga.vram");
    let word = names.nth(1).unwrap().0 - 8;
    let mut other = stream.clone();
    other[word..word + 8].copy_from_slice(&0x140_u64.to_be_bytes());
    refused(other, "xbzrle");
    let mut other = stream.clone();
    other[7] = 2;
    refused(other, "version 2");
    let unknown = replaced(&stream, b"pc.ram", b"un.ram");
    refused(unknown, "RAM blocks are vga.vram, un.ram, pc.bios");
    let mut other = machine().migration(MigrationShape::Libvirt);
    other[28] = 5;
    refused(other, "zstd");
    let capability = [
        &b"QEVM\0\0\0\x03\x07\0\0\0\x01x\x05\x1aconfiguration/capabilities\0\0\0\x01"[..],
        b"\0\0\0\x01\x0amapped-ram",
    ];
    refused(capability.concat(), "mapped-ram, which is not read");
}

/// Replaces all of `old` by `new`.
fn replaced(bytes: &[u8], old: &[u8; 6], new: &[u8; 6]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let places = bytes.windows(6).enumerate();
    let places: Vec<usize> = places.filter(|(_, w)| w == old).map(|(at, _)| at).collect();
    for at in places {
        bytes[at..at + 6].copy_from_slice(new);
    }
    bytes
}

#[test]
fn vmware_state_has_the_memory_or_names_the_file_with_it() {
    check(vec![machine().vmware_state()], "VMware saved state", true);
    let (state, memory) = machine().vmware_files();
    let files = vec![state.clone(), memory.clone()];
    check(files, "VMware saved state", true);
    check(vec![memory, state.clone()], "VMware saved state", true);
    refused(state, "file0.vmem");
}

#[test]
fn truncated_memory_of_vmware_lacks_its_last_pages() {
    let mut state = machine().vmware_state();
    // Two bytes follow the memory.
    state.truncate(state.len() - 100 * PAGE);
    let source = open(vec![state]).unwrap();
    assert!(source.damage().unwrap().contains("409598 bytes"));
    assert_eq!(check_pages(&source, &plain), 100);
    let (state, mut memory) = machine().vmware_files();
    memory.truncate(memory.len() - 10 * PAGE);
    let source = open(vec![state, memory]).unwrap();
    assert!(source.damage().unwrap().contains("40960 bytes"));
    assert_eq!(check_pages(&source, &plain), 10);
}

#[test]
fn old_and_compressed_states_of_vmware_and_those_of_hyper_v_are_refused_by_name() {
    let mut state = machine().vmware_state();
    state[2] = 0xd0;
    state[0] = 0xd0;
    refused(state, "64 bits");
    let mut state = machine().vmware_state();
    let at = state
        .windows(6)
        .rposition(|bytes| bytes == b"Memory")
        .unwrap();
    state[at - 2] -= 1;
    refused(state, "compressed memory");
    let saved = [&b"\x14\x20\x28\x01"[..], &[0; 8192]].concat();
    refused(saved, "Hyper-V");
}

#[test]
fn core_of_virtualbox_has_registers_and_a_kernel_without_notes() {
    check(vec![machine().virtualbox_core()], "ELF core", true);
}

#[test]
fn core_of_a_xen_guest_has_its_pages_and_registers() {
    let core = machine().xen_core(XenGuest::Hardware);
    check(vec![core], "core of a Xen guest", true);
}

#[test]
fn page_tables_of_a_paravirtual_guest_lead_to_its_own_frames() {
    let core = machine().xen_core(XenGuest::Paravirtual);
    let source = open(vec![core]).unwrap();
    assert_eq!(source.kind(), "core of a paravirtual Xen guest");
    assert_eq!(source.damage(), None);
    check_kernel(&source, true);
    let kernel = Kernel::find(&source, None, IoMethod::Read, 64).unwrap();
    for mapping in machine().mappings() {
        let start = VirtAddr(mapping.virt.start);
        let leaf = kernel.translate(start).unwrap();
        let found = leaf.map(|leaf| leaf.physical.0);
        // What is mapped without being RAM has no frame.
        let is_ram = machine().page(mapping.paddr >> 12).is_some();
        if is_ram || found.is_some() {
            assert_eq!(found, Some(mapping.paddr), "{start:?}");
        }
    }
}

#[test]
fn core_of_a_xen_guest_without_all_of_its_list_of_frames_is_refused() {
    // The list is behind the pages.
    let core = machine().xen_core(XenGuest::Hardware);
    for len in [core.len() - 8, core.len() / 2] {
        let error = open(vec![core[..len].to_vec()]).err().unwrap().to_string();
        assert!(error.contains("truncated"), "{error}");
    }
}
