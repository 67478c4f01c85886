//! Registers of CPUs and of sleeping tasks.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::elf::{NT_PRSTATUS, Note, Notes};

use crate::error::InspectError;
use crate::program::Program;

/// Offset of the registers in struct elf_prstatus of x86-64 (include/linux/elfcore.h).
const PRSTATUS_REGISTERS: usize = 112;
/// Size of struct pt_regs, which is followed by segment registers in a note.
const PT_REGS: usize = 21 * 8;
/// Size of a CPU's notes in the kernel's memory: one note and an empty one (KEXEC_NOTE_BYTES,
/// include/linux/crash_core.h).
const NOTE_BYTES: usize = 400;

/// Registers, as in struct pt_regs (arch/x86/include/asm/ptrace.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// rdx.
    pub dx: u64,
    /// rdi.
    pub di: u64,
    /// r10.
    pub r10: u64,
    /// r13.
    pub r13: u64,
    /// rbp.
    pub bp: u64,
    /// rip.
    pub ip: u64,
    /// Code segment: its lowest two bits are the privilege level.
    pub cs: u64,
    /// rsp.
    pub sp: u64,
}

impl Registers {
    /// Parses a struct pt_regs.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let at = |index: usize| Endian::Little.u64(bytes, 8 * index);
        Some(Self {
            r13: at(2)?,
            bp: at(4)?,
            r10: at(7)?,
            dx: at(12)?,
            di: at(14)?,
            ip: at(16)?,
            // With FRED, the upper bits hold an exception's code.
            cs: at(17)? & 0xffff,
            sp: at(19)?,
        })
    }

    /// Reads a struct pt_regs.
    pub fn read(program: &Program, at: VirtAddr) -> Result<Self, InspectError> {
        let mut bytes = [0; PT_REGS];
        program.read("the registers on a stack", at, &mut bytes)?;
        Ok(Self::parse(&bytes).unwrap_or_default())
    }

    /// Returns true for user mode.
    pub fn is_user(&self) -> bool {
        self.cs & 3 != 0
    }
}

/// Returns the registers that a CPU had when the kernel stopped: from the note that it left in
/// the kernel's memory, else from the dump's own notes.
///
/// The dump's notes have no CPU numbers, and a CPU that saved nothing has none: so they are
/// used only if there is one for each online CPU.
pub fn of_cpu(
    program: &Program,
    cpu: usize,
    online: &[usize],
) -> Result<Option<Registers>, InspectError> {
    if let Some(found) = from_memory(program, cpu) {
        return Ok(Some(found));
    }
    let source = program.kernel().memory().source();
    let notes: Vec<Option<Registers>> = source
        .notes()
        .intact()
        .filter(is_status)
        .map(|note| registers(&note))
        .collect();
    let index = online.iter().position(|known| *known == cpu);
    let found = index.filter(|_| notes.len() == online.len());
    Ok(found.and_then(|index| notes.get(index).copied().flatten()))
}

/// Reads crash_notes (kernel/crash_core.c): allocated per CPU, filled by crash_save_cpu.
fn from_memory(program: &Program, cpu: usize) -> Option<Registers> {
    let notes = program.variable("crash_notes", 8).ok()?;
    let at = program.per_cpu_at(VirtAddr(notes), cpu).ok()?;
    let mut bytes = [0; NOTE_BYTES];
    program.read("the notes of a CPU", at, &mut bytes).ok()?;
    let note = Notes::new(&bytes, Endian::Little, 0)
        .intact()
        .find(is_status)?;
    registers(&note)
}

fn is_status(note: &Note) -> bool {
    note.name == b"CORE" && note.n_type == NT_PRSTATUS
}

fn registers(note: &Note) -> Option<Registers> {
    let found = Registers::parse(note.desc.get(PRSTATUS_REGISTERS..)?)?;
    (found.ip != 0 || found.sp != 0).then_some(found)
}

/// Returns the instruction, stack and frame pointer at which a sleeping task continues.
pub fn of_sleeper(program: &Program, task: VirtAddr) -> Result<Registers, InspectError> {
    let sp = program.pointer(task, "task_struct", "thread.sp")?;
    let frame = "inactive_task_frame";
    Ok(Registers {
        ip: program.value(sp, frame, "ret_addr")?,
        bp: program.value(sp, frame, "bp")?,
        r13: program.value(sp, frame, "r13")?,
        sp: sp.0.wrapping_add(program.size_of(frame)?),
        ..Registers::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (index, byte) in (PRSTATUS_REGISTERS..len).step_by(8).enumerate() {
            bytes[byte] = index as u8 + 1;
        }
        bytes
    }

    #[test]
    fn registers_are_read_at_the_kernels_offsets() {
        let bytes = status(336);
        let note = Note {
            name: b"CORE",
            n_type: NT_PRSTATUS,
            desc: &bytes,
            desc_offset: 0,
        };
        let found = registers(&note).unwrap();
        assert_eq!((found.ip, found.sp, found.bp), (17, 20, 5));
        assert_eq!((found.r13, found.r10, found.dx, found.di), (3, 8, 13, 15));
        assert!(found.is_user());
    }

    #[test]
    fn short_or_empty_note_has_no_registers() {
        let short = status(PRSTATUS_REGISTERS + 100);
        let note = |desc| Note {
            name: b"CORE",
            n_type: NT_PRSTATUS,
            desc,
            desc_offset: 0,
        };
        assert_eq!(registers(&note(&short)), None);
        assert_eq!(registers(&note(&[0; 336])), None);
        assert_eq!(registers(&note(&[])), None);
    }
}
