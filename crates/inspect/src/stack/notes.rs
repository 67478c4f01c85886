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

/// Offsets of the flags in the registers of a note, and the bit of them that allows interrupts:
/// EFLAGS.IF. Other machines are not known.
const X86_64_FLAGS: usize = 18 * 8;
const X86_64_INTERRUPTS: u64 = 1 << 9;

/// Returns true if interrupts were off on a CPU when it left its registers; `None` if it left
/// none, and on machines whose flags are not known.
pub(crate) fn interrupts_off(program: &Program, cpu: usize, online: &[usize]) -> Option<bool> {
    if program.kernel().architecture().name != "x86_64" {
        return None;
    }
    let endian = program.kernel().memory().source().endian();
    let of_memory = note_in_memory(program, cpu);
    let mut intact = Notes::new(of_memory.as_deref().unwrap_or(&[]), endian, 0).intact();
    let note = intact
        .find(is_status)
        .or_else(|| note_in_dump(program, cpu, online))?;
    let flags = endian.u64(note.desc.get(PRSTATUS_REGISTERS..)?, X86_64_FLAGS)?;
    (flags != 0).then_some(flags & X86_64_INTERRUPTS == 0)
}

/// Reads the note that a CPU left in the kernel's memory.
fn note_in_memory(program: &Program, cpu: usize) -> Option<Vec<u8>> {
    let endian = program.kernel().memory().source().endian();
    let at = crash_notes(program, cpu)?;
    let mut bytes = vec![0; HEAD + MAX_PRSTATUS];
    let what = "the notes of a CPU";
    // No more than the note: it may end where mapped memory does.
    program.read(what, at, bytes.get_mut(..HEAD)?).ok()?;
    let len = HEAD.checked_add(endian.u32(&bytes, 4)? as usize)?;
    bytes.truncate(len);
    program.read(what, at, &mut bytes).ok()?;
    (bytes.len() == len).then_some(bytes)
}

/// Returns the note of a CPU among the dump's own, which have no CPU numbers.
///
/// A CPU that saved nothing has none: so they are used only if there is one for each online CPU, or
/// for each that is present. Hypervisors write the latter, and a panic takes other CPUs offline.
fn note_in_dump<'a>(program: &Program<'a, '_>, cpu: usize, online: &[usize]) -> Option<Note<'a>> {
    let notes = program.kernel().memory().source().notes();
    let statuses: Vec<Note<'_>> = notes.intact().filter(is_status).collect();
    let index = if statuses.len() == online.len() {
        online.iter().position(|known| *known == cpu)?
    } else {
        let mask = program.symbol("__cpu_present_mask").ok()?;
        let present = program.cpus_in(mask).ok()?;
        let index = present.iter().position(|known| *known == cpu)?;
        (statuses.len() == present.len()).then_some(index)?
    };
    statuses.get(index).copied()
}

/// Starts with the registers that a CPU had when the kernel stopped: from the note that it left
/// in the kernel's memory, else from the dump's own notes.
pub fn of_cpu<'a>(
    program: &'a Program<'_, '_>,
    unwind: &'a dyn Unwind,
    cpu: usize,
    online: &[usize],
) -> Option<Box<dyn Walk + 'a>> {
    if let Some(found) = from_memory(program, unwind, cpu) {
        return Some(found);
    }
    let endian = program.kernel().memory().source().notes().endian();
    start(
        program,
        unwind,
        &note_in_dump(program, cpu, online)?,
        endian,
    )
}

/// Starts with the registers in the note that a CPU left in the kernel's memory.
fn from_memory<'a>(
    program: &'a Program<'_, '_>,
    unwind: &'a dyn Unwind,
    cpu: usize,
) -> Option<Box<dyn Walk + 'a>> {
    let endian = program.kernel().memory().source().endian();
    let bytes = note_in_memory(program, cpu)?;
    let mut intact = Notes::new(&bytes, endian, 0).intact();
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
