//! Unwinds by the back chain, like the kernel (show_stack, arch/powerpc/kernel/process.c).
//!
//! r1 points to the frame of the running function, and the first word of a frame to that of the
//! caller. A function keeps its return address in its caller's frame.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{
    CallingConvention, End, Form, FrameForms, Frames, Reason, Registers, StackReader, Stacks,
    Unwind,
};
use super::registers;

/// Offset of the return address in the caller's frame (STACK_FRAME_LR_SAVE).
const RETURN: u64 = 16;
/// Marks of a frame that an exception made (STACK_FRAME_REGS_MARKER): the bytes "REGS" in memory
/// since 6.2 ("powerpc/64: use 32-bit immediate for STACK_FRAME_REGS_MARKER"), and before.
const MARKS: [u64; 3] = [0x5347_4552, 0x5245_4753, 0x7265_6773_6865_7265];
/// Offsets of the mark and of struct pt_regs in such a frame: of the ABI ELFv2 since 6.2
/// (commit 17773afdcd15), and before.
const LAYOUTS: [(u64, u64); 2] = [(32, 48), (96, 112)];

/// The instructions that make and drop a frame.
const FRAME: FrameForms = FrameForms {
    // `stdu r1, …(r1)`, and `stdux r1, r1, …`.
    make: &[
        Form(0xffff_0003, 0xf821_0001),
        Form(0xffff_07ff, 0x7c21_016a),
    ],
    // `addi r1, r1, …`.
    drop: Form(0xffff_0000, 0x3821_0000),
    // `blr`.
    leave: &[Form(!0, 0x4e80_0020)],
};

/// The stacks of ppc64.
pub struct Ppc64;

impl Stacks for Ppc64 {
    fn of(&self, _: &dyn StackReader) -> Box<dyn Unwind> {
        Box::new(BackChain)
    }
}

struct BackChain;

impl CallingConvention for BackChain {
    const ALIGN: u64 = 16;

    fn of_note(&self, registers: &[u8], endian: Endian) -> Option<Registers> {
        registers::parse(registers, endian)
    }

    fn of_sleeper(&self, kernel: &dyn StackReader, task: VirtAddr) -> Result<Registers, Reason> {
        // _switch leaves a frame of its own, and its return address in its caller's.
        let own = kernel.value(task, "task_struct", "thread.ksp")?;
        let caller = kernel.word(own)?;
        Ok(Registers {
            ip: kernel.word(caller.wrapping_add(RETURN))?,
            sp: caller,
            ..Registers::default()
        })
    }

    /// Until 6.5 (commit b684c09f09e7) the registers that a panicking CPU saves are those after
    /// the return, too.
    fn has_no_frame(&self, kernel: &dyn StackReader, registers: &Registers) -> bool {
        let function = |address: u64| kernel.function_at(address);
        let Some(caller) = function(registers.link.wrapping_sub(1)) else {
            return false;
        };
        if function(registers.ip).is_none_or(|own| own == caller) {
            return false;
        }
        let kept = kernel.word(registers.sp.wrapping_add(RETURN));
        kept == Ok(registers.link) || !FRAME.has_frame(kernel, registers.ip, kernel.endian())
    }

    fn leave(&self, frames: &mut Frames<'_, Self>, _: Option<Registers>) -> Result<(), End> {
        let (kernel, frame) = (frames.kernel, frames.position.sp);
        if let Some(registers) = saved(kernel, frame) {
            // A kernel thread begins with registers that are 0.
            if registers.is_user || registers.ip == 0 {
                return Err(End::Reached);
            }
            frames.chain.follow(registers.sp)?;
            return frames.resume(registers);
        }
        let caller = kernel.word(frame)?;
        if caller == 0 {
            return Err(End::Reached);
        }
        frames.chain.follow(caller)?;
        frames.return_to(kernel.word(caller.wrapping_add(RETURN))?, caller);
        Ok(())
    }
}

/// Returns the registers that an exception saved in its frame.
fn saved(kernel: &dyn StackReader, frame: u64) -> Option<Registers> {
    let mut layouts = LAYOUTS.into_iter();
    layouts.find_map(|(mark, offset)| {
        let found = kernel.word(frame.wrapping_add(mark)).ok()?;
        if !MARKS.contains(&found) {
            return None;
        }
        registers::saved(kernel, frame.wrapping_add(offset))
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::stacks::fake::{Fake, Text};
    use super::*;

    const STACK: u64 = 0xc000_0000_0100_0000;
    const IRQ_STACK: u64 = 0xc000_0000_0080_0000;
    const TASK: u64 = 0xc000_0000_0200_0000;
    const TEXT: Text = Text {
        at: 0xc000_0000_0000_0000,
        names: &[
            "__switch_to",
            "schedule",
            "kthread",
            "ret_from_kernel_user_thread",
            "decrementer_common_virt",
            "timer_interrupt",
            "leaf",
        ],
    };

    fn kernel(endian: Endian) -> Fake {
        let mut fake = Fake::new(endian, "PAGESIZE=65536\n");
        // mflr r0; std r0, 16(r1); stdu r1, -112(r1).
        let prologue = [0x7c08_02a6_u32, 0xf801_0010, 0xf821_ff91];
        let code: Vec<u8> = prologue
            .iter()
            .flat_map(|word| match endian {
                Endian::Little => word.to_le_bytes(),
                Endian::Big => word.to_be_bytes(),
            })
            .collect();
        for name in TEXT.names {
            let code = if *name == "leaf" {
                &[]
            } else {
                code.as_slice()
            };
            fake.function(&TEXT, name, code);
        }
        fake.member("task_struct.thread.ksp", 8);
        fake
    }

    fn put_frame(fake: &mut Fake, at: u64, next: u64, name: &str) {
        fake.put(
            at,
            &[next, 0, TEXT.inside(name), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        );
    }

    /// The mark of kernels that have it at this offset.
    fn mark_at(offset: u64) -> u64 {
        MARKS[if offset == 32 { 0 } else { 2 }]
    }

    /// Puts a stack from the frame of _switch to the start of a kernel thread, whose frame has
    /// registers that are 0.
    fn put_sleeper(fake: &mut Fake, (mark, registers): (u64, u64)) {
        fake.put(TASK, &[0, STACK]).put(STACK, &[STACK + 0x100]);
        put_frame(fake, STACK + 0x100, STACK + 0x200, "__switch_to");
        put_frame(fake, STACK + 0x200, STACK + 0x300, "schedule");
        put_frame(fake, STACK + 0x300, STACK + 0x400, "kthread");
        let last = STACK + 0x400;
        put_frame(fake, last, 0, "ret_from_kernel_user_thread");
        fake.put(last + mark, &[mark_at(mark)]);
        fake.put(last + registers, &[0; 44]);
        fake.put(last + mark, &[mark_at(mark)]);
    }

    fn registers(nip: u64, r1: u64, link: u64, msr: u64) -> Vec<u64> {
        let mut words = vec![0; 44];
        (words[1], words[32], words[33], words[36]) = (r1, nip, msr, link);
        words[40] = 0x901;
        words
    }

    #[test]
    fn sleeping_task_is_unwound_to_where_its_thread_begins() {
        for endian in [Endian::Little, Endian::Big] {
            for layout in LAYOUTS {
                let mut fake = kernel(endian);
                put_sleeper(&mut fake, layout);
                let (found, end) = fake.sleeper(&Ppc64, TASK);
                assert_eq!(
                    fake.names(&found),
                    [
                        "__switch_to",
                        "schedule",
                        "kthread",
                        "ret_from_kernel_user_thread"
                    ]
                );
                assert_eq!(end, End::Reached);
            }
        }
    }

    #[test]
    fn interrupted_code_is_found_by_the_mark_of_its_frame() {
        for layout in LAYOUTS {
            let mut fake = kernel(Endian::Little);
            put_sleeper(&mut fake, layout);
            let exception = STACK - 0x400;
            put_frame(
                &mut fake,
                exception,
                STACK + 0x200,
                "decrementer_common_virt",
            );
            // The leaf has no frame: r1 is that of schedule.
            let saved = registers(
                TEXT.inside("leaf"),
                STACK + 0x200,
                TEXT.inside("schedule"),
                0,
            );
            fake.put(exception + layout.1, &saved);
            fake.put(exception + layout.0, &[mark_at(layout.0)]);
            put_frame(&mut fake, IRQ_STACK, exception, "leaf");
            let start = registers(TEXT.inside("timer_interrupt"), IRQ_STACK, 0, 0);
            let (found, end) = fake.cpu(&Ppc64, &start);
            let expected = [
                "timer_interrupt!",
                "decrementer_common_virt",
                "leaf!",
                "schedule",
                "kthread",
                "ret_from_kernel_user_thread",
            ];
            assert_eq!(fake.names(&found), expected);
            assert_eq!(end, End::Reached);
        }
    }

    #[test]
    fn stack_pointer_that_belongs_to_the_caller_is_noticed() {
        let mut fake = kernel(Endian::Little);
        put_sleeper(&mut fake, LAYOUTS[0]);
        let second = |fake: &Fake, nip, link| {
            let start = registers(nip, STACK + 0x200, link, 0);
            let (found, _) = fake.cpu(&Ppc64, &start);
            fake.names(&found)[1].clone()
        };
        // Before the frame is made, and behind.
        let own = "timer_interrupt";
        assert_eq!(
            second(&fake, TEXT.start(own) + 8, TEXT.inside("kthread")),
            "kthread"
        );
        assert_eq!(
            second(&fake, TEXT.start(own) + 12, TEXT.inside("leaf")),
            "kthread"
        );
        // As a panicking CPU saved them: the frame has the return address itself.
        assert_eq!(
            second(&fake, TEXT.inside(own), TEXT.inside("schedule")),
            "schedule"
        );
        // After a call the link register is in the function itself.
        fake.put(STACK + 0x210, &[TEXT.inside(own)]);
        assert_eq!(
            second(&fake, TEXT.inside(own) + 4, TEXT.inside(own)),
            "kthread"
        );
        // addi r1, r1, 112.
        fake.put_bytes(TEXT.inside(own), &0x3821_0070_u32.to_le_bytes());
        assert_eq!(
            second(&fake, TEXT.inside(own) + 4, TEXT.inside("leaf")),
            "leaf"
        );
    }

    #[test]
    fn user_mode_ends_a_stack() {
        let mut fake = kernel(Endian::Little);
        let user = registers(0x1000, 0x7fff_0000, 0, 1 << 14);
        assert_eq!(fake.cpu(&Ppc64, &user), (vec![], End::Reached));
        fake.put(TASK, &[0, STACK]).put(STACK, &[STACK + 0x100]);
        put_frame(&mut fake, STACK + 0x100, 0x7fff_0000, "__switch_to");
        fake.put(STACK + 0x100 + 48, &user)
            .put(STACK + 0x120, &[MARKS[0]]);
        let (found, end) = fake.sleeper(&Ppc64, TASK);
        assert_eq!(fake.names(&found), ["__switch_to"]);
        assert_eq!(end, End::Reached);
    }

    #[test]
    fn damaged_chains_end_with_a_reason() {
        let mut fake = kernel(Endian::Little);
        put_sleeper(&mut fake, LAYOUTS[0]);
        for next in [STACK + 0x200, STACK + 0x100, STACK + 0x208, 0x10, !0xf] {
            put_frame(&mut fake, STACK + 0x200, next, "schedule");
            let (found, end) = fake.sleeper(&Ppc64, TASK);
            assert!(matches!(end, End::Cut(_)), "{next:#x}");
            assert!(found.len() < 32, "{next:#x}");
        }
        // Exceptions that interrupted each other in a circle.
        put_frame(&mut fake, STACK + 0x200, STACK + 0x300, "schedule");
        let saved = registers(TEXT.inside("schedule"), STACK + 0x200, 0, 0);
        fake.put(STACK + 0x200 + 48, &saved)
            .put(STACK + 0x220, &[MARKS[0]]);
        let (found, end) = fake.sleeper(&Ppc64, TASK);
        assert!(found.len() < 32 && matches!(end, End::Cut(_)), "{end:?}");
    }
}
