//! The registers of the CPUs: struct vcpu_guest_context of each
//! (xen/include/public/arch-x86/xen.h).

use super::sections::Section;
use crate::bytes::{Endian, ReadAt};
use crate::elf::x86_64::{Register, Registers};
use crate::error::FormatError;

/// Size of the context of a CPU.
const CONTEXT_SIZE: usize = 5168;
/// Maximum number of CPUs.
const MAX_CPUS: u64 = 4096;
/// Offset of the flags, and the flag of a CPU that runs the guest's kernel: a paravirtual one has
/// the privileges of programs.
const FLAGS: usize = 512;
const IN_KERNEL: u64 = 1 << 2;

/// Offsets of the registers, and their sizes.
const REGISTERS: [(Register, usize, usize); 24] = [
    (Register::R15, 520, 8),
    (Register::R14, 528, 8),
    (Register::R13, 536, 8),
    (Register::R12, 544, 8),
    (Register::Rbp, 552, 8),
    (Register::Rbx, 560, 8),
    (Register::R11, 568, 8),
    (Register::R10, 576, 8),
    (Register::R9, 584, 8),
    (Register::R8, 592, 8),
    (Register::Rax, 600, 8),
    (Register::Rcx, 608, 8),
    (Register::Rdx, 616, 8),
    (Register::Rsi, 624, 8),
    (Register::Rdi, 632, 8),
    // Error code and vector: 640.
    (Register::Rip, 648, 8),
    (Register::Cs, 656, 2),
    (Register::Rflags, 664, 8),
    (Register::Rsp, 672, 8),
    (Register::Ss, 680, 2),
    (Register::Es, 688, 2),
    (Register::Ds, 696, 2),
    (Register::Fs, 704, 2),
    (Register::Gs, 712, 2),
];

/// Reads the registers; returns a note for each CPU.
pub(super) fn read(
    file: &dyn ReadAt,
    section: &Section,
    is_paravirtual: bool,
) -> Result<Vec<u8>, FormatError> {
    let size = CONTEXT_SIZE as u64;
    if !section.size.is_multiple_of(size) || section.size / size > MAX_CPUS {
        return Err(FormatError::unexpected(
            "the size of .xen_prstatus",
            section.offset,
            format!("{size} bytes for each of at most {MAX_CPUS} CPUs"),
            section.size.to_string(),
        ));
    }
    let bytes = file.read_vec_at("the registers", section.offset, section.size)?;
    let notes = bytes.chunks_exact(CONTEXT_SIZE).map(|context| {
        let mut registers = Registers::default();
        for (register, at, size) in REGISTERS {
            let value = match size {
                2 => Endian::Little.u16(context, at).map(u64::from),
                _ => Endian::Little.u64(context, at),
            };
            registers.set(register, value.unwrap_or(0));
        }
        let flags = Endian::Little.u64(context, FLAGS).unwrap_or(0);
        if is_paravirtual && flags & IN_KERNEL != 0 {
            registers.set_kernel_mode();
        }
        registers.note()
    });
    Ok(notes.collect::<Vec<_>>().concat())
}
