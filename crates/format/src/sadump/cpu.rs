//! The states of the CPUs, which the firmware takes from system management RAM.

use super::Disks;
use crate::bytes::{Endian, ReadAt};
use crate::elf::x86_64::{Register, Registers};
use crate::error::FormatError;

/// Size of the state of a CPU.
pub const CPU_STATE_SIZE: usize = 1024;
/// Size of the entry of a CPU before the states: its APIC ID and its logical destination.
const APIC_SIZE: u64 = 16;
/// Offsets in a state of the registers.
const REGISTERS: [(Register, usize); 24] = [
    (Register::R15, 796),
    (Register::R14, 804),
    (Register::R13, 812),
    (Register::R12, 820),
    (Register::R11, 828),
    (Register::R10, 836),
    (Register::R9, 844),
    (Register::R8, 852),
    (Register::Rax, 860),
    (Register::Rcx, 868),
    (Register::Rdx, 876),
    (Register::Rbx, 884),
    (Register::Rsp, 892),
    (Register::Rbp, 900),
    (Register::Rsi, 908),
    (Register::Rdi, 916),
    (Register::Es, 936),
    (Register::Cs, 940),
    (Register::Ss, 944),
    (Register::Ds, 948),
    (Register::Fs, 952),
    (Register::Gs, 956),
    (Register::Rip, 984),
    (Register::Rflags, 1000),
];
/// Offset of EFER, and its bit LMA: the CPU was in long mode.
const EFER: usize = 992;
const LONG_MODE: u64 = 1 << 10;
/// Offset of CR3.
const CR3: usize = 1008;
/// Offsets of the segment registers, which have 4 bytes.
const SEGMENTS: std::ops::Range<usize> = 936..968;

impl Disks {
    /// Reads the states of all CPUs, one behind the other; empty if the dump has none.
    pub fn cpu_states(&self) -> Result<Vec<u8>, FormatError> {
        let (header, file) = (&self.header, &self.first().file);
        let Some(at) = header.sub_header.filter(|_| header.cpu_count != 0) else {
            return Ok(Vec::new());
        };
        let mut size = [0; 4];
        file.read_exact_at("the sub-header", at, &mut size)?;
        let size = u32::from_le_bytes(size);
        if u64::from(size) != u64::from(header.cpu_count) * CPU_STATE_SIZE as u64 {
            return Err(FormatError::unexpected(
                "the size of the CPU states in the sub-header",
                at,
                format!(
                    "{CPU_STATE_SIZE} bytes for each of {} CPUs",
                    header.cpu_count
                ),
                size.to_string(),
            ));
        }
        let at = at + 4 + u64::from(header.cpu_count) * APIC_SIZE;
        let end = header.ram_bitmap.0;
        if at + u64::from(size) > end {
            return Err(FormatError::unexpected(
                "the number of CPUs",
                at,
                format!("states before the bitmap at {end:#x}"),
                header.cpu_count.to_string(),
            ));
        }
        file.read_vec_at("the CPU states", at, size.into())
    }
}

/// Returns an NT_PRSTATUS note for each CPU.
pub fn notes(states: &[u8]) -> Vec<u8> {
    let states = states.chunks_exact(CPU_STATE_SIZE);
    let notes = states.map(|state| registers(state).note());
    notes.collect::<Vec<_>>().concat()
}

/// Returns CR3 of each CPU.
pub fn page_tables(states: &[u8]) -> Vec<u64> {
    let states = states.chunks_exact(CPU_STATE_SIZE);
    let found = states.map(|state| Endian::Little.u64(state, CR3).unwrap_or(0));
    found.collect()
}

/// Returns true if there are CPUs, and none was in long mode.
pub fn is_32_bit(states: &[u8]) -> bool {
    let mut states = states.chunks_exact(CPU_STATE_SIZE);
    let is_long = |state: &[u8]| {
        let efer = Endian::Little.u64(state, EFER);
        efer.is_some_and(|efer| efer & LONG_MODE != 0)
    };
    states.len() != 0 && !states.any(is_long)
}

/// Reads the registers in a CPU's state.
fn registers(state: &[u8]) -> Registers {
    let mut registers = Registers::default();
    for (register, offset) in REGISTERS {
        let value = match SEGMENTS.contains(&offset) {
            true => Endian::Little.u32(state, offset).map(u64::from),
            false => Endian::Little.u64(state, offset),
        };
        registers.set(register, value.unwrap_or(0));
    }
    registers
}
