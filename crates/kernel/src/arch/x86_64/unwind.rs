//! Unwinds from frame to frame, like the kernel (unwind_next_frame,
//! arch/x86/kernel/unwind_orc.c).

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::super::stacks::{
    End, Nameless, Position, Reason, StackReader, Stacks, Unwind, Walk, check_trampoline,
};
use super::orc::{Base, Entry, Kind, Orc, Register};
use super::registers::{Registers, of_sleeper};

/// Offset in struct pt_regs of the part that the CPU pushes, from the instruction pointer on.
const IRET_FRAME: u64 = 16 * 8;
/// A near relative call (opcode E8).
const CALL: &[u8] = &[0xe8];
/// Maximum padding before a function that calls may target (CONFIG_CALL_PADDING).
const MAX_PADDING: u64 = 64;
/// Maximum number of words of a stack searched for a caller: 16 KiB.
const MAX_WORDS: u64 = 2048;
/// Bytes at the start of a function that may contain its pushes.
const MAX_PROLOGUE: usize = 32;

/// The stacks of x86-64.
pub struct X86_64;

impl Stacks for X86_64 {
    fn of(&self, kernel: &dyn StackReader) -> Box<dyn Unwind> {
        // Unreadable tables are treated like missing ones.
        Box::new(Tables(Orc::of(kernel)))
    }
}

/// The unwind tables of a kernel, or why there are none.
struct Tables(Result<Orc, Reason>);

impl Unwind for Tables {
    fn without_tables(&self) -> Option<&str> {
        self.0.as_ref().err().map(|reason| reason.0.as_str())
    }

    fn of_cpu<'a>(
        &'a self,
        kernel: &'a dyn StackReader,
        registers: &[u8],
        _: Endian,
    ) -> Option<Box<dyn Walk + 'a>> {
        let found = Registers::parse(registers)?;
        let saved = found.ip != 0 || found.sp != 0;
        saved.then(|| Box::new(Frames::new(kernel, self.0.as_ref().ok(), &found, true)) as _)
    }

    fn of_sleeper<'a>(
        &'a self,
        kernel: &'a dyn StackReader,
        task: VirtAddr,
    ) -> Result<Box<dyn Walk + 'a>, Reason> {
        let found = of_sleeper(kernel, task)?;
        Ok(Box::new(Frames::new(
            kernel,
            self.0.as_ref().ok(),
            &found,
            false,
        )))
    }
}

/// A walk over one stack.
struct Frames<'a> {
    kernel: &'a dyn StackReader,
    orc: Option<&'a Orc>,
    ip: u64,
    sp: u64,
    bp: u64,
    /// True if the instruction was interrupted, rather than following a call.
    signal: bool,
    /// All registers in this frame, if known.
    full: Option<Registers>,
    /// The last complete set of registers, where this frame has only a part.
    before: Option<Registers>,
    /// True if every step so far used the tables.
    sure: bool,
    nameless: Nameless,
}

impl Walk for Frames<'_> {
    fn position(&self) -> Option<Position> {
        let user = self.full.is_some_and(|full| full.is_user());
        let position = match self.signal {
            true => Position::interrupted(self.ip, self.sp),
            false => Position::called(self.ip, self.sp),
        };
        (!user).then_some(Position {
            sure: self.sure,
            ..position
        })
    }

    fn step(&mut self) -> Result<(), End> {
        self.step_up()
    }
}

impl<'a> Frames<'a> {
    /// Starts with these registers: all of them, or those of a sleeping task.
    fn new(
        kernel: &'a dyn StackReader,
        orc: Option<&'a Orc>,
        start: &Registers,
        complete: bool,
    ) -> Self {
        Self {
            kernel,
            orc,
            ip: start.ip,
            sp: start.sp,
            bp: start.bp,
            signal: complete,
            full: complete.then_some(*start),
            before: None,
            sure: true,
            nameless: Nameless::default(),
        }
    }

    /// Moves to the caller.
    fn step_up(&mut self) -> Result<(), End> {
        if !self.signal {
            check_trampoline(self.kernel, self.ip)?;
        }
        // For a call, the call instruction itself is looked up.
        let code = VirtAddr(self.ip.wrapping_sub(u64::from(!self.signal)));
        if self.ip == 0 && !self.signal {
            return Err(End::Cut("the return address is 0".into()));
        }
        let known = match self.orc {
            Some(orc) => orc.find(self.kernel, code)?,
            None => None,
        };
        let entry = match known {
            Some(entry) if entry.kind == Kind::Undefined && self.by_caller() => return Ok(()),
            Some(entry) => entry,
            None => self.by_frame_pointer()?,
        };
        match entry.kind {
            Kind::End => return Err(End::Reached),
            Kind::Undefined => {
                let at = self.ip;
                return Err(End::Cut(format!("the tables have no entry for {at:#x}")));
            }
            _ => {}
        }
        let before = (self.sp, self.bp);
        let sp = self.caller_sp(&entry)?;
        self.signal = entry.signal;
        match entry.kind {
            Kind::Registers => {
                let registers = Registers::read(self.kernel, sp)?;
                self.take(&registers);
                (self.full, self.before) = (Some(registers), None);
            }
            Kind::PartialRegisters => {
                let start = sp.wrapping_sub(IRET_FRAME);
                let registers = Registers {
                    ip: self.word(sp)?,
                    cs: self.word(sp.wrapping_add(8))? & 0xffff,
                    sp: self.word(start.wrapping_add(19 * 8))?,
                    ..Registers::default()
                };
                self.before = self.full.take().or(self.before);
                self.take(&registers);
                self.end_of_user(&registers)?;
            }
            _ => {
                self.ip = self.word(sp.wrapping_sub(8))?;
                self.sp = sp;
                (self.full, self.before) = (None, None);
            }
        }
        let base = match entry.bp {
            Base::PreviousSp => Some(sp),
            Base::Register(Register::Bp) => Some(before.1),
            _ => None,
        };
        match base {
            Some(base) => self.bp = self.word(base.wrapping_add_signed(entry.bp_offset))?,
            None => self.bp = self.registers().map_or(self.bp, |known| known.bp),
        }
        match self.full {
            Some(full) => self.end_of_user(&full),
            None => Ok(()),
        }
    }

    /// Moves to the caller of a function without an entry (STACK_FRAME_NON_STANDARD), such as
    /// `__crash_kexec`, in which a panicking CPU saves its registers. The caller is found as
    /// the first return address on the stack that follows a call to the function.
    fn by_caller(&mut self) -> bool {
        let Some(found) = self.kernel.function_at(self.ip) else {
            return false;
        };
        let start = found.start;
        let slots = (0..MAX_WORDS).map(|slot| self.sp.wrapping_add(8 * slot));
        let found = slots
            .map_while(|slot| Some((slot, self.word(slot).ok()?)))
            .find(|(_, back)| self.calls(*back, start));
        let Some((slot, back)) = found else {
            return false;
        };
        if let Some(pushed) = self.frame_pointer_pushed(start) {
            match self.word(slot.wrapping_sub(8 * pushed)) {
                Ok(bp) => self.bp = bp,
                Err(_) => return false,
            }
        }
        (self.ip, self.sp, self.signal) = (back, slot.wrapping_add(8), false);
        (self.full, self.before) = (None, None);
        true
    }

    /// Returns the position of rbp among the registers that a function pushes, from its first
    /// instructions; `None` if it does not push it.
    fn frame_pointer_pushed(&self, start: u64) -> Option<u64> {
        let mut code = [0; MAX_PROLOGUE];
        let read = self.kernel.read("code", start, &mut code);
        read.ok()?;
        pushes(&code)
    }

    /// Returns true if the instruction before `back` calls the function at `start`, or its
    /// padding (CONFIG_CALL_PADDING).
    fn calls(&self, back: u64, start: u64) -> bool {
        let mut code = [0; CALL.len() + 4];
        let at = back.wrapping_sub(code.len() as u64);
        let read = self.kernel.read("code", at, &mut code);
        let (operation, distance) = code.split_at(CALL.len());
        let distance = Endian::Little.u32(distance, 0).unwrap_or(0).cast_signed();
        let target = back.wrapping_add_signed(i64::from(distance));
        read.is_ok() && operation == CALL && start.wrapping_sub(target) <= MAX_PADDING
    }

    /// Code without tables mostly keeps a frame pointer; generated code does.
    fn by_frame_pointer(&mut self) -> Result<Entry, End> {
        self.sure = false;
        self.nameless.check(self.kernel, self.ip)?;
        // Where all registers were saved, the entry code marks the frame pointer
        // (ENCODE_FRAME_POINTER, arch/x86/include/asm/frame.h).
        Ok(match self.bp & 7 {
            1 => Entry {
                sp_offset: -1,
                bp: Base::Undefined,
                kind: Kind::Registers,
                signal: true,
                ..Entry::FRAME_POINTER
            },
            _ => Entry::FRAME_POINTER,
        })
    }

    fn take(&mut self, registers: &Registers) {
        (self.ip, self.sp) = (registers.ip, registers.sp);
    }

    /// An interrupted user program is not a frame of the kernel.
    fn end_of_user(&self, registers: &Registers) -> Result<(), End> {
        match registers.is_user() {
            true => Err(End::Reached),
            false => Ok(()),
        }
    }

    fn caller_sp(&self, entry: &Entry) -> Result<u64, End> {
        let offset = entry.sp_offset;
        match entry.sp {
            Base::Register(register) => Ok(self.register(register)?.wrapping_add_signed(offset)),
            // As in the kernel: the offset is applied before or after the load.
            Base::Indirect(Register::Sp) => Ok(self.word(self.sp)?.wrapping_add_signed(offset)),
            Base::Indirect(register) => {
                self.word(self.register(register)?.wrapping_add_signed(offset))
            }
            Base::Undefined | Base::PreviousSp => {
                let at = self.ip;
                Err(End::Cut(format!("the entry for {at:#x} is invalid")))
            }
        }
    }

    /// Registers other than ip, sp and bp are known only where all were saved.
    fn registers(&self) -> Option<Registers> {
        self.full.or(self.before)
    }

    fn register(&self, register: Register) -> Result<u64, End> {
        let known = self.registers();
        let other = |value: fn(&Registers) -> u64| {
            let at = self.ip;
            known.as_ref().map(value).ok_or_else(|| {
                End::Cut(format!(
                    "the caller of {at:#x} depends on a register that was not saved"
                ))
            })
        };
        match register {
            Register::Sp => Ok(self.sp),
            Register::Bp => Ok(self.bp),
            Register::R10 => other(|known| known.r10),
            Register::R13 => other(|known| known.r13),
            Register::Di => other(|known| known.di),
            Register::Dx => other(|known| known.dx),
        }
    }

    fn word(&self, at: u64) -> Result<u64, End> {
        Ok(self.kernel.word(at)?)
    }
}

/// Returns the position of `push %rbp` among the pushes at the start of a function, from 1 on.
fn pushes(code: &[u8]) -> Option<u64> {
    let mut rest = code;
    let mut count = 0;
    loop {
        rest = match rest {
            // endbr64; the function tracer's slot, and a call of it.
            [0xf3, 0x0f, 0x1e, 0xfa, rest @ ..] => rest,
            [0x0f, 0x1f, 0x44, 0x00, 0x00, rest @ ..] => rest,
            [0xe8, _, _, _, _, rest @ ..] => rest,
            [0x55, ..] => return Some(count + 1),
            // rbx, and r8 to r15.
            [0x53, rest @ ..] | [0x41, 0x50..=0x57, rest @ ..] => {
                count += 1;
                rest
            }
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_pointer_is_found_among_the_pushes_of_a_function() {
        // endbr64; nopl; push %r15; push %r14; push %rbp; push %rbx; sub.
        let code = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0, 0, 0x41, 0x57, 0x41, 0x56, 0x55, 0x53,
            0x48, 0x83, 0xec,
        ];
        assert_eq!(pushes(&code), Some(3));
        assert_eq!(pushes(&[0xe8, 1, 2, 3, 4, 0x55]), Some(1));
        // It pushes none, or only after another instruction.
        assert_eq!(pushes(&[0x53, 0x48, 0x89, 0xe5, 0x55]), None);
        assert_eq!(pushes(&[0x41]), None);
        assert_eq!(pushes(&[]), None);
    }
}
