//! The states of the CPUs, which the firmware takes from system management RAM.

use super::Disks;
use crate::bytes::{Endian, ReadAt};
use crate::elf::note;
use crate::error::FormatError;

/// Size of the state of a CPU.
pub const CPU_STATE_SIZE: usize = 1024;
/// Size of the entry of a CPU before the states: its APIC ID and its logical destination.
const APIC_SIZE: u64 = 16;
/// Size of struct elf_prstatus of x86-64, and offset of pr_reg in it (include/linux/elfcore.h).
const PRSTATUS_SIZE: usize = 336;
const PR_REG: usize = 112;

/// Offsets in a state of r15, r14 … of struct user_regs_struct (arch/x86/include/asm/user_64.h),
/// in its order; `None` for what a state has not.
const REGISTERS: [Option<usize>; 27] = [
    Some(796),  // r15
    Some(804),  // r14
    Some(812),  // r13
    Some(820),  // r12
    Some(900),  // bp
    Some(884),  // bx
    Some(828),  // r11
    Some(836),  // r10
    Some(844),  // r9
    Some(852),  // r8
    Some(860),  // ax
    Some(868),  // cx
    Some(876),  // dx
    Some(908),  // si
    Some(916),  // di
    None,       // orig_ax
    Some(984),  // ip
    Some(940),  // cs
    Some(1000), // flags
    Some(892),  // sp
    Some(944),  // ss
    None,       // fs_base
    None,       // gs_base
    Some(948),  // ds
    Some(936),  // es
    Some(952),  // fs
    Some(956),  // gs
];
/// Offset of EFER, and its bit LMA: the CPU was in long mode.
const EFER: usize = 992;
const LONG_MODE: u64 = 1 << 10;
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
    let notes = states
        .map(|state| note::encode(b"CORE", note::NT_PRSTATUS, &prstatus(state), Endian::Little));
    notes.collect::<Vec<_>>().concat()
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

/// Returns struct elf_prstatus with the registers of a CPU's state.
fn prstatus(state: &[u8]) -> Vec<u8> {
    let mut out = vec![0; PRSTATUS_SIZE];
    for (index, offset) in REGISTERS.iter().enumerate() {
        let value = offset.and_then(|offset| match SEGMENTS.contains(&offset) {
            true => Endian::Little.u32(state, offset).map(u64::from),
            false => Endian::Little.u64(state, offset),
        });
        let at = PR_REG + 8 * index;
        out[at..at + 8].copy_from_slice(&value.unwrap_or(0).to_le_bytes());
    }
    out
}
