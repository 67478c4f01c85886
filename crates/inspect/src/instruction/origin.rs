//! Where a register has its value from.

use bigiron_format::VirtAddr;
use bigiron_kernel::types::{Shape, TypeId, TypeTable, resolve};
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::code::{self, Code};
use super::member;
use super::registers::{Registers, has_base, name};
use crate::declaration::declaration;
use crate::program::Program;

/// Instructions looked at before one, and values followed from one to the next.
const MAX_BACK: usize = 64;
const MAX_STEPS: usize = 8;
/// The registers of the first arguments (System V ABI of x86-64).
const ARGUMENTS: [Register; 6] = [
    Register::RDI,
    Register::RSI,
    Register::RDX,
    Register::RCX,
    Register::R8,
    Register::R9,
];
/// Registers that a called function need not keep.
const LOST_IN_CALLS: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// A C expression, and its type.
pub type Expression = (String, TypeId);

/// Where a value comes from.
pub struct Origin {
    /// In words.
    pub text: String,
    /// As a C expression, if the types tell it.
    pub expression: Option<Expression>,
}

/// Finds origins in a function.
pub struct Origins<'o, 'k, 's> {
    pub program: &'o Program<'k, 's>,
    /// The types of the function's arguments.
    pub types: &'o dyn TypeTable,
    pub code: &'o Code,
    /// Name of the function.
    pub function: &'o str,
    /// The registers at the failed instruction.
    pub registers: &'o Registers,
    /// Index of the failed instruction.
    pub failed: usize,
}

impl Origins<'_, '_, '_> {
    /// Returns the origin of a register's value at the instruction `before`; `None` if it is
    /// not the same on every way there.
    pub fn of(&self, register: Register, before: usize) -> Option<Origin> {
        let value = self.registers.value(register);
        self.search(register.full_register(), value, before, MAX_STEPS)
    }

    /// The same for a register that had `value` then.
    fn search(
        &self,
        register: Register,
        value: Option<u64>,
        before: usize,
        steps: usize,
    ) -> Option<Origin> {
        let first = before.saturating_sub(MAX_BACK);
        for index in (first..before).rev() {
            if self.code.is_target(index + 1) {
                return None;
            }
            let instruction = self.code.get(index)?;
            match instruction.flow_control() {
                FlowControl::Next | FlowControl::ConditionalBranch => {}
                FlowControl::Call | FlowControl::IndirectCall => {
                    if register == Register::RAX {
                        return Some(self.returned(instruction));
                    }
                    if LOST_IN_CALLS.contains(&register) {
                        return None;
                    }
                    continue;
                }
                _ => return None,
            }
            if code::writes(instruction, register) {
                return self.written(register, value, index, steps);
            }
        }
        match first == 0 && !self.code.is_target(0) {
            true => self.argument(register),
            false => None,
        }
    }

    fn returned(&self, call: &Instruction) -> Origin {
        let target = match call.op0_kind() {
            OpKind::NearBranch64 => self.program.symbol_at(VirtAddr(call.near_branch_target())),
            _ => None,
        };
        let text = match target {
            Some(target) => format!("returned by {target}"),
            None => format!("returned by `{}`", code::text(call)),
        };
        Origin {
            text,
            expression: None,
        }
    }

    fn written(
        &self,
        register: Register,
        value: Option<u64>,
        index: usize,
        steps: usize,
    ) -> Option<Origin> {
        let instruction = self.code.get(index)?;
        let text = code::text(instruction);
        let is_move =
            instruction.mnemonic() == Mnemonic::Mov && instruction.op0_register() == register;
        match instruction.op1_kind() {
            OpKind::Register if is_move && steps > 0 => {
                let from = instruction.op1_register();
                let known = self.search(from, value, index, steps - 1);
                let what = known.as_ref().map(|known| format!(", {}", known.text));
                Some(Origin {
                    text: format!(
                        "copied from {} by `{text}`{}",
                        name(from),
                        what.unwrap_or_default()
                    ),
                    expression: known.and_then(|known| known.expression),
                })
            }
            OpKind::Memory if is_move => Some(self.loaded(instruction, value, index, steps)),
            _ => Some(Origin {
                text: format!("computed by `{text}`"),
                expression: None,
            }),
        }
    }

    fn loaded(&self, load: &Instruction, value: Option<u64>, index: usize, steps: usize) -> Origin {
        let text = format!("loaded by `{}`", code::text(load));
        let base = load.memory_base().full_register();
        let is_plain = load.memory_index() == Register::None
            && base != Register::None
            && !load.is_ip_rel_memory_operand()
            && !has_base(load.memory_segment());
        if !is_plain {
            return Origin {
                text,
                expression: None,
            };
        }
        let offset = load.memory_displacement64();
        let known = (steps > 0).then(|| self.search(base, None, index, steps - 1));
        let expression = known.flatten().and_then(|known| known.expression);
        let expression = expression.and_then(|base| self.member(base, offset));
        let what = expression
            .as_ref()
            .map(|(text, _)| format!(", that is {text}"));
        // The base has the same value at the failed instruction if nothing between changes it.
        let changes = |index| {
            let between = self.code.get(index);
            between.is_none_or(|between| {
                code::writes(between, base)
                    || !matches!(
                        between.flow_control(),
                        FlowControl::Next | FlowControl::ConditionalBranch
                    )
            })
        };
        let at = match (index..self.failed).any(changes) {
            true => None,
            false => self.registers.value(base),
        };
        let at = at.map(|base| self.in_memory(VirtAddr(base.wrapping_add(offset)), value));
        Origin {
            text: format!(
                "{text}{}{}",
                what.unwrap_or_default(),
                at.unwrap_or_default()
            ),
            expression,
        }
    }

    /// What the memory has that a value was loaded from.
    fn in_memory(&self, at: VirtAddr, loaded: Option<u64>) -> String {
        match (self.program.number(at, 8), loaded) {
            (Ok(now), Some(then)) if now == then => {
                format!(" from {at}, which still has that value")
            }
            (Ok(now), Some(_)) => format!(" from {at}, which has {now:#x} in the dump"),
            _ => format!(" from {at}"),
        }
    }

    /// The argument of the function that is in a register when it begins.
    fn argument(&self, register: Register) -> Option<Origin> {
        let number = ARGUMENTS.iter().position(|known| *known == register)?;
        let text = format!("argument {} of {}", number + 1, self.function);
        let known = self.parameter(number);
        Some(match known {
            Some((name, type_id)) => Origin {
                text: match declaration(self.types, type_id, &name) {
                    Ok(declared) => format!("{text}, {declared}"),
                    Err(_) => text,
                },
                expression: Some((name, type_id)),
            },
            None => Origin {
                text,
                expression: None,
            },
        })
    }

    /// The parameter that is passed in the register with a number.
    fn parameter(&self, number: usize) -> Option<Expression> {
        let function = self.types.function(self.function).ok()??;
        let prototype = self.types.prototype(function).ok()??;
        let passed = prototype.parameters.get(..=number)?;
        // Structures take no register, or several.
        let is_word = |id: TypeId| {
            let shape = resolve(self.types, id).map(|(_, found)| found.shape);
            matches!(
                shape,
                Ok(Shape::Pointer(_) | Shape::Base(..=8) | Shape::Enumeration(..=8))
            )
        };
        if !passed.iter().all(|parameter| is_word(parameter.type_id)) {
            return None;
        }
        let last = passed.last()?;
        Some((last.name.clone()?, last.type_id))
    }

    /// The member that is `offset` bytes behind a pointer.
    pub fn member(&self, pointer: Expression, offset: u64) -> Option<Expression> {
        let (text, type_id) = pointer;
        let Shape::Pointer(to) = resolve(self.types, type_id).ok()?.1.shape else {
            return None;
        };
        let (path, type_id) = member::at(self.types, to, offset)?;
        Some((format!("{text}->{path}"), type_id))
    }
}
