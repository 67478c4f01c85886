//! Writes a dump of firmware of a synthetic machine: `synth_sadump SHAPE OUTPUT… <TEXT`. SHAPE is
//! `single`, `media`, or `set` for as many disks as there are outputs.

#![allow(clippy::expect_used, reason = "a tool that cannot go on should panic")]

use std::fs;
use std::io::read_to_string;

use bigiron_synth::{SadumpShape, Synth};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let shape = arguments.next().expect("a shape");
    let outputs: Vec<String> = arguments.collect();
    let shape = match shape.as_str() {
        "single" => SadumpShape::Single,
        "media" => SadumpShape::Media,
        "set" => SadumpShape::Set(outputs.len()),
        other => panic!("unknown shape `{other}`"),
    };
    let text = read_to_string(std::io::stdin()).expect("a text");
    let machine = Synth::from_text(&text).unwrap_or_else(|error| panic!("{error}"));
    for (output, disk) in outputs.iter().zip(machine.sadump(shape)) {
        fs::write(output, disk).expect("a file");
    }
}
