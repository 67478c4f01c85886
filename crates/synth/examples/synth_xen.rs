//! Writes the /proc/vmcore of a synthetic Xen host, a sparse file: `synth_xen OUTPUT [KERNEL] <TEXT`.
//! KERNEL is a file with the text of the machine in dom0.

#![allow(clippy::expect_used, reason = "a tool that cannot go on should panic")]

use std::fs::{File, read_to_string as read_file};
use std::io::read_to_string;

use bigiron_synth::{Synth, XenHost};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let output = arguments.next().expect("an output");
    let text = read_to_string(std::io::stdin()).expect("a text");
    let host = match arguments.next() {
        None => XenHost::from_text(&text),
        Some(kernel) => {
            let kernel = read_file(kernel).expect("the text of a kernel");
            let kernel = Synth::from_text(&kernel).unwrap_or_else(|error| panic!("{error}"));
            XenHost::with_dom0(&text, &kernel)
        }
    };
    let host = host.unwrap_or_else(|error| panic!("{error}"));
    let file = File::create(output).expect("a file");
    host.write_sparse(&file).expect("a sparse file");
}
