//! A short unwinder for each architecture finds the calls on a CPU's stack, from the registers in
//! its note.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use bigiron_synth::{ByteOrder, ElfShape, Machine, Synth};
use common::reader::Reader;

/// Offsets in pr_reg of the program counter, and of the register by which the stack is unwound.
fn offsets(arch: &str) -> (usize, usize) {
    match arch {
        "x86_64" => (16 * 8, 4 * 8),
        "aarch64" => (32 * 8, 29 * 8),
        "s390x" => (8, 16 + 15 * 8),
        "riscv64" => (0, 8 * 8),
        "loongarch64" => (33 * 8, 3 * 8),
        _ => (32 * 8, 8),
    }
}

/// Returns the caller's frame and its return address.
fn step(reader: &Reader<'_>, frame: u64) -> (u64, u64) {
    match reader.arch.as_str() {
        "riscv64" => (reader.virt(frame - 16), reader.virt(frame - 8)),
        "s390x" => match reader.virt(frame + 152) {
            0 => (0, 0),
            next => (next, reader.virt(next + 136)),
        },
        "ppc64le" | "ppc64" => match reader.virt(frame) {
            0 => (0, 0),
            next => (next, reader.virt(next + 16)),
        },
        _ => (reader.virt(frame), reader.virt(frame + 8)),
    }
}

/// Unwinds loongarch64 by the instructions before each address: `addi.d sp, sp, SIZE` and
/// `st.d ra, sp, OFFSET`. The outermost function has none.
fn unwind_by_prologues(reader: &Reader<'_>, pc: u64, mut sp: u64) -> Vec<u64> {
    let mut calls = vec![pc];
    loop {
        let code = reader.virt(calls[calls.len() - 1] / 64 * 64 - 12);
        let (make, keep) = (code as u32, (code >> 32) as u32);
        if make & 0xffc0_03ff != 0x02c0_0063 || keep & 0xffc0_03ff != 0x29c0_0061 {
            return calls;
        }
        // Twelve bits from bit 10 on.
        let number = |word: u32| i64::from((word << 10).cast_signed() >> 20);
        calls.push(reader.virt(sp.wrapping_add_signed(number(keep))));
        sp = sp.wrapping_add_signed(-number(make));
    }
}

fn unwind(machine: &Machine, pr_reg: &[u8]) -> Vec<u64> {
    let reader = Reader::new(machine);
    let word = |at: usize| {
        let bytes = pr_reg[at..at + 8].try_into().unwrap();
        match machine.order() {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        }
    };
    let (pc, frame) = offsets(&reader.arch);
    let mut calls = vec![word(pc)];
    // Until 6.4 r1 of ppc64 belongs to the function at lr.
    if reader.arch.starts_with("ppc64") && machine.spec().kernel.version < (6, 5) {
        calls.push(word(36 * 8));
    }
    let mut frame = word(frame);
    if reader.arch == "loongarch64" {
        return unwind_by_prologues(&reader, calls[0], frame);
    }
    loop {
        let (next, address) = step(&reader, frame);
        if next == 0 {
            return calls;
        }
        let signature = reader.number("KERNELPACMASK").unwrap_or(0);
        calls.push(address | signature);
        frame = next;
    }
}

#[test]
fn unwinders_find_the_calls() {
    for (arch, base) in [
        ("x86_64", 0_u64),
        ("arm64", 1 << 30),
        ("arm64 pages=64k bits=52", 1 << 30),
        ("s390x", 0),
        ("ppc64le", 0),
        ("ppc64", 0),
        ("riscv64", 2 << 30),
        ("loongarch64", 0),
    ] {
        for kernel in ["6.3", "6.12", "7.1"] {
            let name = format!("{arch}, {kernel}");
            // The page size decides the numbers of the frames.
            let size: u64 = match arch {
                "loongarch64" => 16 << 10,
                _ if arch.starts_with("ppc64") || arch.contains("64k") => 64 << 10,
                _ => 4 << 10,
            };
            let (first, end) = (base / size, (base + (60 << 20)) / size);
            let text = format!(
                "arch {arch}\nkernel {kernel} cpus=3 stack=9\nram {first:#x}-{:#x}",
                end - 1
            );
            let machine = Synth::from_text(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            let image = machine.elf_image(&ElfShape::vmcore());
            let notes = image.notes.iter().filter(|note| note.name == "CORE");
            // s390x has another note of that name for each CPU.
            let notes = notes.filter(|note| note.desc.len() >= 336);
            let mut cpus = 0;
            for (cpu, note) in notes.enumerate() {
                let desc = &image.bytes[note.desc.clone()];
                let calls = machine.stack(cpu as u32);
                assert_eq!(calls.len(), 9, "{name}");
                assert_eq!(unwind(&machine, &desc[112..]), calls, "{name}, CPU {cpu}");
                cpus += 1;
            }
            assert_eq!(cpus, 3, "{name}");
        }
    }
}

/// Return addresses of arm64 are signed in the bits that KERNELPACMASK names.
#[test]
fn some_return_addresses_of_arm64_are_signed() {
    let text = "arch arm64\nkernel 6.12 stack=9\nram 0x40000-0x41fff";
    let machine = Synth::from_text(text).unwrap();
    let reader = Reader::new(&machine);
    let mut frame = machine.registers(0).fp;
    let mut signed = 0;
    while frame != 0 {
        let (next, address) = step(&reader, frame);
        signed += u32::from(next != 0 && address >> 48 != 0xffff);
        frame = next;
    }
    assert_eq!(signed, 4);
}
