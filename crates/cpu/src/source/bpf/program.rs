//! The BPF program, as instructions (Documentation/bpf/standardization/instruction-set.rst).
//!
//! The first argument is a CPU. The program returns the [`Mark`](crate::source::Mark) of the
//! CPU's domains, and copies the domains into the map if the second argument is 0.

use super::layout::{BEFORE, HEAD, Layout, MAX_DOMAINS, NAME};

/// Instruction, laid out as `struct bpf_insn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// Destination and source registers: bit fields, which C allocates lowest first on
    /// little-endian machines and highest first on others.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Registers: 0 holds the result of a call, and 1 to 5 its arguments; 6 to 9 are preserved.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
/// Address of the CPU's run queue, later of a domain.
const AT: u8 = 6;
/// Address of the map's value.
const VALUE: u8 = 7;
/// Second argument, later the slot of the current domain.
const PLACE: u8 = 8;
/// CPU number, later the CPU's mark.
const CPU: u8 = 9;
const MARK: u8 = 9;
/// End of the stack.
const STACK: u8 = 10;

/// Helper functions (enum bpf_func_id in include/uapi/linux/bpf.h).
const PROBE_READ_KERNEL: i32 = 113;
const PROBE_READ_KERNEL_STR: i32 = 115;
const PER_CPU_PTR: i32 = 153;

/// Kinds of 64-bit constants, which determine the meaning of their number.
const MAP_VALUE: u8 = 2;
const BTF_VARIABLE: u8 = 3;

/// Returns the program for the kernel of `layout`, with a map of one value.
pub(super) fn instructions(layout: &Layout, map: i32) -> Vec<Instruction> {
    let mut code = Code::default();
    code.load(CPU, R1, 0);
    code.load(PLACE, R1, 8);
    code.constant(VALUE, MAP_VALUE, map);
    let only_mark = code.jump_unless_zero(PLACE);
    code.store_number(VALUE, 0, 0);
    code.store_number(VALUE, 8, 0);
    code.land(only_mark);
    code.constant(R1, BTF_VARIABLE, layout.runqueues.cast_signed());
    code.copy(R2, CPU);
    code.call(PER_CPU_PTR);
    code.set(MARK, 0);
    code.end_if_zero(R0);
    code.copy(AT, R0);
    for (stack, member) in [(-8, layout.rq_sd), (-16, layout.rq_rd)] {
        code.copy(R1, STACK);
        code.add(R1, stack);
        code.set(R2, 8);
        code.copy(R3, AT);
        code.add(R3, member);
        code.call(PROBE_READ_KERNEL);
    }
    mark(&mut code);
    code.end_unless_zero(PLACE);
    code.load(AT, STACK, -8);
    code.store(VALUE, 8, AT);
    code.copy(PLACE, VALUE);
    code.add(PLACE, HEAD as i32);
    for number in 0..MAX_DOMAINS {
        code.end_if_zero(AT);
        copy_domain(&mut code, layout);
        code.store_number(VALUE, 0, number as i32 + 1);
        code.load(AT, PLACE, member(layout.parent));
        code.store(VALUE, 8, AT);
        code.add(PLACE, layout.stride() as i32);
    }
    code.finish()
}

/// Computes a number from the addresses of the first domain and of the root domain, both of
/// which are reallocated by a rebuild. Objects are aligned to 64 bytes.
fn mark(code: &mut Code) {
    code.load(MARK, STACK, -8);
    code.shift_right(MARK, 6);
    code.multiply(MARK, 31);
    code.load(R1, STACK, -16);
    code.shift_right(R1, 6);
    code.add_register(MARK, R1);
}

/// Returns the offset of a domain's member in its slot.
fn member(offset: i16) -> i16 {
    (BEFORE as i16).saturating_add(offset)
}

/// Copies the domain at the address, or ends if it cannot be read, which the count and the next
/// address then show.
fn copy_domain(code: &mut Code, layout: &Layout) {
    code.store(PLACE, 0, AT);
    code.copy(R1, PLACE);
    code.add(R1, BEFORE as i32);
    code.set(R2, layout.domain_size as i32);
    code.copy(R3, AT);
    code.call(PROBE_READ_KERNEL);
    code.end_unless_zero(R0);
    code.load(R3, PLACE, member(layout.groups));
    code.add(R3, layout.group_flags);
    code.copy(R1, PLACE);
    code.add(R1, 8);
    code.set(R2, 4);
    code.call(PROBE_READ_KERNEL);
    if let Some(name) = layout.name {
        code.load(R3, PLACE, member(name));
        code.copy(R1, PLACE);
        code.add(R1, 16);
        code.set(R2, NAME as i32);
        code.call(PROBE_READ_KERNEL_STR);
    }
}

/// Program under construction.
#[derive(Default)]
struct Code {
    instructions: Vec<Instruction>,
    /// Jumps to the end, whose distance is not known yet.
    to_end: Vec<usize>,
}

impl Code {
    fn add_instruction(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        let registers = if cfg!(target_endian = "little") {
            to | from << 4
        } else {
            to << 4 | from
        };
        self.instructions.push(Instruction {
            code,
            registers,
            offset,
            immediate,
        });
    }

    /// Loads eight bytes at `from` + `offset`.
    fn load(&mut self, to: u8, from: u8, offset: i16) {
        self.add_instruction(0x79, to, from, offset, 0);
    }

    fn store(&mut self, to: u8, offset: i16, from: u8) {
        self.add_instruction(0x7b, to, from, offset, 0);
    }

    fn store_number(&mut self, to: u8, offset: i16, number: i32) {
        self.add_instruction(0x7a, to, 0, offset, number);
    }

    fn copy(&mut self, to: u8, from: u8) {
        self.add_instruction(0xbf, to, from, 0, 0);
    }

    fn set(&mut self, to: u8, number: i32) {
        self.add_instruction(0xb7, to, 0, 0, number);
    }

    fn add(&mut self, to: u8, number: i32) {
        self.add_instruction(0x07, to, 0, 0, number);
    }

    fn add_register(&mut self, to: u8, from: u8) {
        self.add_instruction(0x0f, to, from, 0, 0);
    }

    fn multiply(&mut self, to: u8, number: i32) {
        self.add_instruction(0x27, to, 0, 0, number);
    }

    fn shift_right(&mut self, to: u8, bits: i32) {
        self.add_instruction(0x77, to, 0, 0, bits);
    }

    /// Loads a constant that the kernel substitutes for `number`; two instructions long.
    fn constant(&mut self, to: u8, kind: u8, number: i32) {
        self.add_instruction(0x18, to, kind, 0, number);
        self.add_instruction(0, 0, 0, 0, 0);
    }

    fn call(&mut self, helper: i32) {
        self.add_instruction(0x85, 0, 0, 0, helper);
    }

    fn end_if_zero(&mut self, register: u8) {
        self.to_end.push(self.instructions.len());
        self.add_instruction(0x15, register, 0, 0, 0);
    }

    fn end_unless_zero(&mut self, register: u8) {
        let jump = self.jump_unless_zero(register);
        self.to_end.push(jump);
    }

    /// Adds a jump whose distance is not known yet, and returns its index.
    fn jump_unless_zero(&mut self, register: u8) -> usize {
        self.add_instruction(0x55, register, 0, 0, 0);
        self.instructions.len() - 1
    }

    /// Makes the next instruction the target of a jump.
    fn land(&mut self, jump: usize) {
        let here = self.instructions.len();
        if let Some(instruction) = self.instructions.get_mut(jump) {
            instruction.offset = (here - jump - 1) as i16;
        }
    }

    fn finish(mut self) -> Vec<Instruction> {
        for jump in std::mem::take(&mut self.to_end) {
            self.land(jump);
        }
        self.copy(R0, MARK);
        self.add_instruction(0x95, 0, 0, 0, 0);
        self.instructions
    }
}
