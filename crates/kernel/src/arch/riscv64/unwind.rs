//! Unwinds by frame pointers, like the kernel (walk_stackframe,
//! arch/riscv/kernel/stacktrace.c).
//!
//! The frame pointer s0 points behind a record with the caller's frame pointer and the return
//! address. A function that calls no other keeps only the frame pointer, at the place of the
//! return address.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{
    Before, CallingConvention, End, Frames, Position, Reason, Registers, StackReader, Stacks,
    Unwind,
};
use super::registers;

/// Functions to which exceptions and interrupts return: their frame is a struct pt_regs
/// (arch/riscv/kernel/entry.S). In the first the handler's call is.
const ENTRIES: [&str; 5] = [
    "handle_exception",
    "ret_from_exception",
    "ret_from_syscall",
    "restore_all",
    "resume_kernel",
];
/// Functions in which tasks and CPUs begin: the frame pointer is not the kernel's there
/// (arch/riscv/kernel/entry.S and head.S).
const BEGINNINGS: [&str; 6] = [
    "_start_kernel",
    "secondary_start_sbi",
    "ret_from_fork",
    "ret_from_fork_kernel_asm",
    "ret_from_fork_user_asm",
    "ret_from_kernel_thread",
];

/// The stacks of riscv64.
pub struct Riscv64;

impl Stacks for Riscv64 {
    fn of(&self, _: &dyn StackReader) -> Box<dyn Unwind> {
        Box::new(FramePointers)
    }
}

struct FramePointers;

impl CallingConvention for FramePointers {
    const ALIGN: u64 = 8;

    fn of_note(&self, registers: &[u8], endian: Endian) -> Option<Registers> {
        registers::parse(registers, endian)
    }

    fn of_sleeper(&self, kernel: &dyn StackReader, task: VirtAddr) -> Result<Registers, Reason> {
        registers::of_sleeper(kernel, task)
    }

    fn has_no_frame(&self, kernel: &dyn StackReader, registers: &Registers) -> bool {
        is_code(kernel, registers.link) && !has_record(kernel, registers.ip)
    }

    fn returned(&self, kernel: &dyn StackReader, ip: u64, sp: u64) -> Position {
        let position = Position::called(ip, sp);
        // The entry code jumps to a handler with this return address, without a call before it.
        match kernel.symbol("ret_from_exception") {
            Some(VirtAddr(entry)) if entry == ip => Position {
                code: ip,
                ..position
            },
            _ => position,
        }
    }

    fn leave(
        &self,
        frames: &mut Frames<'_, Self>,
        interrupted: Option<Registers>,
    ) -> Result<(), End> {
        let kernel = frames.kernel;
        if interrupted.is_none() {
            let function = kernel.function_at(frames.position.code);
            let name = function.map_or("", |function| function.name);
            if BEGINNINGS.contains(&name) {
                return Err(End::Reached);
            }
            if ENTRIES.contains(&name) {
                let registers = registers::read(kernel, frames.position.sp)?;
                // A kernel thread begins with registers that are 0.
                if registers.is_user || registers.ip == 0 {
                    return Err(End::Reached);
                }
                frames.chain.follow(registers.sp)?;
                return frames.resume(registers);
            }
        }
        let sp = frames.fp;
        if sp == 0 {
            return Err(End::Reached);
        }
        frames.chain.follow(sp)?;
        let fp = kernel.word(sp.wrapping_sub(16))?;
        let ra = kernel.word(sp.wrapping_sub(8))?;
        match interrupted {
            // It keeps only the frame pointer.
            Some(registers) if !is_code(kernel, ra) => {
                frames.fp = ra;
                frames.return_to(registers.link, sp);
            }
            _ => {
                frames.fp = fp;
                frames.return_to(ra, sp);
            }
        }
        Ok(())
    }
}

fn is_code(kernel: &dyn StackReader, address: u64) -> bool {
    kernel.function_at(address.wrapping_sub(1)).is_some()
}

/// Returns true if the function interrupted at `pc` has a frame record.
fn has_record(kernel: &dyn StackReader, pc: u64) -> bool {
    let Some(code) = Before::read(kernel, pc) else {
        return true;
    };
    let mut rest = code.first.as_slice();
    // Instructions have 2 or 4 bytes and are little-endian.
    while let Some((first, after)) = rest.split_first_chunk::<2>() {
        let short = u16::from_le_bytes(*first);
        if short & 3 != 3 {
            // c.addi4spn s0, sp, …
            if short & 0xe01f == 0 && short != 0 {
                return true;
            }
            rest = after;
            continue;
        }
        let Some((all, after)) = rest.split_first_chunk::<4>() else {
            break;
        };
        // addi s0, sp, …, a positive number.
        if u32::from_le_bytes(*all) & 0x800f_ffff == 0x0001_0413 {
            return true;
        }
        rest = after;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::super::stacks::fake::{Fake, Text};
    use super::*;

    const STACK: u64 = 0xff20_0000_1000_0000;
    const IRQ_STACK: u64 = 0xff20_0000_0800_0000;
    const TASK: u64 = 0xff60_0000_0100_0000;
    /// `c.addi sp, -32`, `c.sdsp ra, 24(sp)`, `c.sdsp s0, 16(sp)`, `c.addi4spn s0, sp, 32`.
    const SHORT: [u8; 8] = [0x01, 0x11, 0x06, 0xec, 0x22, 0xe8, 0x00, 0x10];
    /// `addi sp, sp, -2032`, `addi s0, sp, 2032`.
    const LONG: [u8; 8] = [0x13, 0x01, 0x01, 0x81, 0x13, 0x04, 0x01, 0x7f];
    const TEXT: Text = Text {
        at: 0xffff_ffff_8000_0000,
        names: &[
            "__schedule",
            "kthread",
            "ret_from_fork",
            "handle_exception",
            "ret_from_exception",
            "do_irq",
            "leaf",
        ],
    };

    fn kernel() -> Fake {
        let mut fake = Fake::new(Endian::Little, "PAGESIZE=4096\n");
        for name in TEXT.names {
            let code = if *name == "kthread" { &LONG } else { &SHORT };
            fake.function(&TEXT, name, code);
        }
        fake.member("task_struct.thread.ra", 0)
            .member("task_struct.thread.sp", 8)
            .member("task_struct.thread.s", 16);
        fake
    }

    /// Puts a stack from `__schedule` to the start of a kernel thread.
    fn put_sleeper(fake: &mut Fake) {
        fake.put(TASK, &[TEXT.inside("__schedule"), STACK, STACK + 0x100])
            .put(STACK + 0xf0, &[STACK + 0x200, TEXT.inside("kthread")])
            // s0 was the address of the thread's function.
            .put(
                STACK + 0x1f0,
                &[TEXT.start("kthread"), TEXT.inside("ret_from_fork")],
            );
    }

    fn registers(pc: u64, fp: u64, ra: u64, sp: u64, status: u64) -> Vec<u64> {
        let mut words = vec![0; WORDS_OF_PT_REGS];
        (words[0], words[1], words[2], words[8]) = (pc, ra, sp, fp);
        words[32] = status;
        words
    }

    const WORDS_OF_PT_REGS: usize = 36;
    const SUPERVISOR: u64 = 0x100;

    #[test]
    fn sleeping_task_is_unwound_to_where_its_thread_begins() {
        let mut fake = kernel();
        put_sleeper(&mut fake);
        let (found, end) = fake.sleeper(&Riscv64, TASK);
        assert_eq!(
            fake.names(&found),
            ["__schedule", "kthread", "ret_from_fork"]
        );
        assert_eq!(end, End::Reached);
    }

    #[test]
    fn interrupted_code_is_found_in_the_registers_behind_its_handler() {
        let mut fake = kernel();
        put_sleeper(&mut fake);
        let saved = STACK - 0x200;
        let sp = STACK - 0x20;
        // The leaf keeps the frame pointer in place of the return address.
        fake.put(STACK - 0x10, &[0xaa, STACK + 0x100]);
        let words = registers(
            TEXT.inside("leaf"),
            STACK,
            TEXT.inside("__schedule"),
            sp,
            SUPERVISOR,
        );
        fake.put(saved, &words)
            // Interrupts return to what no call instruction precedes.
            .put(saved - 16, &[STACK, TEXT.start("ret_from_exception")]);
        // The handler's caller is on the interrupt stack, the record of that on the task's.
        fake.put(IRQ_STACK - 16, &[saved, TEXT.inside("do_irq")]);
        let start = registers(TEXT.inside("do_irq"), IRQ_STACK, 0, IRQ_STACK - 0x40, 0);
        let (found, end) = fake.cpu(&Riscv64, &start[..32]);
        let expected = [
            "do_irq!",
            "do_irq",
            "ret_from_exception",
            "leaf!",
            "__schedule",
            "kthread",
            "ret_from_fork",
        ];
        assert_eq!(fake.names(&found), expected);
        assert_eq!(end, End::Reached);
    }

    #[test]
    fn system_call_ends_at_the_registers_of_the_user() {
        let mut fake = kernel();
        let saved = STACK + 0x100;
        fake.put(TASK, &[TEXT.inside("__schedule"), STACK, saved])
            .put(saved - 16, &[0x7fff_0000, TEXT.inside("handle_exception")])
            .put(
                saved,
                &registers(0x1_0000, 0x7fff_0000, 0, 0x7fff_0000, 0x20),
            );
        let (found, end) = fake.sleeper(&Riscv64, TASK);
        assert_eq!(fake.names(&found), ["__schedule", "handle_exception"]);
        assert_eq!(end, End::Reached);
        let user = registers(0x1_0000, 0, 0, 0x7fff_0000, 0);
        assert_eq!(fake.cpu(&Riscv64, &user[..32]), (vec![], End::Reached));
    }

    #[test]
    fn function_without_a_record_yet_returns_to_the_register() {
        let mut fake = kernel();
        put_sleeper(&mut fake);
        let start = |pc| registers(pc, STACK + 0x200, TEXT.inside("__schedule"), STACK, 0);
        for (pc, next) in [
            (TEXT.start("leaf") + 6, "__schedule"),
            (TEXT.start("leaf") + 8, "ret_from_fork"),
            (TEXT.start("kthread") + 4, "__schedule"),
            (TEXT.start("kthread") + 8, "ret_from_fork"),
        ] {
            let (found, _) = fake.cpu(&Riscv64, &start(pc)[..32]);
            assert_eq!(fake.names(&found)[1], next, "{pc:#x}");
        }
    }

    #[test]
    fn damaged_chains_end_with_a_reason() {
        let mut fake = kernel();
        put_sleeper(&mut fake);
        for record in [
            [STACK + 0x100, TEXT.inside("kthread")],
            [STACK + 0x101, TEXT.inside("kthread")],
            [0x10, TEXT.inside("kthread")],
            [STACK + 0x200, TEXT.inside("handle_exception")],
        ] {
            fake.put(STACK + 0xf0, &record);
            let (found, end) = fake.sleeper(&Riscv64, TASK);
            assert!(matches!(end, End::Cut(_)), "{record:x?}");
            assert!(found.len() < 32, "{record:x?}");
        }
        // Registers that return to the entry which saved them.
        let saved = STACK + 0x200;
        let circle = registers(
            TEXT.start("leaf") + 2,
            STACK + 0x300,
            TEXT.inside("handle_exception"),
            saved,
            SUPERVISOR,
        );
        fake.put(saved - 16, &[0, TEXT.inside("handle_exception")])
            .put(STACK + 0xf0, &[saved, TEXT.inside("kthread")])
            .put(saved, &circle);
        let (found, end) = fake.sleeper(&Riscv64, TASK);
        assert!(found.len() < 32 && matches!(end, End::Cut(_)), "{end:?}");
    }
}
