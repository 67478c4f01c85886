//! Registers of CPUs and of sleeping tasks.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{Reason, StackReader};

/// Size of struct pt_regs, which is followed by segment registers in a note.
const PT_REGS: usize = 21 * 8;

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
    /// Parses a struct pt_regs, with which pr_reg of a note begins too.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
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
    pub fn read(kernel: &dyn StackReader, at: u64) -> Result<Self, Reason> {
        let mut bytes = [0; PT_REGS];
        kernel.read("the registers on a stack", at, &mut bytes)?;
        Ok(Self::parse(&bytes).unwrap_or_default())
    }

    /// Returns true for user mode.
    pub fn is_user(&self) -> bool {
        self.cs & 3 != 0
    }
}

/// Returns the instruction, stack and frame pointer at which a sleeping task continues.
pub fn of_sleeper(kernel: &dyn StackReader, task: VirtAddr) -> Result<Registers, Reason> {
    let sp = kernel.value(task, "task_struct", "thread.sp")?;
    let frame = "inactive_task_frame";
    let value = |path| kernel.value(VirtAddr(sp), frame, path);
    let size = kernel.size_of(frame)?.unwrap_or(0);
    Ok(Registers {
        ip: value("ret_addr")?,
        bp: value("bp")?,
        r13: value("r13")?,
        sp: sp.wrapping_add(size),
        ..Registers::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_read_at_the_kernels_offsets() {
        let bytes: Vec<u8> = (1..=27).flat_map(u64::to_le_bytes).collect();
        let found = Registers::parse(&bytes).unwrap();
        assert_eq!((found.ip, found.sp, found.bp), (17, 20, 5));
        assert_eq!((found.r13, found.r10, found.dx, found.di), (3, 8, 13, 15));
        assert!(found.is_user());
        assert_eq!(Registers::parse(&bytes[..PT_REGS - 16]), None);
    }
}
