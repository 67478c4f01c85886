//! The instruction that failed, as evidence of a finding.
//!
//! Relies on LIST_POISON1, LIST_POISON2, POISON_FREE and POISON_INUSE (include/linux/poison.h),
//! and on slabs (`slab_object`).

use std::cmp::Ordering;

use bigiron_format::VirtAddr;

use super::finding::Finding;
use crate::instruction::{Access, Instruction, UsedRegister};
use crate::program::Program;
use crate::slab_object::SlabObjects;

/// Values near a pattern are made of it: members of a struct.
const MAX_OFFSET: u64 = 4096;
/// Patterns, with x86-64's CONFIG_ILLEGAL_POINTER_VALUE.
const PATTERNS: [(u64, &str); 5] = [
    (0, "NULL"),
    (
        0xdead_0000_0000_0100,
        "LIST_POISON1, of an element that was removed from its list",
    ),
    (
        0xdead_0000_0000_0122,
        "LIST_POISON2, of an element that was removed from its list",
    ),
    (0x6b6b_6b6b_6b6b_6b6b, "the pattern of freed objects"),
    (
        0x5a5a_5a5a_5a5a_5a5a,
        "the pattern of objects that were not initialized",
    ),
];
/// Bits of an address with five levels of page tables, and of an address of user space with four.
const ADDRESS_BITS: u32 = 57;
const USER_BITS: u32 = 47;

/// Adds the instruction to a finding, and what the registers are from which it makes its address.
pub fn describe(program: &Program, mut finding: Finding, instruction: Instruction) -> Finding {
    let access = instruction.access.as_ref().map(access).unwrap_or_default();
    finding = finding.because(format!("the instruction is `{}`{access}", instruction.text));
    let slabs = SlabObjects::of(program).ok();
    let registers = instruction
        .access
        .iter()
        .flat_map(|access| &access.registers);
    for register in registers {
        finding = finding.because_of(of_register(program, slabs.as_ref(), register));
    }
    finding.instruction = Some(instruction);
    finding
}

/// Formats `: it reads 8 bytes at %rax + 0x18, that is thing->next->values`.
fn access(access: &Access) -> String {
    let size = match access.size {
        0 => String::new(),
        1 => " a byte".into(),
        size => format!(" {size} bytes"),
    };
    let what = match &access.expression {
        Some(expression) => format!(", that is {expression}"),
        None => String::new(),
    };
    format!(": it {}{size} at {}{what}", access.does, access.sum)
}

fn of_register(
    program: &Program,
    slabs: Option<&SlabObjects>,
    register: &UsedRegister,
) -> Option<String> {
    let UsedRegister {
        name,
        value,
        origin,
    } = register;
    let what = value.and_then(|value| what_is(program, slabs, value.0));
    let parts: Vec<String> = [value.map(|value| value.to_string()), what, origin.clone()]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| format!("{name} is {}", parts.join(", ")))
}

/// What a pointer is; `None` if nothing is known of it.
fn what_is(program: &Program, slabs: Option<&SlabObjects>, value: u64) -> Option<String> {
    let pattern = PATTERNS.iter().find(|(pattern, _)| *pattern == value);
    let near = PATTERNS
        .iter()
        .filter(|(pattern, _)| value.abs_diff(*pattern) < MAX_OFFSET)
        .min_by_key(|(pattern, _)| value.abs_diff(*pattern));
    if let Some((pattern, what)) = pattern.or(near) {
        let offset = value.abs_diff(*pattern);
        return Some(match value.cmp(pattern) {
            Ordering::Equal => (*what).to_owned(),
            Ordering::Greater => format!("{offset:#x} bytes behind {what}"),
            Ordering::Less => format!("{offset:#x} bytes before {what}"),
        });
    }
    let sign = value.cast_signed() >> (ADDRESS_BITS - 1);
    if sign != 0 && sign != -1 {
        return Some("not canonical: no pointer".into());
    }
    if value >> USER_BITS == 0 {
        return Some("an address of user space".into());
    }
    if let Some(symbol) = program.symbol_at(VirtAddr(value)) {
        return Some(format!("in {symbol}"));
    }
    let object = slabs?.at(VirtAddr(value))?;
    Some(match object.offset {
        0 => format!("the {object}"),
        offset => format!("{offset} bytes behind the start of the {object}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_told_with_what_is_there() {
        let mut found = Access {
            does: "reads",
            size: 8,
            address: None,
            sum: "%rax + 0x18".into(),
            expression: Some("thing->next->values[0]".into()),
            registers: Vec::new(),
        };
        assert_eq!(
            access(&found),
            ": it reads 8 bytes at %rax + 0x18, that is thing->next->values[0]"
        );
        (found.size, found.expression) = (0, None);
        assert_eq!(access(&found), ": it reads at %rax + 0x18");
    }
}
