//! Writes the ELF core of a synthetic machine: `synth_core OUTPUT` reads the machine's text
//! from standard input (see the crate's documentation), and writes the core as /proc/vmcore.

#![allow(clippy::expect_used, reason = "a tool that cannot go on should panic")]

use std::fs;
use std::io::read_to_string;

use bigiron_synth::{ElfShape, Synth};

fn main() {
    let output = std::env::args_os()
        .nth(1)
        .expect("usage: synth_core OUTPUT <TEXT");
    let text = read_to_string(std::io::stdin()).expect("a text");
    let machine = Synth::from_text(&text).expect("a legal text");
    fs::write(output, machine.elf(&ElfShape::vmcore())).expect("a file");
}
