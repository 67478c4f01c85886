//! Instructions of the real kernel in samples/, as if they had failed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod sample;

use bigiron_inspect::Program;
use bigiron_inspect::instruction::{Failed, Instruction, Registers};

use sample::{sample, with_program};

/// `mov 0x20(%rcx),%rcx`; before it: mov 0xd8(%rdi),%rax; mov (%rax),%rax; mov 0x28(%rax),%rcx.
const LOADS: &str = "generic_file_llseek+0x17/0x20";
const LOADS_BYTES: [u8; 4] = [0x48, 0x8b, 0x49, 0x20];
/// `mov (%rax),%rax`, to which the function jumps.
const JOINED: &str = "dev_driver_string+0xe/";

fn decode(
    program: &Program,
    place: &str,
    bytes: &[u8],
    registers: &[(&str, u64)],
) -> Option<Instruction> {
    let registers = registers.iter();
    let registers: Vec<_> = registers
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect();
    Instruction::of(
        program,
        &Failed {
            place,
            bytes,
            registers: &Registers::new(&registers),
            address: Some(0x20),
        },
    )
}

#[test]
fn access_is_followed_to_the_argument_of_the_function() {
    with_program(&sample(), |program| {
        let found = decode(program, LOADS, &LOADS_BYTES, &[("RCX", 0)]).unwrap();
        assert_eq!(
            (found.text.as_str(), found.bytes.as_str()),
            ("mov 0x20(%rcx),%rcx", "48 8b 49 20")
        );
        let access = found.access.unwrap();
        assert_eq!((access.does, access.size), ("reads", 8));
        assert_eq!(access.address.unwrap().0, 0x20);
        assert_eq!(access.sum, "%rcx + 0x20");
        assert_eq!(
            access.expression.as_deref(),
            Some("file->f_mapping->host->i_sb->s_maxbytes")
        );
        assert_eq!(
            access.registers[0].origin.as_deref(),
            Some("loaded by `mov 0x28(%rax),%rcx`, that is file->f_mapping->host->i_sb")
        );
    });
}

#[test]
fn memory_that_a_pointer_came_from_is_compared_with_it() {
    with_program(&sample(), |program| {
        let banner = program.symbol("linux_banner").unwrap().0;
        let word = u64::from_le_bytes(*b"Linux ve");
        for (rcx, expected) in [
            (word, "still has that value"),
            (0, "has 0x65762078756e694c in the dump"),
        ] {
            let registers = [("RCX", rcx), ("RAX", banner - 0x28)];
            let found = decode(program, LOADS, &LOADS_BYTES, &registers).unwrap();
            let origin = found.access.unwrap().registers[0].origin.clone().unwrap();
            assert!(origin.ends_with(expected), "{origin}");
        }
    });
}

#[test]
fn nothing_is_told_of_a_register_that_may_come_from_two_ways() {
    with_program(&sample(), |program| {
        let size = program.symbols_named("dev_driver_string")[0].symbol.address;
        let size = program.symbol_at(size).unwrap().size.unwrap();
        let place = format!("{JOINED}{size:#x}");
        let found = decode(program, &place, &[], &[("RAX", 0)]).unwrap();
        assert_eq!(found.text, "mov (%rax),%rax");
        let access = found.access.unwrap();
        assert_eq!(
            (access.expression, access.registers[0].origin.clone()),
            (None, None)
        );
    });
}

#[test]
fn place_that_is_not_the_printed_code_is_refused() {
    with_program(&sample(), |program| {
        for (place, bytes) in [
            (LOADS, &[0x90][..]),
            ("generic_file_llseek+0x18/0x20", &[]),
            ("no_such_function+0x17/0x20", &[]),
            ("generic_file_llseek+0x17/0x20 [faults]", &[]),
            ("generic_file_llseek", &[]),
        ] {
            assert_eq!(decode(program, place, bytes, &[]), None, "{place}");
        }
    });
}
