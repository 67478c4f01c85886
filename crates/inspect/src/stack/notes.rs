//! The registers of CPUs, in notes.

use bigiron_format::bytes::Endian;
use bigiron_format::elf::{NT_PRSTATUS, Note, Notes};
use bigiron_kernel::arch::stacks::{PRSTATUS_REGISTERS, Unwind, Walk};

use crate::cpus::crash_notes;
use crate::program::Program;

/// Size of the header of a note (Elf64_Nhdr) and of the name `CORE`, padded.
const HEAD: usize = 12 + 8;
/// Maximum size of struct elf_prstatus: ppc64's has 504 bytes.
const MAX_PRSTATUS: usize = 1024;

/// Starts with the registers that a CPU had when the kernel stopped: from the note that it left
/// in the kernel's memory, else from the dump's own notes.
///
/// The dump's notes have no CPU numbers, and a CPU that saved nothing has none: so they are
/// used only if there is one for each online CPU.
pub fn of_cpu<'a>(
    program: &'a Program<'_, '_>,
    unwind: &'a dyn Unwind,
    cpu: usize,
    online: &[usize],
) -> Option<Box<dyn Walk + 'a>> {
    if let Some(found) = from_memory(program, unwind, cpu) {
        return Some(found);
    }
    let notes = program.kernel().memory().source().notes();
    let endian = notes.endian();
    let statuses: Vec<Note<'_>> = notes.intact().filter(is_status).collect();
    let index = online.iter().position(|known| *known == cpu)?;
    if statuses.len() != online.len() {
        return None;
    }
    start(program, unwind, statuses.get(index)?, endian)
}

/// Starts with the registers in the note that a CPU left in the kernel's memory.
fn from_memory<'a>(
    program: &'a Program<'_, '_>,
    unwind: &'a dyn Unwind,
    cpu: usize,
) -> Option<Box<dyn Walk + 'a>> {
    let endian = program.kernel().memory().source().endian();
    let at = crash_notes(program, cpu)?;
    let mut bytes = [0; HEAD + MAX_PRSTATUS];
    let what = "the notes of a CPU";
    // No more than the note: it may end where mapped memory does.
    program.read(what, at, &mut bytes[..HEAD]).ok()?;
    let len = HEAD.checked_add(endian.u32(&bytes, 4)? as usize)?;
    program.read(what, at, bytes.get_mut(..len)?).ok()?;
    let mut intact = Notes::new(bytes.get(..len)?, endian, 0).intact();
    start(program, unwind, &intact.find(is_status)?, endian)
}

fn is_status(note: &Note<'_>) -> bool {
    note.name == b"CORE" && note.n_type == NT_PRSTATUS
}

fn start<'a>(
    program: &'a Program<'_, '_>,
    unwind: &'a dyn Unwind,
    note: &Note<'_>,
    endian: Endian,
) -> Option<Box<dyn Walk + 'a>> {
    let registers = note.desc.get(PRSTATUS_REGISTERS..)?;
    unwind.of_cpu(program, registers, endian)
}
