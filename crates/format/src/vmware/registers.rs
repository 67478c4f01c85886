//! The registers of the CPUs: a tag for each, or a block for all general ones.

use std::collections::BTreeMap;

use super::tags::{Place, Tag};
use crate::bytes::{Endian, ReadAt};
use crate::elf::x86_64::{Register, Registers};
use crate::error::FormatError;

/// Maximum number of CPUs.
const MAX_CPUS: u32 = 4096;

/// The general registers in the order of the block `gpregs`, with the names of their tags.
const GENERAL: [(&[u8], Register); 16] = [
    (b"rax", Register::Rax),
    (b"rcx", Register::Rcx),
    (b"rdx", Register::Rdx),
    (b"rbx", Register::Rbx),
    (b"rbp", Register::Rbp),
    (b"rsp", Register::Rsp),
    (b"rsi", Register::Rsi),
    (b"rdi", Register::Rdi),
    (b"r8", Register::R8),
    (b"r9", Register::R9),
    (b"r10", Register::R10),
    (b"r11", Register::R11),
    (b"r12", Register::R12),
    (b"r13", Register::R13),
    (b"r14", Register::R14),
    (b"r15", Register::R15),
];
const OTHERS: [(&[u8], Register); 3] = [
    (b"rip", Register::Rip),
    (b"eflags", Register::Rflags),
    (b"EFLAGS", Register::Rflags),
];

/// The registers by CPU.
#[derive(Debug, Default)]
pub(super) struct Cpus(BTreeMap<u32, Registers>);

impl Cpus {
    /// Takes a tag of the group `cpu`.
    pub(super) fn take(&mut self, file: &dyn ReadAt, tag: &Tag<'_>) -> Result<(), FormatError> {
        let cpu = tag.indices[0];
        if cpu >= MAX_CPUS {
            return Ok(());
        }
        match tag.place {
            Place::Value(value) => {
                let mut known = GENERAL.iter().chain(&OTHERS);
                if let Some((_, register)) = known.find(|(name, _)| *name == tag.name) {
                    self.0.entry(cpu).or_default().set(*register, value);
                }
            }
            Place::Block { offset, size } if tag.name == b"gpregs" => {
                let mut block = [0; 8 * GENERAL.len()];
                if size != block.len() as u64 {
                    return Ok(());
                }
                file.read_exact_at("the registers", offset, &mut block)?;
                let registers = self.0.entry(cpu).or_default();
                for (index, (_, register)) in GENERAL.iter().enumerate() {
                    let value = Endian::Little.u64(&block, 8 * index);
                    registers.set(*register, value.unwrap_or(0));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A note for each CPU, in their order.
    pub(super) fn notes(&self) -> Vec<u8> {
        let notes = self.0.values().map(|registers| {
            let mut registers = *registers;
            // Segments are in other tags, whose form is not known.
            registers.guess_code_segment();
            registers.note()
        });
        notes.collect::<Vec<_>>().concat()
    }
}
