//! Unwinds by the prologues of functions, like kernels without ORC (unwind_next_frame,
//! arch/loongarch/kernel/unwind_prologue.c). Kernels with ORC tables have the same prologues.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{
    Before, CallingConvention, End, Frames, Reason, Registers, StackReader, Stacks, Unwind,
};
use super::frame::{FRAME, Frame};
use super::registers;
use super::windows::in_window;

/// The function that handles interrupts on their own stack (arch/loongarch/kernel/traps.c). At
/// the start of that stack is the address of the struct pt_regs on the task's.
const SWITCHES_STACK: &str = "do_vint";
/// Size and alignment of an interrupt stack, and the start of its first frame (THREAD_SIZE of 4
/// and 16 KiB pages and IRQ_STACK_START, arch/loongarch/include/asm; with larger pages it is a
/// multiple).
const IRQ_STACK: u64 = 16 << 10;
const IRQ_STACK_START: u64 = IRQ_STACK - 16;

/// The stacks of loongarch64.
pub struct LoongArch64;

impl Stacks for LoongArch64 {
    fn of(&self, _: &dyn StackReader) -> Box<dyn Unwind> {
        Box::new(Prologues)
    }
}

struct Prologues;

impl CallingConvention for Prologues {
    const ALIGN: u64 = 16;

    fn of_note(&self, registers: &[u8], endian: Endian) -> Option<Registers> {
        registers::parse(registers, endian)
    }

    fn of_sleeper(&self, kernel: &dyn StackReader, task: VirtAddr) -> Result<Registers, Reason> {
        registers::of_sleeper(kernel, task)
    }

    fn has_no_frame(&self, kernel: &dyn StackReader, registers: &Registers) -> bool {
        let is_code = kernel.function_at(registers.link.wrapping_sub(1)).is_some();
        is_code && !FRAME.has_frame(kernel, registers.ip, kernel.endian())
    }

    fn leave(
        &self,
        frames: &mut Frames<'_, Self>,
        interrupted: Option<Registers>,
    ) -> Result<(), End> {
        let (kernel, sp, code) = (frames.kernel, frames.position.sp, frames.position.code);
        let function = kernel.function_at(code);
        let is_called = interrupted.is_none();
        // Exceptions begin in copies of handlers, in memory without names (set_handler).
        if function.is_none() && is_called && in_window(code).is_some() {
            return resume_at(frames, sp);
        }
        let name = function.map_or("", |function| function.name);
        if is_called && name == SWITCHES_STACK && sp % IRQ_STACK == IRQ_STACK_START {
            let saved = kernel.word(sp)?;
            return resume_at(frames, saved);
        }
        let frame = Before::read(kernel, code).and_then(|before| Frame::parse(&before.first));
        let Some(frame) = frame else {
            return Err(End::Cut(format!(
                "the frame of the function at {code:#x} is not known"
            )));
        };
        // Code in assembly that calls, without a frame, has a struct pt_regs on its stack.
        if frame.size == 0 && is_called {
            return resume_at(frames, sp);
        }
        let return_address = match (frame.kept, interrupted) {
            (Some(offset), _) => kernel.word(sp.wrapping_add(offset))?,
            (None, Some(registers)) => registers.link,
            (None, None) => {
                return Err(End::Cut(format!(
                    "the function at {code:#x} keeps no return address"
                )));
            }
        };
        let caller = sp.wrapping_add(frame.size);
        frames.chain.follow(caller)?;
        frames.return_to(return_address, caller);
        Ok(())
    }
}

/// Moves to the code that was interrupted with the struct pt_regs at `saved`.
fn resume_at(frames: &mut Frames<'_, Prologues>, saved: u64) -> Result<(), End> {
    let registers = registers::read(frames.kernel, saved)?;
    // A kernel thread and an idle task begin with registers that are 0.
    if registers.is_user || registers.ip == 0 {
        return Err(End::Reached);
    }
    frames.chain.follow(registers.sp)?;
    frames.resume(registers)
}

#[cfg(test)]
mod tests;
