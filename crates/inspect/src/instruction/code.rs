//! The instructions of a function.

use std::collections::{HashMap, HashSet};

use iced_x86::{
    Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, InstructionInfoFactory,
    OpAccess, OpKind, Register,
};

/// Bits of an address.
const BITS: u32 = 64;

/// The instructions of a function, from its start on.
pub struct Code {
    instructions: Vec<Instruction>,
    indices: HashMap<u64, usize>,
    /// Addresses that the function jumps to.
    targets: HashSet<u64>,
    /// True if it jumps to addresses that are not known.
    jumps_anywhere: bool,
}

impl Code {
    /// Decodes a function that starts at `start`.
    pub fn decode(bytes: &[u8], start: u64) -> Self {
        let decoder = Decoder::with_ip(BITS, bytes, start, DecoderOptions::NONE);
        let instructions: Vec<Instruction> = decoder.into_iter().collect();
        let indices = instructions.iter().enumerate();
        let indices = indices.map(|(index, instruction)| (instruction.ip(), index));
        let targets = instructions.iter().filter(|instruction| {
            let kinds = [
                OpKind::NearBranch16,
                OpKind::NearBranch32,
                OpKind::NearBranch64,
            ];
            kinds.contains(&instruction.op0_kind()) && !instruction.is_call_near()
        });
        Self {
            jumps_anywhere: instructions.iter().any(Instruction::is_jmp_near_indirect),
            indices: indices.collect(),
            targets: targets.map(Instruction::near_branch_target).collect(),
            instructions,
        }
    }

    /// Returns the index of the instruction that starts at an address.
    pub fn index_of(&self, address: u64) -> Option<usize> {
        let index = *self.indices.get(&address)?;
        self.get(index).filter(|found| !found.is_invalid())?;
        Some(index)
    }

    /// Returns an instruction.
    pub fn get(&self, index: usize) -> Option<&Instruction> {
        self.instructions.get(index)
    }

    /// Returns true if the function jumps to an instruction, or may: the targets of an indirect
    /// jump are not known.
    pub fn is_target(&self, index: usize) -> bool {
        let target = self.get(index);
        self.jumps_anywhere || target.is_none_or(|target| self.targets.contains(&target.ip()))
    }
}

/// Formats an instruction as objdump does, without the segment of the operand of a string instruction.
pub fn text(instruction: &Instruction) -> String {
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_branch_leading_zeros(false);
    options.set_space_after_operand_separator(false);
    options.set_rip_relative_addresses(true);
    let mut text = String::new();
    formatter.format(instruction, &mut text);
    text
}

/// Returns true if an instruction may change a register or a part of it.
pub fn writes(instruction: &Instruction, register: Register) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let is_it = |used: &&iced_x86::UsedRegister| {
        used.register().full_register() == register.full_register()
    };
    let mut used = info.used_registers().iter().filter(is_it);
    used.any(|used| {
        !matches!(
            used.access(),
            OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Code {
        Code::decode(bytes, 0x1000)
    }

    #[test]
    fn text_is_that_of_objdump() {
        for (bytes, expected) in [
            (&[0x48, 0x8b, 0x40, 0x18][..], "mov 0x18(%rax),%rax"),
            (&[0xf3, 0x48, 0xab], "rep stos %rax,(%rdi)"),
            (&[0x0f, 0x0b], "ud2"),
            (
                &[0x65, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0],
                "mov %gs:0x28,%rax",
            ),
            (
                &[0x48, 0x01, 0x05, 0x34, 0x1c, 0, 0],
                "add %rax,0x1c34(%rip)",
            ),
            (&[0xf0, 0x48, 0x0f, 0xb1, 0x17], "lock cmpxchg %rdx,(%rdi)"),
            (&[0x8b, 0x44, 0xb3, 0xf8], "mov -0x8(%rbx,%rsi,4),%eax"),
            (&[0x48, 0xc7, 0x43, 0x08, 0, 0, 0, 0], "movq $0x0,0x8(%rbx)"),
            (&[0x41, 0x0f, 0xb6, 0x04, 0x24], "movzbl (%r12),%eax"),
            (&[0xff, 0xd0], "call *%rax"),
            (&[0x48, 0x63, 0xd2], "movslq %edx,%rdx"),
            (&[0x74, 0x04], "je 0x1006"),
        ] {
            assert_eq!(text(&decode(bytes).instructions[0]), expected);
        }
    }

    #[test]
    fn instruction_is_found_where_it_starts_only() {
        let code = decode(&[0x48, 0x8b, 0x47, 0x10, 0x48, 0x8b, 0x40, 0x18]);
        assert_eq!(code.index_of(0x1004), Some(1));
        assert_eq!(code.index_of(0x1005), None);
    }

    #[test]
    fn targets_of_jumps_are_known_unless_one_is_indirect() {
        // je to the ret; nop; ret.
        let code = decode(&[0x74, 0x01, 0x90, 0xc3]);
        assert_eq!(
            [0, 1, 2].map(|index| code.is_target(index)),
            [false, false, true]
        );
        // jmp *%rax.
        assert!(decode(&[0xff, 0xe0, 0x90]).is_target(1));
    }

    #[test]
    fn write_of_a_part_changes_the_register() {
        let code = decode(&[0x41, 0x0f, 0xb6, 0x04, 0x24]);
        let load = &code.instructions[0];
        assert!(writes(load, Register::RAX) && !writes(load, Register::R12));
    }
}
