//! Unwinds by the back chain, like the kernel (arch/s390/kernel/unwind_bc.c).
//!
//! r15 points to the frame of the running function. A function keeps its caller's registers in
//! the caller's frame, and the address of that frame in its own. Where the chain ends with 0,
//! the registers of what was interrupted follow the frame.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{
    Before, CallingConvention, End, Frames, Reason, Registers, StackReader, Stacks, Unwind,
};
use super::registers::{self, PT_REGS};

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

impl CallingConvention for Layout {
    const ALIGN: u64 = 8;

    fn of_note(&self, registers: &[u8], endian: Endian) -> Option<Registers> {
        registers::parse(registers, endian)
    }

    fn of_sleeper(&self, kernel: &dyn StackReader, task: VirtAddr) -> Result<Registers, Reason> {
        // __switch_to keeps the registers in its caller's frame.
        let sp = kernel.value(task, "task_struct", "thread.ksp")?;
        Ok(Registers {
            ip: kernel.word(sp.wrapping_add(self.r14))?,
            sp,
            ..Registers::default()
        })
    }

    fn has_no_frame(&self, kernel: &dyn StackReader, registers: &Registers) -> bool {
        let caller = kernel.function_at(registers.link.wrapping_sub(1));
        caller.is_some() && !has_frame(kernel, registers.ip)
    }

    fn leave(&self, frames: &mut Frames<'_, Self>, _: Option<Registers>) -> Result<(), End> {
        let (kernel, frame) = (frames.kernel, frames.position.sp);
        let caller = kernel.word(frame.wrapping_add(self.back_chain))?;
        if caller != 0 {
            frames.chain.follow(caller)?;
            frames.return_to(kernel.word(caller.wrapping_add(self.r14))?, caller);
            return Ok(());
        }
        let at = frame.wrapping_add(self.size);
        let left = STACK - 1 - (at.wrapping_sub(1) & (STACK - 1));
        if left < PT_REGS {
            // The stack ends here.
            return Err(End::Reached);
        }
        let registers = registers::read(kernel, at)?;
        // A kernel thread begins with registers that are 0.
        if registers.is_user || registers.ip == 0 {
            return Err(End::Reached);
        }
        frames.chain.follow(registers.sp)?;
        frames.resume(registers)
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
    use super::super::super::stacks::fake::{Fake, Text};
    use super::*;

    const TASK_STACK: u64 = 0x37f_e000_0000;
    const ASYNC_STACK: u64 = 0x37f_f000_0000;
    const TASK: u64 = 0x200_0000;
    const TEXT: Text = Text {
        at: 0x10_0000,
        names: &[
            "__schedule",
            "kthread",
            "__ret_from_fork",
            "ret_from_fork",
            "io_int_handler",
            "do_io_irq",
            "leaf",
        ],
    };
    const USER: u64 = 1 << 48;

    fn kernel() -> Fake {
        let mut fake = Fake::new(Endian::Big, "PAGESIZE=4096\n");
        for name in TEXT.names {
            // stmg %r14,%r15,136(%r15); aghi or lay %r15,-160; stg %r14,152(%r15).
            let code: &[u8] = match *name {
                "leaf" => &[0x07, 0x00],
                "kthread" => &[
                    0xeb, 0xef, 0xf0, 0x88, 0x00, 0x24, 0xe3, 0xf0, 0xff, 0x60, 0xff, 0x71,
                ],
                _ => &[0xeb, 0xef, 0xf0, 0x88, 0x00, 0x24, 0xa7, 0xfb, 0xff, 0x60],
            };
            fake.function(&TEXT, name, code);
        }
        fake.member("task_struct.thread.ksp", 8);
        fake
    }

    /// Puts a frame that has the return address into the function `name`, which owns it.
    fn put_frame(fake: &mut Fake, at: u64, next: u64, name: &str) {
        fake.put(at, &[0; 20]);
        fake.put(at + 136, &[TEXT.inside(name)])
            .put(at + 152, &[next]);
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
        let psw = (0, TEXT.inside("leaf"));
        put_registers(&mut fake, saved, psw, TEXT.inside("__schedule"), TASK_STACK);
        let start = registers((0, TEXT.inside("do_io_irq")), 0, ASYNC_STACK);
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
            (TEXT.start("do_io_irq") + 6, "__schedule"),
            (TEXT.start("do_io_irq") + 10, "kthread"),
            (TEXT.start("kthread") + 6, "__schedule"),
            (TEXT.start("kthread") + 12, "kthread"),
        ] {
            let start = registers((0, ip), TEXT.inside("__schedule"), TASK_STACK);
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
        put_sleeper(&mut fake, (0, TEXT.inside("kthread")));
        let at = TASK_STACK + 0x200 + 160;
        let psw = (0, TEXT.inside("kthread"));
        put_registers(&mut fake, at, psw, 0, TASK_STACK);
        let (found, end) = fake.sleeper(&S390x, TASK);
        assert!(found.len() < 64 && matches!(end, End::Cut(_)), "{end:?}");
    }
}
