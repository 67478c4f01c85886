//! The functions that a task was in before it entered the kernel.
//!
//! A caller is found by the tables of the program (`call_frames`) if they are in the dump, else by
//! frame pointers: a record of the caller's one and of the return address, which x86-64 and arm64
//! have in the same form. Programs that are compiled without them end the trace there.

use std::collections::{HashMap, HashSet};

use bigiron_format::VirtAddr;
use serde::Serialize;

use super::call_frames::{CallFrames, REGISTERS, Registers};
use super::mappings::Mapping;
use super::memory::UserMemory;
use super::registers::UserRegisters;
use crate::json::hexadecimal;

/// Maximum number of frames.
const MAX_FRAMES: usize = 512;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UserFrame {
    /// The address at which the function continues.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// The file that is mapped there, and the offset in it: `/lib/libc.so.6+0x8a1b0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// True if registers or the program's tables lead to it; otherwise frame pointers did.
    pub sure: bool,
}

/// Numbers of registers in DWARF, by the kernel's names (System V ABI of x86-64 and of arm64).
pub struct Numbers {
    names: &'static [(&'static str, usize)],
    ip: &'static str,
    sp: usize,
    frame: usize,
    /// The column of the return address.
    back: usize,
}

const X86_64: Numbers = Numbers {
    names: &[
        ("ax", 0),
        ("dx", 1),
        ("cx", 2),
        ("bx", 3),
        ("si", 4),
        ("di", 5),
        ("bp", 6),
        ("sp", 7),
        ("r8", 8),
        ("r9", 9),
        ("r10", 10),
        ("r11", 11),
        ("r12", 12),
        ("r13", 13),
        ("r14", 14),
        ("r15", 15),
    ],
    ip: "ip",
    sp: 7,
    frame: 6,
    back: 16,
};

const ARM64: Numbers = Numbers {
    names: &[
        ("x19", 19),
        ("x20", 20),
        ("x21", 21),
        ("x22", 22),
        ("x23", 23),
        ("x24", 24),
        ("x25", 25),
        ("x26", 26),
        ("x27", 27),
        ("x28", 28),
        ("x29", 29),
        ("x30", 30),
        ("sp", 31),
    ],
    ip: "pc",
    sp: 31,
    frame: 29,
    back: 30,
};

impl Numbers {
    /// The numbers of an architecture.
    pub fn of(architecture: &str) -> Option<&'static Self> {
        match architecture {
            "x86_64" => Some(&X86_64),
            "aarch64" => Some(&ARM64),
            _ => None,
        }
    }

    /// Returns true for the number of a register.
    fn has(&self, number: usize) -> bool {
        self.names.iter().any(|(_, known)| *known == number)
    }
}

/// Walks stacks of one process.
pub struct Walker<'w, 'p, 'k, 's> {
    memory: UserMemory<'p, 'k, 's>,
    mappings: &'w [Mapping],
    numbers: &'static Numbers,
    /// The tables of each file, by the first address of the mapping of its code.
    tables: HashMap<VirtAddr, Option<CallFrames>>,
}

impl<'w, 'p, 'k, 's> Walker<'w, 'p, 'k, 's> {
    /// A walker without tables yet.
    pub fn new(
        memory: UserMemory<'p, 'k, 's>,
        mappings: &'w [Mapping],
        numbers: &'static Numbers,
    ) -> Self {
        Self {
            memory,
            mappings,
            numbers,
            tables: HashMap::new(),
        }
    }

    /// Returns the frames of a task, the innermost first, and why there are no more.
    pub fn frames(&mut self, entered: &UserRegisters) -> (Vec<UserFrame>, String) {
        let mut registers: Registers = [None; REGISTERS];
        for (name, number) in self.numbers.names {
            if let Some(place) = registers.get_mut(*number) {
                *place = entered.get(name);
            }
        }
        let mut frames = Vec::new();
        let Some(mut at) = entered.get(self.numbers.ip) else {
            return (frames, "its instruction pointer is not known".into());
        };
        let mut seen = HashSet::new();
        let mut sure = true;
        while frames.len() < MAX_FRAMES {
            let sp = registers.get(self.numbers.sp).copied().flatten();
            let Some(mapping) = self.mappings.iter().find(|one| one.holds(at)) else {
                return (frames, format!("nothing is mapped at {at:#x}"));
            };
            if !mapping.is_code() {
                return (frames, format!("no code is mapped at {at:#x}"));
            }
            if !seen.insert((at, sp)) {
                return (frames, format!("the stack is cyclic at {at:#x}"));
            }
            frames.push(UserFrame {
                address: VirtAddr(at),
                place: place(mapping, at),
                sure,
            });
            // A return address is behind the call.
            let code = match frames.len() {
                1 => at,
                _ => at.wrapping_sub(1),
            };
            let caller = self.by_tables(mapping, &registers, code);
            sure = caller.is_some();
            let Some(caller) = caller.or_else(|| self.by_frame_pointer(&registers)) else {
                return (frames, "neither tables nor a frame pointer lead on".into());
            };
            at = match caller.get(self.numbers.back).copied().flatten() {
                None | Some(0) => return (frames, "the outermost function".into()),
                Some(back) => back,
            };
            registers = caller;
            if !self.numbers.has(self.numbers.back)
                && let Some(back) = registers.get_mut(self.numbers.back)
            {
                // It is no register, so that only the table of a frame tells it.
                *back = None;
            }
        }
        (frames, format!("more than {MAX_FRAMES} frames"))
    }

    fn by_tables(
        &mut self,
        mapping: &Mapping,
        registers: &Registers,
        code: u64,
    ) -> Option<Registers> {
        let (memory, mappings) = (self.memory, self.mappings);
        let tables = self.tables.entry(mapping.start);
        let tables = tables.or_insert_with(|| CallFrames::of(&memory, mappings, mapping));
        tables
            .as_ref()?
            .caller(&memory, registers, code, self.numbers.sp)
    }

    /// The caller by the frame record, which is above the stack pointer.
    fn by_frame_pointer(&self, registers: &Registers) -> Option<Registers> {
        let of = |number: usize| registers.get(number).copied().flatten();
        let record = of(self.numbers.frame)?;
        if record < of(self.numbers.sp)? || record % 8 != 0 {
            return None;
        }
        let word = |at: u64| {
            self.memory
                .word("the stack of a process", VirtAddr(at))
                .ok()
        };
        let mut caller: Registers = [None; REGISTERS];
        for (number, value) in [
            (self.numbers.frame, word(record)?),
            (self.numbers.back, word(record.checked_add(8)?)?),
            (self.numbers.sp, record.checked_add(16)?),
        ] {
            if let Some(place) = caller.get_mut(number) {
                *place = Some(value);
            }
        }
        Some(caller)
    }
}

/// Formats as `/lib/libc.so.6+0x8a1b0`: the offset in the file.
fn place(mapping: &Mapping, at: u64) -> Option<String> {
    let name = mapping.name.as_deref()?;
    let inside = at.wrapping_sub(mapping.start.0);
    Some(format!("{name}+{:#x}", inside.wrapping_add(mapping.offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_known_by_the_names_of_architectures() {
        for (name, ip) in [("x86_64", "ip"), ("arm64", "pc")] {
            let architecture = bigiron_kernel::arch::find(name).unwrap();
            let numbers = Numbers::of(architecture.name).map(|numbers| numbers.ip);
            assert_eq!(numbers, Some(ip), "{name}");
        }
        assert!(Numbers::of("s390x").is_none());
    }
}
