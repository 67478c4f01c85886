//! The registers with which a task entered the kernel: struct pt_regs at the upper end of its
//! stack.

use bigiron_format::VirtAddr;
use serde::{Serialize, Serializer};

use crate::error::InspectError;
use crate::program::Program;

/// Members of x86-64's struct pt_regs (arch/x86/include/asm/ptrace.h).
const X86_64: [&str; 20] = [
    "ip", "sp", "bp", "ax", "bx", "cx", "dx", "si", "di", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "orig_ax", "flags", "cs",
];
/// Room above pt_regs, with and without CONFIG_X86_FRED (TOP_OF_KERNEL_STACK_PADDING).
const X86_64_ROOM: [u64; 2] = [0, 16];
/// The lowest bits of CS in user mode.
const USER_RING: u64 = 3;
/// The usual size of a kernel stack, of both architectures.
const USUAL_STACK: u64 = 16 << 10;
/// Registers of arm64 (arch/arm64/include/asm/ptrace.h), and the bits of `pstate` that are not 0 in
/// the kernel (PSR_MODE_MASK).
const ARM64_REGISTERS: usize = 31;
const ARM64_MODE: u64 = 0xf;

/// The user registers of a task, by the kernel's names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRegisters(pub Vec<(String, u64)>);

impl UserRegisters {
    /// Returns a register.
    pub fn get(&self, name: &str) -> Option<u64> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| *value)
    }

    /// Reads the registers of the task at `task`.
    ///
    /// # Errors
    ///
    /// The architecture is not known, the stack cannot be read, or it has no registers of user
    /// mode: as of a kernel thread.
    pub fn of(program: &Program, task: VirtAddr) -> Result<Self, InspectError> {
        let stack = program.pointer(task, "task_struct", "stack")?;
        let size = stack_size(program);
        let registers = program.size_of("pt_regs")?;
        let top = stack.0.wrapping_add(size).wrapping_sub(registers);
        let found = match program.kernel().architecture().name {
            "x86_64" => X86_64_ROOM.into_iter().find_map(|room| {
                let found = x86_64(program, VirtAddr(top.wrapping_sub(room))).ok()?;
                (found.get("cs")? & USER_RING == USER_RING).then_some(found)
            }),
            "aarch64" => Some(arm64(program, VirtAddr(top))?).filter(|found| {
                found
                    .get("pstate")
                    .is_some_and(|state| state & ARM64_MODE == 0)
            }),
            other => {
                return Err(InspectError::Unsupported {
                    what: "user registers",
                    found: format!("of {other}"),
                    known: "those of x86-64 and arm64",
                });
            }
        };
        found.ok_or_else(|| InspectError::NotKnown {
            what: "user registers",
            reason: "the stack of the task does not begin with those of user mode".into(),
        })
    }
}

/// Size of a kernel stack (THREAD_SIZE): that of the first task, which the linker's script says
/// (INIT_TASK_DATA, include/asm-generic/vmlinux.lds.h; renamed in 6.10 by commit 8f69cba096b5).
pub(crate) fn stack_size(program: &Program) -> u64 {
    let between = |start: &str, end: &str| {
        let (start, end) = (program.symbol(start).ok()?, program.symbol(end).ok()?);
        end.0.checked_sub(start.0)
    };
    between("__start_init_stack", "__end_init_stack")
        .or_else(|| between("__start_init_task", "__end_init_task"))
        .filter(|size| size.is_power_of_two())
        .unwrap_or(USUAL_STACK)
}

fn x86_64(program: &Program, at: VirtAddr) -> Result<UserRegisters, InspectError> {
    let read = |name: &&str| Ok(((*name).to_owned(), program.value(at, "pt_regs", name)?));
    let registers = X86_64.iter().map(read);
    Ok(UserRegisters(
        registers.collect::<Result<_, InspectError>>()?,
    ))
}

fn arm64(program: &Program, at: VirtAddr) -> Result<UserRegisters, InspectError> {
    let mut found = Vec::new();
    for name in ["pc", "sp", "pstate"] {
        found.push((name.to_owned(), program.value(at, "pt_regs", name)?));
    }
    let first = program.member(at, "pt_regs", "regs")?;
    for number in 0..ARM64_REGISTERS {
        let at = program.plus(first, 8 * number as u64)?;
        found.push((format!("x{number}"), program.number(at, 8)?));
    }
    Ok(UserRegisters(found))
}

/// Serializes as an object of hexadecimal values.
impl Serialize for UserRegisters {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(
            self.0
                .iter()
                .map(|(name, value)| (name, format!("{value:#x}"))),
        )
    }
}
