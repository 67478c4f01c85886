//! Writes the ELF core of a synthetic machine: `synth_core [OPTION …] OUTPUT` reads the
//! machine's text from standard input (see the crate's documentation). The core is that of
//! /proc/vmcore, with `--qemu` QEMU's, with `--physical` that of /proc/vmcore with physical
//! addresses at p_vaddr. With `--mappings FILE`, FILE gets a line for each thing that the kernel can address:
//! virtual address, physical address and length in hexadecimal;
//! the physical address of the top-level page table is printed.

#![allow(clippy::expect_used, reason = "a tool that cannot go on should panic")]

use std::fmt::Write;
use std::fs;
use std::io::read_to_string;

use bigiron_synth::{ByteOrder, ElfShape, Synth, Vaddr};

const USAGE: &str = "usage: synth_core [--qemu|--physical] [--mappings FILE] OUTPUT <TEXT";

fn main() {
    let mut shape = ElfShape::vmcore();
    let mut mappings = None;
    let mut qemu = false;
    let mut output = None;
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--qemu") => {
                qemu = true;
                shape = ElfShape {
                    vaddr: Vaddr::Physical,
                    ..ElfShape::qemu()
                };
            }
            Some("--physical") => {
                shape.vaddr = Vaddr::Physical;
                shape.image_load = false;
            }
            Some("--mappings") => mappings = arguments.next(),
            _ => output = Some(argument),
        }
    }
    let output = output.expect(USAGE);
    let text = read_to_string(std::io::stdin()).expect("a text");
    let machine = Synth::from_text(&text).unwrap_or_else(|error| panic!("{error}"));
    if qemu && machine.spec().platform.name == "ppc64le" {
        // As QEMU 7.2 writes it.
        shape.headers = Some(ByteOrder::Big);
    }
    fs::write(output, machine.elf(&shape)).expect("a file");
    let Some(file) = mappings else { return };
    let mut lines = String::new();
    for mapping in machine.mappings() {
        let (virt, len) = (
            mapping.virt.start,
            mapping.virt.end.wrapping_sub(mapping.virt.start),
        );
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "{virt:x} {:x} {len:x}", mapping.paddr);
    }
    fs::write(file, lines).expect("a file");
    println!("{:x}", machine.top_table());
}
