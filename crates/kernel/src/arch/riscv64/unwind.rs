//! Unwinds by frame pointers, like the kernel (walk_stackframe,
//! arch/riscv/kernel/stacktrace.c).
//!
//! The frame pointer s0 points behind a record with the caller's frame pointer and the return
//! address. A function that calls no other keeps only the frame pointer, at the place of the
//! return address.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{
    Before, Chain, End, Nameless, Position, Reason, StackReader, Stacks, Unwind, Walk,
    check_trampoline,
};
use super::registers::{Registers, of_sleeper};

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

impl Unwind for FramePointers {
    fn of_cpu<'a>(
        &'a self,
        kernel: &'a dyn StackReader,
        registers: &[u8],
        endian: Endian,
    ) -> Option<Box<dyn Walk + 'a>> {
        let found = Registers::parse(registers, endian)?;
        let saved = found.pc != 0 || found.sp != 0;
        saved.then(|| Box::new(Frames::new(kernel, &found, true)) as _)
    }

    fn of_sleeper<'a>(
        &'a self,
        kernel: &'a dyn StackReader,
        task: VirtAddr,
    ) -> Result<Box<dyn Walk + 'a>, Reason> {
        let found = of_sleeper(kernel, task)?;
        Ok(Box::new(Frames::new(kernel, &found, false)))
    }
}

/// A walk over one stack.
struct Frames<'a> {
    kernel: &'a dyn StackReader,
    position: Position,
    /// Address behind the record with the caller.
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
        let function = self.kernel.function_at(self.position.code);
        let name = function.map_or("", |function| function.name);
        let interrupted = self.registers.take();
        if let Some(registers) = interrupted {
            if registers.is_user() {
                return Err(End::Reached);
            }
            if is_code(self.kernel, registers.ra) && !has_record(self.kernel, registers.pc) {
                self.return_to(registers.ra, registers.sp);
                return Ok(());
            }
        } else if BEGINNINGS.contains(&name) {
            return Err(End::Reached);
        } else if ENTRIES.contains(&name) {
            return self.interrupted(self.position.sp);
        } else {
            check_trampoline(self.kernel, self.position.ip)?;
        }
        if self.fp == 0 {
            return Err(End::Reached);
        }
        self.chain.follow(self.fp)?;
        let sp = self.fp;
        let fp = self.kernel.word(sp.wrapping_sub(16))?;
        let ra = self.kernel.word(sp.wrapping_sub(8))?;
        match interrupted {
            // It keeps only the frame pointer.
            Some(registers) if !is_code(self.kernel, ra) => {
                self.fp = ra;
                self.return_to(registers.ra, sp);
            }
            _ => {
                self.fp = fp;
                self.return_to(ra, sp);
            }
        }
        Ok(())
    }
}

impl<'a> Frames<'a> {
    fn new(kernel: &'a dyn StackReader, start: &Registers, interrupted: bool) -> Self {
        Self {
            kernel,
            position: match interrupted {
                true => Position::interrupted(start.pc, start.sp),
                false => Position::called(start.pc, start.sp),
            },
            fp: start.fp,
            registers: interrupted.then_some(*start),
            chain: Chain::new(start.sp, 8),
            nameless: Nameless::default(),
        }
    }

    fn return_to(&mut self, ra: u64, sp: u64) {
        self.position = Position::called(ra, sp);
        // The entry code jumps to a handler with this return address, without a call before it.
        if self.kernel.symbol("ret_from_exception") == Some(VirtAddr(ra)) {
            self.position.code = ra;
        }
    }

    /// Moves to the code that was interrupted when the registers at `at` were saved.
    fn interrupted(&mut self, at: u64) -> Result<(), End> {
        let registers = Registers::read(self.kernel, at)?;
        // A kernel thread begins with registers that are 0.
        if registers.is_user() || registers.pc == 0 {
            return Err(End::Reached);
        }
        self.position = Position::interrupted(registers.pc, registers.sp);
        self.fp = registers.fp;
        self.registers = Some(registers);
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
    use super::super::super::stacks::fake::Fake;
    use super::*;

    const STACK: u64 = 0xff20_0000_1000_0000;
    const IRQ_STACK: u64 = 0xff20_0000_0800_0000;
    const TASK: u64 = 0xff60_0000_0100_0000;
    const TEXT: u64 = 0xffff_ffff_8000_0000;
    /// `c.addi sp, -32`, `c.sdsp ra, 24(sp)`, `c.sdsp s0, 16(sp)`, `c.addi4spn s0, sp, 32`.
    const SHORT: [u8; 8] = [0x01, 0x11, 0x06, 0xec, 0x22, 0xe8, 0x00, 0x10];
    /// `addi sp, sp, -2032`, `addi s0, sp, 2032`.
    const LONG: [u8; 8] = [0x13, 0x01, 0x01, 0x81, 0x13, 0x04, 0x01, 0x7f];
    const FUNCTIONS: [&str; 7] = [
        "__schedule",
        "kthread",
        "ret_from_fork",
        "handle_exception",
        "ret_from_exception",
        "do_irq",
        "leaf",
    ];

    fn text(name: &str) -> u64 {
        let index = FUNCTIONS.iter().position(|known| *known == name).unwrap();
        TEXT + Fake::FUNCTION * index as u64
    }

    fn inside(name: &str) -> u64 {
        text(name) + 0x80
    }

    fn kernel() -> Fake {
        let mut fake = Fake::new(Endian::Little, "PAGESIZE=4096\n");
        for name in FUNCTIONS {
            let code = if name == "kthread" { &LONG } else { &SHORT };
            fake.function(text(name), name, code);
        }
        fake.member("task_struct.thread.ra", 0)
            .member("task_struct.thread.sp", 8)
            .member("task_struct.thread.s", 16);
        fake
    }

    /// Puts a stack from `__schedule` to the start of a kernel thread.
    fn put_sleeper(fake: &mut Fake) {
        fake.put(TASK, &[inside("__schedule"), STACK, STACK + 0x100])
            .put(STACK + 0xf0, &[STACK + 0x200, inside("kthread")])
            // s0 was the address of the thread's function.
            .put(STACK + 0x1f0, &[text("kthread"), inside("ret_from_fork")]);
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
        let words = registers(inside("leaf"), STACK, inside("__schedule"), sp, SUPERVISOR);
        fake.put(saved, &words)
            // Interrupts return to what no call instruction precedes.
            .put(saved - 16, &[STACK, text("ret_from_exception")]);
        // The handler's caller is on the interrupt stack, the record of that on the task's.
        fake.put(IRQ_STACK - 16, &[saved, inside("do_irq")]);
        let start = registers(inside("do_irq"), IRQ_STACK, 0, IRQ_STACK - 0x40, 0);
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
        fake.put(TASK, &[inside("__schedule"), STACK, saved])
            .put(saved - 16, &[0x7fff_0000, inside("handle_exception")])
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
        let start = |pc| registers(pc, STACK + 0x200, inside("__schedule"), STACK, 0);
        for (pc, next) in [
            (text("leaf") + 6, "__schedule"),
            (text("leaf") + 8, "ret_from_fork"),
            (text("kthread") + 4, "__schedule"),
            (text("kthread") + 8, "ret_from_fork"),
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
            [STACK + 0x100, inside("kthread")],
            [STACK + 0x101, inside("kthread")],
            [0x10, inside("kthread")],
            [STACK + 0x200, inside("handle_exception")],
        ] {
            fake.put(STACK + 0xf0, &record);
            let (found, end) = fake.sleeper(&Riscv64, TASK);
            assert!(matches!(end, End::Cut(_)), "{record:x?}");
            assert!(found.len() < 32, "{record:x?}");
        }
    }
}
