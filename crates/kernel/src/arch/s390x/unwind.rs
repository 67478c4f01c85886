//! Unwinds by the back chain, like the kernel (arch/s390/kernel/unwind_bc.c).
//!
//! r15 points to the frame of the running function. A function keeps its caller's registers in
//! the caller's frame, and the address of that frame in its own. Where the chain ends with 0,
//! the registers of what was interrupted follow the frame.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{
    Before, Chain, End, Nameless, Position, Reason, StackReader, Stacks, Unwind, Walk,
    check_trampoline,
};
use super::registers::{PT_REGS, Registers};

/// Alignment and size of a stack: the task's, and those of interrupts and machine checks
/// (STACK_SIZE, arch/s390/include/asm/thread_info.h). With KASAN it is a multiple.
const STACK: u64 = 16 << 10;

/// The stacks of s390x.
pub struct S390x;

impl Stacks for S390x {
    fn of(&self, kernel: &dyn StackReader) -> Box<dyn Unwind> {
        let offset = |path| {
            let member = kernel.locate("stack_frame", path).ok().flatten();
            member.map(|member| member.offset)
        };
        let size = kernel.size_of("stack_frame").ok().flatten();
        // Kernels of distributions have packed frames (CONFIG_PACK_STACK).
        Box::new(Layout {
            back_chain: offset("back_chain").unwrap_or(152),
            // gprs begins with r6.
            r14: offset("gprs").unwrap_or(72).saturating_add(8 * 8),
            size: size.unwrap_or(160),
        })
    }
}

/// Layout of struct stack_frame (arch/s390/include/asm/stacktrace.h).
struct Layout {
    back_chain: u64,
    r14: u64,
    size: u64,
}

impl Unwind for Layout {
    fn of_cpu<'a>(
        &'a self,
        kernel: &'a dyn StackReader,
        registers: &[u8],
        endian: Endian,
    ) -> Option<Box<dyn Walk + 'a>> {
        let found = Registers::parse(registers, endian)?;
        let saved = found.psw.1 != 0 || found.r15 != 0;
        saved.then(|| {
            Box::new(Frames {
                kernel,
                layout: self,
                position: Position::interrupted(found.psw.1, found.r15),
                registers: Some(found),
                chain: Chain::new(found.r15, 8),
                nameless: Nameless::default(),
            }) as _
        })
    }

    fn of_sleeper<'a>(
        &'a self,
        kernel: &'a dyn StackReader,
        task: VirtAddr,
    ) -> Result<Box<dyn Walk + 'a>, Reason> {
        // __switch_to keeps the registers in its caller's frame.
        let sp = kernel.value(task, "task_struct", "thread.ksp")?;
        let ip = kernel.word(sp.wrapping_add(self.r14))?;
        Ok(Box::new(Frames {
            kernel,
            layout: self,
            position: Position::called(ip, sp),
            registers: None,
            chain: Chain::new(sp, 8),
            nameless: Nameless::default(),
        }))
    }
}

/// A walk over one stack.
struct Frames<'a> {
    kernel: &'a dyn StackReader,
    layout: &'a Layout,
    position: Position,
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
        let frame = self.position.sp;
        if let Some(registers) = self.registers.take() {
            if registers.is_user() {
                return Err(End::Reached);
            }
            let caller = self.kernel.function_at(registers.r14.wrapping_sub(1));
            if caller.is_some() && !has_frame(self.kernel, registers.psw.1) {
                self.position = Position::called(registers.r14, frame);
                return Ok(());
            }
        } else {
            check_trampoline(self.kernel, self.position.ip)?;
        }
        let back_chain = frame.wrapping_add(self.layout.back_chain);
        let caller = self.kernel.word(back_chain)?;
        if caller == 0 {
            return self.interrupted(frame.wrapping_add(self.layout.size));
        }
        self.chain.follow(caller)?;
        let ip = self.kernel.word(caller.wrapping_add(self.layout.r14))?;
        self.position = Position::called(ip, caller);
        Ok(())
    }
}

impl Frames<'_> {
    /// Moves to the code that was interrupted when the registers at `at` were saved.
    fn interrupted(&mut self, at: u64) -> Result<(), End> {
        let left = STACK - 1 - (at.wrapping_sub(1) & (STACK - 1));
        if left < PT_REGS {
            // The stack ends here.
            return Err(End::Reached);
        }
        let registers = Registers::read(self.kernel, at)?;
        // A kernel thread begins with registers that are 0.
        if registers.is_user() || registers.psw.1 == 0 {
            return Err(End::Reached);
        }
        self.chain.follow(registers.r15)?;
        self.position = Position::interrupted(registers.psw.1, registers.r15);
        self.registers = Some(registers);
        Ok(())
    }
}

/// Returns true if the function interrupted at `ip` has a frame.
fn has_frame(kernel: &dyn StackReader, ip: u64) -> bool {
    let Some(code) = Before::read(kernel, ip) else {
        return true;
    };
    let mut rest = code.first.as_slice();
    while let Some(first) = rest.first() {
        match rest {
            // aghi %r15,…; and lay %r15,…(%r15), both with a negative number.
            [0xa7, 0xfb, 0x80..=0xff, _, ..]
            | [0xe3, 0xf0, 0xf0..=0xff, _, 0x80..=0xff, 0x71, ..] => {
                return true;
            }
            _ => {}
        }
        // The first two bits of an instruction tell its length.
        let len = match first >> 6 {
            0 => 2,
            3 => 6,
            _ => 4,
        };
        let Some(after) = rest.get(len..) else {
            break;
        };
        rest = after;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::super::stacks::fake::Fake;
    use super::*;

    const TASK_STACK: u64 = 0x37f_e000_0000;
    const ASYNC_STACK: u64 = 0x37f_f000_0000;
    const TASK: u64 = 0x200_0000;
    const TEXT: u64 = 0x10_0000;
    const FUNCTIONS: [&str; 7] = [
        "__schedule",
        "kthread",
        "__ret_from_fork",
        "ret_from_fork",
        "io_int_handler",
        "do_io_irq",
        "leaf",
    ];
    const USER: u64 = 1 << 48;

    fn text(name: &str) -> u64 {
        let index = FUNCTIONS.iter().position(|known| *known == name).unwrap();
        TEXT + Fake::FUNCTION * index as u64
    }

    fn inside(name: &str) -> u64 {
        text(name) + 0x80
    }

    fn kernel() -> Fake {
        let mut fake = Fake::new(Endian::Big, "PAGESIZE=4096\n");
        for name in FUNCTIONS {
            // stmg %r14,%r15,136(%r15); aghi or lay %r15,-160; stg %r14,152(%r15).
            let code: &[u8] = match name {
                "leaf" => &[0x07, 0x00],
                "kthread" => &[
                    0xeb, 0xef, 0xf0, 0x88, 0x00, 0x24, 0xe3, 0xf0, 0xff, 0x60, 0xff, 0x71,
                ],
                _ => &[0xeb, 0xef, 0xf0, 0x88, 0x00, 0x24, 0xa7, 0xfb, 0xff, 0x60],
            };
            fake.function(text(name), name, code);
        }
        fake.member("task_struct.thread.ksp", 8);
        fake
    }

    /// Puts a frame that has the return address into the function `name`, which owns it.
    fn put_frame(fake: &mut Fake, at: u64, next: u64, name: &str) {
        fake.put(at, &[0; 20]);
        fake.put(at + 136, &[inside(name)]).put(at + 152, &[next]);
    }

    fn put_registers(fake: &mut Fake, at: u64, psw: (u64, u64), r14: u64, r15: u64) {
        fake.put(at, &[0; 20]).put(at + 8, &[psw.0, psw.1]);
        fake.put(at + 24 + 14 * 8, &[r14, r15]);
    }

    /// Puts a stack from `__schedule` to the start of a thread with these registers.
    fn put_sleeper(fake: &mut Fake, psw: (u64, u64)) {
        fake.put(TASK, &[0, TASK_STACK]);
        put_frame(fake, TASK_STACK, TASK_STACK + 0x100, "__schedule");
        put_frame(fake, TASK_STACK + 0x100, TASK_STACK + 0x200, "kthread");
        put_frame(fake, TASK_STACK + 0x200, 0, "ret_from_fork");
        put_registers(fake, TASK_STACK + 0x200 + 160, psw, 0, 0);
    }

    fn registers(psw: (u64, u64), r14: u64, r15: u64) -> Vec<u64> {
        let mut words = vec![0; 18];
        (words[0], words[1], words[16], words[17]) = (psw.0, psw.1, r14, r15);
        words
    }

    #[test]
    fn sleeping_task_is_unwound_to_a_kernel_entry() {
        for psw in [(0, 0), (USER, 0x1000)] {
            let mut fake = kernel();
            put_sleeper(&mut fake, psw);
            let (found, end) = fake.sleeper(&S390x, TASK);
            assert_eq!(
                fake.names(&found),
                ["__schedule", "kthread", "ret_from_fork"]
            );
            assert_eq!(end, End::Reached);
        }
    }

    #[test]
    fn interrupted_code_is_found_where_the_chain_ends() {
        let mut fake = kernel();
        put_sleeper(&mut fake, (0, 0));
        put_frame(&mut fake, ASYNC_STACK, TASK_STACK - 0x400, "leaf");
        put_frame(&mut fake, TASK_STACK - 0x400, 0, "io_int_handler");
        // The leaf has no frame: r15 is that of __schedule.
        let saved = TASK_STACK - 0x400 + 160;
        let psw = (0, inside("leaf"));
        put_registers(&mut fake, saved, psw, inside("__schedule"), TASK_STACK);
        let start = registers((0, inside("do_io_irq")), 0, ASYNC_STACK);
        let (found, end) = fake.cpu(&S390x, &start);
        let expected = [
            "do_io_irq!",
            "io_int_handler",
            "leaf!",
            "__schedule",
            "kthread",
            "ret_from_fork",
        ];
        assert_eq!(fake.names(&found), expected);
        assert_eq!(end, End::Reached);
    }

    #[test]
    fn function_without_a_frame_yet_returns_to_the_register() {
        let mut fake = kernel();
        put_sleeper(&mut fake, (0, 0));
        for (ip, next) in [
            (text("do_io_irq") + 6, "__schedule"),
            (text("do_io_irq") + 10, "kthread"),
            (text("kthread") + 6, "__schedule"),
            (text("kthread") + 12, "kthread"),
        ] {
            let start = registers((0, ip), inside("__schedule"), TASK_STACK);
            let (found, _) = fake.cpu(&S390x, &start);
            assert_eq!(fake.names(&found)[1], next, "{ip:#x}");
        }
    }

    #[test]
    fn end_of_a_stack_and_user_mode_end_a_trace() {
        let mut fake = kernel();
        let end_of_stack = TASK_STACK + STACK - 160;
        put_frame(&mut fake, end_of_stack, 0, "ret_from_fork");
        fake.put(TASK, &[0, end_of_stack]);
        let (found, end) = fake.sleeper(&S390x, TASK);
        assert_eq!(fake.names(&found), ["ret_from_fork"]);
        assert_eq!(end, End::Reached);
        let user = registers((USER, 0x1000), 0, 0x3ff_ffff_0000);
        assert_eq!(fake.cpu(&S390x, &user), (vec![], End::Reached));
    }

    #[test]
    fn damaged_chains_end_with_a_reason() {
        let mut fake = kernel();
        put_sleeper(&mut fake, (0, 0));
        for next in [TASK_STACK + 0x100, TASK_STACK, TASK_STACK + 0x104, 0x10, !7] {
            put_frame(&mut fake, TASK_STACK + 0x100, next, "kthread");
            let (found, end) = fake.sleeper(&S390x, TASK);
            assert!(matches!(end, End::Cut(_)), "{next:#x}");
            assert!(found.len() < 32, "{next:#x}");
        }
        // Registers that lead back.
        put_sleeper(&mut fake, (0, inside("kthread")));
        let at = TASK_STACK + 0x200 + 160;
        let psw = (0, inside("kthread"));
        put_registers(&mut fake, at, psw, 0, TASK_STACK);
        let (found, end) = fake.sleeper(&S390x, TASK);
        assert!(found.len() < 64 && matches!(end, End::Cut(_)), "{end:?}");
    }
}
