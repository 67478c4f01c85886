//! Unwinds from frame record to frame record, like the kernel (arch/arm64/kernel/stacktrace.c).
//!
//! The kernel always keeps frame pointers: x29 points to a record with the caller's x29 and the
//! return address. Where the kernel was interrupted, the record is in the saved registers
//! (`pt_regs.stackframe`). Since 6.13 (commit c2c6b27b5aa1) that record is {0, 0} and a type
//! follows it; before, it has the interrupted x29 and program counter.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{
    Before, Chain, End, Nameless, Position, Reason, StackReader, Stacks, Unwind, Walk,
    check_trampoline,
};
use super::registers::{Registers, of_sleeper};

/// FRAME_META_TYPE_FINAL and FRAME_META_TYPE_PT_REGS
/// (arch/arm64/include/asm/stacktrace/frame.h).
const FINAL: u64 = 1;
const PT_REGS: u64 = 2;
/// Prefixes of the functions that save the registers of an interrupted kernel
/// (arch/arm64/kernel/entry.S).
const KERNEL_ENTRIES: [&str; 2] = ["el1h_", "el1_"];

/// The stacks of arm64.
pub struct Arm64;

impl Stacks for Arm64 {
    fn of(&self, kernel: &dyn StackReader) -> Box<dyn Unwind> {
        let record = kernel.locate("pt_regs", "stackframe").ok().flatten();
        let record_type = kernel.locate("pt_regs", "stackframe.type").ok().flatten();
        Box::new(Layout {
            signature: kernel.info().number("KERNELPACMASK").unwrap_or(0) as u64,
            record: record.map(|member| member.offset),
            has_types: record_type.is_some(),
        })
    }
}

/// What differs between kernels.
struct Layout {
    /// Bits of a return address that pointer authentication uses; they are set in an address of
    /// the kernel. 0 without it.
    signature: u64,
    /// Offset of the record in struct pt_regs.
    record: Option<u64>,
    /// True if a type follows a record {0, 0}.
    has_types: bool,
}

impl Unwind for Layout {
    fn of_cpu<'a>(
        &'a self,
        kernel: &'a dyn StackReader,
        registers: &[u8],
        endian: Endian,
    ) -> Option<Box<dyn Walk + 'a>> {
        let found = Registers::parse(registers, endian)?;
        let saved = found.pc != 0 || found.sp != 0;
        saved.then(|| Box::new(Frames::new(kernel, self, &found, true)) as _)
    }

    fn of_sleeper<'a>(
        &'a self,
        kernel: &'a dyn StackReader,
        task: VirtAddr,
    ) -> Result<Box<dyn Walk + 'a>, Reason> {
        let found = of_sleeper(kernel, task)?;
        Ok(Box::new(Frames::new(kernel, self, &found, false)))
    }
}

/// A walk over one stack.
struct Frames<'a> {
    kernel: &'a dyn StackReader,
    layout: &'a Layout,
    position: Position,
    /// Address of the record with the caller.
    fp: u64,
    /// The registers, if the function was interrupted.
    registers: Option<Registers>,
    chain: Chain,
    nameless: Nameless,
}

impl Walk for Frames<'_> {
    fn position(&self) -> Option<Position> {
        let user = self.registers.is_some_and(|known| known.is_user());
        (!user).then_some(self.position)
    }

    fn step(&mut self) -> Result<(), End> {
        self.nameless.check(self.kernel, self.position.code)?;
        if let Some(registers) = self.registers.take() {
            if registers.is_user() {
                return Err(End::Reached);
            }
            let lr = self.without_signature(registers.lr);
            let caller = self.kernel.function_at(lr.wrapping_sub(1));
            if caller.is_some() && !has_record(self.kernel, registers.pc) {
                self.position = Position::called(lr, registers.sp);
                return Ok(());
            }
        } else {
            check_trampoline(self.kernel, self.position.ip)?;
        }
        let at = self.fp;
        if at == 0 {
            return Err(End::Reached);
        }
        self.chain.follow(at)?;
        let (next, lr) = (self.kernel.word(at)?, self.kernel.word(at.wrapping_add(8))?);
        match (next, lr) {
            (0, 0) if !self.layout.has_types => Err(End::Reached),
            (0, 0) => match self.kernel.word(at.wrapping_add(16))? {
                FINAL => Err(End::Reached),
                PT_REGS => self.interrupted(at),
                other => Err(End::Cut(format!(
                    "the frame record at {at:#x} has the unknown type {other}"
                ))),
            },
            _ if !self.layout.has_types && self.is_in_registers(at, next, lr)? => {
                self.interrupted(at)
            }
            _ => {
                self.position = Position::called(self.without_signature(lr), at);
                self.fp = next;
                Ok(())
            }
        }
    }
}

impl<'a> Frames<'a> {
    fn new(
        kernel: &'a dyn StackReader,
        layout: &'a Layout,
        start: &Registers,
        interrupted: bool,
    ) -> Self {
        Self {
            kernel,
            layout,
            position: match interrupted {
                true => Position::interrupted(start.pc, start.sp),
                false => Position::called(start.pc, start.sp),
            },
            fp: start.fp,
            registers: interrupted.then_some(*start),
            // Records are pairs of words; the stack pointer has 16 bytes.
            chain: Chain::new(start.sp, 8),
            nameless: Nameless::default(),
        }
    }

    /// Moves to the code that was interrupted when the registers with the record at `at` were
    /// saved.
    fn interrupted(&mut self, at: u64) -> Result<(), End> {
        let Some(offset) = self.layout.record else {
            return Err(End::Cut("the kernel has no pt_regs.stackframe".into()));
        };
        let registers = Registers::read(self.kernel, at.wrapping_sub(offset))?;
        self.position = Position::interrupted(registers.pc, registers.sp);
        self.fp = registers.fp;
        self.registers = Some(registers);
        match registers.is_user() {
            true => Err(End::Reached),
            false => Ok(()),
        }
    }

    /// Returns true if the record at `at` is in saved registers, of a kernel without types of
    /// records.
    fn is_in_registers(&self, at: u64, fp: u64, pc: u64) -> Result<bool, End> {
        let Some(offset) = self.layout.record else {
            return Ok(false);
        };
        let function = self.kernel.function_at(self.position.code);
        let is_entry = function.is_some_and(|function| {
            let mut all = KERNEL_ENTRIES.iter();
            all.any(|prefix| function.name.starts_with(prefix))
        });
        if !is_entry {
            return Ok(false);
        }
        let registers = Registers::read(self.kernel, at.wrapping_sub(offset))?;
        Ok((registers.fp, registers.pc) == (fp, pc))
    }

    /// Removes what pointer authentication put into a return address.
    fn without_signature(&self, address: u64) -> u64 {
        match address >> 55 & 1 {
            1 => address | self.layout.signature,
            _ => address,
        }
    }
}

/// Returns true if the function interrupted at `pc` has a frame record.
fn has_record(kernel: &dyn StackReader, pc: u64) -> bool {
    /// `add x29, sp, #…`, the immediate value and its shift masked.
    const SET: (u32, u32) = (0xff80_03ff, 0x9100_03fd);
    /// `ldp x29, x30, [sp…]`, of any form.
    const RESTORE: (u32, u32) = (0xfe40_7fff, 0xa840_7bfd);
    /// `ret`, `retaa` and `retab`; and `b`.
    const RETURN: (u32, u32) = (0xffff_f3ff, 0xd65f_03c0 & 0xffff_f3ff);
    const BRANCH: (u32, u32) = (0xfc00_0000, 0x1400_0000);
    let Some(code) = Before::read(kernel, pc) else {
        return true;
    };
    let is = |instruction: u32, (mask, value): (u32, u32)| instruction & mask == value;
    let instructions = |bytes: &[u8]| -> Vec<u32> {
        // Instructions are little-endian in every kernel.
        let words = bytes.chunks_exact(4);
        words
            .filter_map(|word| Endian::Little.u32(word, 0))
            .collect()
    };
    let was_set = instructions(&code.first)
        .into_iter()
        .any(|word| is(word, SET));
    let restored = instructions(&code.last)
        .into_iter()
        .rev()
        .take_while(|word| !is(*word, RETURN) && !is(*word, BRANCH))
        .any(|word| is(word, RESTORE));
    was_set && !restored
}

#[cfg(test)]
mod tests {
    use super::super::super::stacks::fake::Fake;
    use super::*;

    const STACK: u64 = 0xffff_8000_1000_0000;
    const IRQ_STACK: u64 = 0xffff_8000_0800_0000;
    const TASK: u64 = 0xffff_0000_0100_0000;
    const TEXT: u64 = 0xffff_8000_8000_0000;
    /// `stp x29, x30, [sp, #-32]!`, `mov x29, sp`.
    const PROLOGUE: [u8; 8] = [0xfd, 0x7b, 0xbe, 0xa9, 0xfd, 0x03, 0x00, 0x91];
    const FUNCTIONS: [&str; 7] = [
        "__switch_to",
        "schedule",
        "kthread",
        "ret_from_fork",
        "el1h_64_irq",
        "handle_irq",
        "leaf",
    ];

    fn text(name: &str) -> u64 {
        let index = FUNCTIONS.iter().position(|known| *known == name).unwrap();
        TEXT + Fake::FUNCTION * index as u64
    }

    /// A return address in the middle of a function.
    fn inside(name: &str) -> u64 {
        text(name) + 0x80
    }

    fn kernel(has_types: bool) -> Fake {
        let mut fake = Fake::new(
            Endian::Little,
            "NUMBER(KERNELPACMASK)=0x7f000000000000\nPAGESIZE=4096\n",
        );
        for name in FUNCTIONS {
            let code: &[u8] = if name == "leaf" { &[] } else { &PROLOGUE };
            fake.function(text(name), name, code);
        }
        fake.member("task_struct.thread.cpu_context.fp", 80)
            .member("task_struct.thread.cpu_context.sp", 88)
            .member("task_struct.thread.cpu_context.pc", 96)
            .member("pt_regs.stackframe", 288);
        if has_types {
            fake.member("pt_regs.stackframe.type", 304);
        }
        fake
    }

    /// Puts a stack from `schedule` to the start of a kernel thread; its signed return
    /// addresses lack bits of a kernel address.
    fn put_sleeper(fake: &mut Fake) {
        let signed = |name| inside(name) & !(0x55 << 48);
        fake.put(
            TASK + 80,
            &[STACK + 0x100, STACK + 0x100, inside("__switch_to")],
        )
        .put(STACK + 0x100, &[STACK + 0x140, signed("schedule")])
        .put(STACK + 0x140, &[STACK + 0x180, signed("kthread")])
        .put(STACK + 0x180, &[STACK + 0x1c0, inside("ret_from_fork")])
        .put(STACK + 0x1c0, &[0, 0, FINAL]);
    }

    /// The registers of a note or pt_regs.
    fn registers(pc: u64, fp: u64, lr: u64, sp: u64) -> Vec<u64> {
        let mut words = vec![0; 34];
        (words[29], words[30], words[31], words[32]) = (fp, lr, sp, pc);
        // PSR_MODE_EL1h.
        words[33] = 5;
        words
    }

    #[test]
    fn sleeping_task_is_unwound_to_its_last_record_without_signatures() {
        for has_types in [false, true] {
            let mut fake = kernel(has_types);
            put_sleeper(&mut fake);
            let (found, end) = fake.sleeper(&Arm64, TASK);
            let expected = ["__switch_to", "schedule", "kthread", "ret_from_fork"];
            assert_eq!(fake.names(&found), expected);
            assert_eq!(end, End::Reached);
        }
    }

    #[test]
    fn interrupted_code_is_found_beyond_the_interrupt_stack() {
        for has_types in [false, true] {
            let mut fake = kernel(has_types);
            put_sleeper(&mut fake);
            // The leaf called by schedule was interrupted.
            let saved = registers(
                inside("leaf"),
                STACK + 0x140,
                inside("schedule"),
                STACK + 0x130,
            );
            let at = STACK - 0x200;
            let record = match has_types {
                true => [0, 0, PT_REGS],
                false => [STACK + 0x140, inside("leaf"), 0],
            };
            fake.put(at, &saved).put(at + 288, &record);
            fake.put(IRQ_STACK, &[at + 288, inside("el1h_64_irq")]);
            let start = registers(inside("handle_irq"), IRQ_STACK, 0, IRQ_STACK - 64);
            let (found, end) = fake.cpu(&Arm64, &start);
            let expected = [
                "handle_irq!",
                "el1h_64_irq",
                "leaf!",
                "schedule",
                "kthread",
                "ret_from_fork",
            ];
            assert_eq!(fake.names(&found), expected);
            assert_eq!(end, End::Reached);
        }
    }

    #[test]
    fn function_without_a_record_yet_or_any_more_returns_to_the_link_register() {
        let mut fake = kernel(true);
        put_sleeper(&mut fake);
        // ldp x29, x30, [sp], #32; ret.
        let epilogue = [0xfd, 0x7b, 0xc2, 0xa8, 0xc0, 0x03, 0x5f, 0xd6];
        fake.put_bytes(inside("handle_irq"), &epilogue);
        for (pc, is_direct) in [
            (text("handle_irq"), true),
            (text("handle_irq") + 4, true),
            (text("handle_irq") + 8, false),
            (inside("handle_irq"), false),
            (inside("handle_irq") + 4, true),
            // Behind the return another part of the function begins.
            (inside("handle_irq") + 8, false),
        ] {
            let start = registers(pc, STACK + 0x140, inside("schedule"), STACK + 0x100);
            let (found, _) = fake.cpu(&Arm64, &start);
            let next = if is_direct { "schedule" } else { "kthread" };
            assert_eq!(fake.names(&found)[..2], ["handle_irq!", next], "{pc:#x}");
        }
    }

    #[test]
    fn user_mode_has_no_frames() {
        let mut start = registers(0x1234, 0, 0, 0x7000);
        for pstate in [0, 0x8000_0000, 0x10] {
            start[33] = pstate;
            assert_eq!(kernel(true).cpu(&Arm64, &start), (vec![], End::Reached));
        }
    }

    #[test]
    fn damaged_chains_end_with_a_reason() {
        let mut fake = kernel(true);
        put_sleeper(&mut fake);
        for record in [
            // Onto itself, backwards, to no record, to memory that is missing.
            [STACK + 0x140, inside("schedule"), 0],
            [STACK + 0x100, inside("schedule"), 0],
            [STACK + 0x141, inside("schedule"), 0],
            [0x10, inside("schedule"), 0],
            // An unknown type, and registers that are not there.
            [0, 0, 3],
            [0, 0, PT_REGS],
        ] {
            fake.put(STACK + 0x140, &record);
            let (found, end) = fake.sleeper(&Arm64, TASK);
            assert!(matches!(end, End::Cut(_)), "{record:x?}");
            assert!(found.len() < 32, "{record:x?}");
        }
        // Return addresses that are no code.
        for index in 0..64 {
            let at = STACK + 0x140 + 16 * index;
            fake.put(at, &[at + 16, at]);
        }
        let (found, end) = fake.sleeper(&Arm64, TASK);
        assert!(found.len() < 16 && matches!(end, End::Cut(_)), "{end:?}");
    }
}
