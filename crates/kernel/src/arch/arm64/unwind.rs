//! Unwinds from frame record to frame record, like the kernel (arch/arm64/kernel/stacktrace.c).
//!
//! The kernel always keeps frame pointers: x29 points to a record with the caller's x29 and the
//! return address. Where the kernel was interrupted, the record is in the saved registers
//! (`pt_regs.stackframe`). Since 6.13 (commit c2c6b27b5aa1) that record is {0, 0} and a type
//! follows it; before, it has the interrupted x29 and program counter.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{
    CallingConvention, End, Form, FrameForms, Frames, Position, Reason, Registers, StackReader,
    Stacks, Unwind,
};
use super::registers;

/// FRAME_META_TYPE_FINAL and FRAME_META_TYPE_PT_REGS
/// (arch/arm64/include/asm/stacktrace/frame.h).
const FINAL: u64 = 1;
const PT_REGS: u64 = 2;
/// Prefixes of the functions that save the registers of an interrupted kernel
/// (arch/arm64/kernel/entry.S).
const KERNEL_ENTRIES: [&str; 2] = ["el1h_", "el1_"];

/// The instructions that make and drop a frame record.
const RECORD: FrameForms = FrameForms {
    // `add x29, sp, #…`, the immediate value and its shift masked.
    make: &[Form(0xff80_03ff, 0x9100_03fd)],
    // `ldp x29, x30, [sp…]`, of any form.
    drop: Form(0xfe40_7fff, 0xa840_7bfd),
    // `ret`, `retaa` and `retab`; and `b`.
    leave: &[
        Form(0xffff_f3ff, 0xd65f_03c0 & 0xffff_f3ff),
        Form(0xfc00_0000, 0x1400_0000),
    ],
};

/// The stacks of arm64.
pub struct Arm64;

impl Stacks for Arm64 {
    fn of(&self, kernel: &dyn StackReader) -> Box<dyn Unwind> {
        let record = kernel.locate("pt_regs", "stackframe").ok().flatten();
        let record_type = kernel.locate("pt_regs", "stackframe.type").ok().flatten();
        Box::new(Records {
            signature: kernel.info().number("KERNELPACMASK").unwrap_or(0) as u64,
            in_registers: record.map(|member| member.offset),
            has_types: record_type.is_some(),
        })
    }
}

/// The frame records of a kernel.
struct Records {
    /// Bits of a return address that pointer authentication uses; they are set in an address of
    /// the kernel. 0 without it.
    signature: u64,
    /// Offset of the record in struct pt_regs.
    in_registers: Option<u64>,
    /// True if a type follows a record {0, 0}.
    has_types: bool,
}

impl CallingConvention for Records {
    // Records are pairs of words; the stack pointer has 16 bytes.
    const ALIGN: u64 = 8;

    fn of_note(&self, registers: &[u8], endian: Endian) -> Option<Registers> {
        registers::parse(registers, endian)
    }

    fn of_sleeper(&self, kernel: &dyn StackReader, task: VirtAddr) -> Result<Registers, Reason> {
        registers::of_sleeper(kernel, task)
    }

    fn has_no_frame(&self, kernel: &dyn StackReader, registers: &Registers) -> bool {
        let link = self.without_signature(registers.link);
        // Instructions are little-endian in every kernel.
        kernel.function_at(link.wrapping_sub(1)).is_some()
            && !RECORD.has_frame(kernel, registers.ip, Endian::Little)
    }

    fn returned(&self, _: &dyn StackReader, ip: u64, sp: u64) -> Position {
        Position::called(self.without_signature(ip), sp)
    }

    fn leave(&self, frames: &mut Frames<'_, Self>, _: Option<Registers>) -> Result<(), End> {
        let at = frames.fp;
        if at == 0 {
            return Err(End::Reached);
        }
        frames.chain.follow(at)?;
        let kernel = frames.kernel;
        let (next, link) = (kernel.word(at)?, kernel.word(at.wrapping_add(8))?);
        match (next, link) {
            (0, 0) if !self.has_types => Err(End::Reached),
            (0, 0) => match kernel.word(at.wrapping_add(16))? {
                FINAL => Err(End::Reached),
                PT_REGS => frames.resume(self.registers_around(kernel, at)?),
                other => Err(End::Cut(format!(
                    "the frame record at {at:#x} has the unknown type {other}"
                ))),
            },
            _ => {
                if let Some(registers) = self.saved(frames, at, next, link)? {
                    return frames.resume(registers);
                }
                frames.return_to(link, at);
                frames.fp = next;
                Ok(())
            }
        }
    }
}

impl Records {
    /// Reads the registers that have the record at `at`.
    fn registers_around(&self, kernel: &dyn StackReader, at: u64) -> Result<Registers, Reason> {
        let Some(offset) = self.in_registers else {
            return Err(Reason("the kernel has no pt_regs.stackframe".into()));
        };
        registers::read(kernel, at.wrapping_sub(offset))
    }

    /// Returns the saved registers that have the record at `at`, with this frame pointer and
    /// program counter, in a kernel without types of records.
    fn saved(
        &self,
        frames: &Frames<'_, Self>,
        at: u64,
        fp: u64,
        pc: u64,
    ) -> Result<Option<Registers>, End> {
        if self.has_types || self.in_registers.is_none() {
            return Ok(None);
        }
        let function = frames.kernel.function_at(frames.position.code);
        let is_entry = function.is_some_and(|function| {
            let mut all = KERNEL_ENTRIES.iter();
            all.any(|prefix| function.name.starts_with(prefix))
        });
        if !is_entry {
            return Ok(None);
        }
        let registers = self.registers_around(frames.kernel, at)?;
        Ok(((registers.fp, registers.ip) == (fp, pc)).then_some(registers))
    }

    /// Removes what pointer authentication put into a return address.
    fn without_signature(&self, address: u64) -> u64 {
        match address >> 55 & 1 {
            1 => address | self.signature,
            _ => address,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::stacks::fake::{Fake, Text};
    use super::*;

    const STACK: u64 = 0xffff_8000_1000_0000;
    const IRQ_STACK: u64 = 0xffff_8000_0800_0000;
    const TASK: u64 = 0xffff_0000_0100_0000;
    /// `stp x29, x30, [sp, #-32]!`, `mov x29, sp`.
    const PROLOGUE: [u8; 8] = [0xfd, 0x7b, 0xbe, 0xa9, 0xfd, 0x03, 0x00, 0x91];
    const TEXT: Text = Text {
        at: 0xffff_8000_8000_0000,
        names: &[
            "__switch_to",
            "schedule",
            "kthread",
            "ret_from_fork",
            "el1h_64_irq",
            "handle_irq",
            "leaf",
        ],
    };

    fn kernel(has_types: bool) -> Fake {
        let mut fake = Fake::new(
            Endian::Little,
            "NUMBER(KERNELPACMASK)=0x7f000000000000\nPAGESIZE=4096\n",
        );
        for name in TEXT.names {
            let code: &[u8] = if *name == "leaf" { &[] } else { &PROLOGUE };
            fake.function(&TEXT, name, code);
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
        let signed = |name| TEXT.inside(name) & !(0x55 << 48);
        fake.put(
            TASK + 80,
            &[STACK + 0x100, STACK + 0x100, TEXT.inside("__switch_to")],
        )
        .put(STACK + 0x100, &[STACK + 0x140, signed("schedule")])
        .put(STACK + 0x140, &[STACK + 0x180, signed("kthread")])
        .put(
            STACK + 0x180,
            &[STACK + 0x1c0, TEXT.inside("ret_from_fork")],
        )
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
                TEXT.inside("leaf"),
                STACK + 0x140,
                TEXT.inside("schedule"),
                STACK + 0x130,
            );
            let at = STACK - 0x200;
            let record = match has_types {
                true => [0, 0, PT_REGS],
                false => [STACK + 0x140, TEXT.inside("leaf"), 0],
            };
            fake.put(at, &saved).put(at + 288, &record);
            fake.put(IRQ_STACK, &[at + 288, TEXT.inside("el1h_64_irq")]);
            let start = registers(TEXT.inside("handle_irq"), IRQ_STACK, 0, IRQ_STACK - 64);
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
        fake.put_bytes(TEXT.inside("handle_irq"), &epilogue);
        for (pc, is_direct) in [
            (TEXT.start("handle_irq"), true),
            (TEXT.start("handle_irq") + 4, true),
            (TEXT.start("handle_irq") + 8, false),
            (TEXT.inside("handle_irq"), false),
            (TEXT.inside("handle_irq") + 4, true),
            // Behind the return another part of the function begins.
            (TEXT.inside("handle_irq") + 8, false),
        ] {
            let start = registers(pc, STACK + 0x140, TEXT.inside("schedule"), STACK + 0x100);
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
            [STACK + 0x140, TEXT.inside("schedule"), 0],
            [STACK + 0x100, TEXT.inside("schedule"), 0],
            [STACK + 0x141, TEXT.inside("schedule"), 0],
            [0x10, TEXT.inside("schedule"), 0],
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
