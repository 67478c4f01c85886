//! The memory that an instruction accesses, by the values of its registers.

use bigiron_format::VirtAddr;
use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory};
use serde::Serialize;

use super::origin::Origins;
use super::registers::{has_base, name};
use crate::json::hexadecimal_if_any;

/// A fault is that close to the address of the operand: the page that it crosses into.
const MAX_SIZE: u64 = 64;

/// An access to memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Access {
    /// `reads`, `writes`, or `changes`.
    pub does: &'static str,
    /// Bytes accessed; 0 if they depend on a count.
    pub size: usize,
    /// The address, if the registers tell it.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "hexadecimal_if_any"
    )]
    pub address: Option<VirtAddr>,
    /// The sum that makes the address: `%rax + 0x18`.
    pub sum: String,
    /// The C expression of what is there, by the types of the function's arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// The registers of the sum.
    pub registers: Vec<UsedRegister>,
}

/// A register that an address is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsedRegister {
    /// Name, `%rax`.
    pub name: String,
    /// Its value, if the kernel printed it.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "hexadecimal_if_any"
    )]
    pub value: Option<VirtAddr>,
    /// Where it has the value from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl Access {
    /// Returns the access that failed at `failed`, else the first one of the instruction.
    pub fn of(origins: &Origins, instruction: &Instruction, failed: Option<u64>) -> Option<Self> {
        let mut factory = InstructionInfoFactory::new();
        let used = factory.info(instruction).used_memory();
        let mut real = used.iter().filter(|used| does(used).is_some());
        let address = |used: &UsedMemory| address(origins, used);
        let is_it = |used: &&UsedMemory| {
            let found = address(used).zip(failed);
            found.is_some_and(|(address, failed)| failed.wrapping_sub(address) < MAX_SIZE)
        };
        let used = match real.clone().find(is_it) {
            Some(used) => used,
            None => real.next()?,
        };
        let registers = [used.base(), used.index()].into_iter();
        let registers = registers.filter(|register| *register != Register::None);
        let registers: Vec<Register> = registers.collect();
        let origin = |register: Register| origins.of(register, origins.failed);
        let expression = match registers.as_slice() {
            [base] if used.index() == Register::None => {
                let origin = origin(*base);
                origin.and_then(|origin| origins.member(origin.expression?, used.displacement()))
            }
            _ => None,
        };
        Some(Self {
            does: does(used)?,
            size: used.memory_size().size(),
            address: address(used).map(VirtAddr),
            sum: sum(used),
            expression: expression.map(|(text, _)| text),
            registers: registers
                .iter()
                .map(|register| UsedRegister {
                    name: name(*register),
                    value: origins.registers.value(*register).map(VirtAddr),
                    origin: origin(*register).map(|origin| origin.text),
                })
                .collect(),
        })
    }
}

fn does(used: &UsedMemory) -> Option<&'static str> {
    match used.access() {
        OpAccess::Read | OpAccess::CondRead => Some("reads"),
        OpAccess::Write | OpAccess::CondWrite => Some("writes"),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some("changes"),
        _ => None,
    }
}

/// Computes the address. The bases of FS and GS are not known.
fn address(origins: &Origins, used: &UsedMemory) -> Option<u64> {
    if has_base(used.segment()) {
        return None;
    }
    let value = |register| match register {
        Register::None => Some(0),
        _ => origins.registers.value(register),
    };
    let index = value(used.index())?.wrapping_mul(u64::from(used.scale()));
    let base = value(used.base())?;
    Some(base.wrapping_add(index).wrapping_add(used.displacement()))
}

fn sum(used: &UsedMemory) -> String {
    let mut parts = Vec::new();
    if has_base(used.segment()) {
        parts.push(name(used.segment()));
    }
    if used.base() != Register::None {
        parts.push(name(used.base()));
    }
    if used.index() != Register::None {
        parts.push(match used.scale() {
            1 => name(used.index()),
            scale => format!("{scale} * {}", name(used.index())),
        });
    }
    let displacement = used.displacement().cast_signed();
    let start = parts.join(" + ");
    match (start.is_empty(), displacement) {
        (true, _) => format!("{displacement:#x}"),
        (false, 0) => start,
        (false, ..0) => format!("{start} - {:#x}", displacement.unsigned_abs()),
        (false, _) => format!("{start} + {displacement:#x}"),
    }
}
