//! The notes of VirtualBox's cores (`VBoxManage debugvm dumpvmcore`), which have the registers in
//! a form of their own (VirtualBox's include/VBox/vmm/dbgfcorefmt.h).

use super::note::Notes;
use super::x86_64::{Register, Registers};
use crate::bytes::Endian;

/// Names and types of the notes: one of the core, and one of each CPU.
const CORE: (&[u8], u32) = (b"VBCORE", 0xb00);
const CPU: (&[u8], u32) = (b"VBCPU", 0xb01);
const MAGIC: u32 = 0xc01a_c0de;
/// The first version that is known to have registers in this form; at first, it was that of the
/// program.
const FIRST_VERSION: u32 = 0x0001_0004;
/// Offset of the segments in the registers, size of each, and offset of the selector in it.
const SEGMENTS: usize = 144;
const SEGMENT_SIZE: usize = 24;
const SELECTOR: usize = 16;

/// The registers at the start of a CPU's note, in order.
const GENERAL: [Register; 18] = [
    Register::Rax,
    Register::Rbx,
    Register::Rcx,
    Register::Rdx,
    Register::Rsi,
    Register::Rdi,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
    Register::Rip,
    Register::Rsp,
    Register::Rbp,
    Register::Rflags,
];
const SEGMENT_REGISTERS: [Register; 6] = [
    Register::Cs,
    Register::Ds,
    Register::Es,
    Register::Fs,
    Register::Gs,
    Register::Ss,
];

/// Returns NT_PRSTATUS notes with the registers in VirtualBox's notes; empty if there are none, or
/// if their form is an older one.
pub fn registers(notes: Notes<'_>) -> Vec<u8> {
    let endian = Endian::Little;
    let mut core = notes.clone().intact();
    let core = core.find(|note| (note.name, note.n_type) == CORE);
    let is_known = core.is_some_and(|note| {
        endian.u32(note.desc, 0) == Some(MAGIC) && endian.u32(note.desc, 4) >= Some(FIRST_VERSION)
    });
    if !is_known {
        return Vec::new();
    }
    let cpus = notes.intact();
    let cpus = cpus.filter(|note| (note.name, note.n_type) == CPU);
    let notes = cpus.map(|note| {
        let mut registers = Registers::default();
        for (index, register) in GENERAL.into_iter().enumerate() {
            registers.set(register, endian.u64(note.desc, 8 * index).unwrap_or(0));
        }
        for (index, register) in SEGMENT_REGISTERS.into_iter().enumerate() {
            let at = SEGMENTS + index * SEGMENT_SIZE + SELECTOR;
            registers.set(register, endian.u16(note.desc, at).unwrap_or(0).into());
        }
        registers.note()
    });
    notes.collect::<Vec<_>>().concat()
}
