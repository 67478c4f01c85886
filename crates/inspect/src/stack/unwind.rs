//! From frame to frame, as the kernel itself does it (unwind_next_frame,
//! arch/x86/kernel/unwind_orc.c).

use std::collections::HashSet;

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::orc::{Base, Entry, Kind, Orc, Register};
use super::registers::Registers;
use super::{Frame, MOST_FRAMES, Trace, frame};
use crate::error::InspectError;
use crate::program::Program;

/// Where the processor's part of struct pt_regs begins: its instruction pointer.
const IRET_FRAME: u64 = 16 * 8;
/// A call of a function that lies so far from here (opcode E8).
const CALL: &[u8] = &[0xe8];
/// What stands before a function for calls that go there.
const MOST_PADDING: u64 = 64;
/// Words of a stack that are looked through for a caller: its 16 KiB.
const MOST_WORDS: u64 = 2048;
/// The first bytes of a function: what it pushes is there.
const MOST_PROLOGUE: usize = 32;
/// Frames without a name, one behind the other: programs of BPF call each other up to
/// 8 deep (MAX_CALL_FRAMES, include/linux/bpf_verifier.h).
const MOST_NAMELESS: usize = 8;
/// Functions that stand in the place of a return address.
const TRAMPOLINES: [(&str, &str); 4] = [
    ("return_to_handler", "the function graph tracer"),
    ("arch_rethook_trampoline", "a return probe"),
    ("__kretprobe_trampoline", "a return probe"),
    ("kretprobe_trampoline", "a return probe"),
];

/// A walk up one stack.
pub struct Walk<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    orc: Option<&'p Orc>,
    ip: u64,
    sp: u64,
    bp: u64,
    /// Whether the instruction was interrupted, and not the one after a call.
    signal: bool,
    /// All registers as they were in this frame.
    full: Option<Registers>,
    /// The last ones that were all there, where this frame has only a part.
    before: Option<Registers>,
    /// Whether every step so far went by the tables.
    sure: bool,
    /// How many frames before this one have no name.
    nameless: usize,
}

/// Why a walk ends.
enum End {
    /// There is no caller.
    Reached,
    /// The caller is not found.
    Cut(String),
}

impl From<InspectError> for End {
    fn from(error: InspectError) -> Self {
        Self::Cut(error.to_string())
    }
}

impl<'p, 'k, 's> Walk<'p, 'k, 's> {
    /// One that begins with these registers: all of them, or those of a sleeper.
    pub fn new(
        program: &'p Program<'k, 's>,
        orc: Option<&'p Orc>,
        start: &Registers,
        complete: bool,
    ) -> Self {
        Self {
            program,
            orc,
            ip: start.ip,
            sp: start.sp,
            bp: start.bp,
            signal: complete,
            full: complete.then_some(*start),
            before: None,
            sure: true,
            nameless: 0,
        }
    }

    /// All frames up to the end.
    pub fn all(mut self) -> Trace {
        let mut trace = Trace::default();
        let mut seen = HashSet::new();
        while trace.frames.len() < MOST_FRAMES {
            if !seen.insert((self.ip, self.sp)) {
                trace.cut = Some(format!("it goes in a circle at {:#x}", self.sp));
                return trace;
            }
            trace.frames.push(self.frame());
            match self.step() {
                Ok(()) => {}
                Err(End::Reached) => return trace,
                Err(End::Cut(reason)) => {
                    trace.cut = Some(reason);
                    return trace;
                }
            }
        }
        trace.cut = Some(format!("more than {MOST_FRAMES} frames"));
        trace
    }

    fn frame(&self) -> Frame {
        Frame {
            sure: self.sure,
            ..frame(
                self.program,
                VirtAddr(self.ip),
                VirtAddr(self.sp),
                self.signal,
            )
        }
    }

    /// Goes to the caller.
    fn step(&mut self) -> Result<(), End> {
        self.check_trampoline()?;
        // After a call it is the call's own instruction that counts.
        let code = VirtAddr(self.ip.wrapping_sub(u64::from(!self.signal)));
        if self.ip == 0 && !self.signal {
            return Err(End::Cut("the return address is 0".into()));
        }
        let known = match self.orc {
            Some(orc) => orc.find(self.program, code)?,
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
                return Err(End::Cut(format!("the tables say nothing of {at:#x}")));
            }
            _ => {}
        }
        let before = (self.sp, self.bp);
        let sp = self.caller_sp(&entry)?;
        self.signal = entry.signal;
        match entry.kind {
            Kind::Registers => {
                let registers = Registers::read(self.program, VirtAddr(sp))?;
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

    /// Goes to the caller of a function that has no entry. `__crash_kexec`, in which a
    /// CPU that panics takes its registers, is one (STACK_FRAME_NON_STANDARD). Its
    /// caller is where the first return address on the stack is that stands behind a
    /// call to it.
    fn by_caller(&mut self) -> bool {
        let Some(found) = self.program.symbol_at(VirtAddr(self.ip)) else {
            return false;
        };
        let start = found.symbol.address.0;
        let slots = (0..MOST_WORDS).map(|slot| self.sp.wrapping_add(8 * slot));
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

    /// As how manieth register a function puts rbp on the stack, by its first
    /// instructions; `None` if it leaves it as it was.
    fn frame_pointer_pushed(&self, start: u64) -> Option<u64> {
        let mut code = [0; MOST_PROLOGUE];
        let kernel = self.program.kernel();
        kernel.read("code", VirtAddr(start), &mut code).ok()?;
        pushes(&code)
    }

    /// Whether the instruction before `back` calls the function at `start`, or what
    /// stands before it for such calls (CONFIG_CALL_PADDING).
    fn calls(&self, back: u64, start: u64) -> bool {
        let mut code = [0; CALL.len() + 4];
        let at = VirtAddr(back.wrapping_sub(code.len() as u64));
        let read = self.program.kernel().read("code", at, &mut code);
        let (operation, distance) = code.split_at(CALL.len());
        let distance = Endian::Little.u32(distance, 0).unwrap_or(0).cast_signed();
        let target = back.wrapping_add_signed(i64::from(distance));
        read.is_ok() && operation == CALL && start.wrapping_sub(target) <= MOST_PADDING
    }

    /// Code without a table most often keeps a frame pointer; generated code does.
    fn by_frame_pointer(&mut self) -> Result<Entry, End> {
        self.sure = false;
        let has_name = self.program.symbol_at(VirtAddr(self.ip)).is_some();
        self.nameless = if has_name { 0 } else { self.nameless + 1 };
        if self.nameless > MOST_NAMELESS {
            let at = self.ip;
            return Err(End::Cut(format!("{at:#x} is no code of the kernel")));
        }
        // Where all registers were put aside, the entry code marks the frame pointer
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

    /// What a program was interrupted in is not a frame of the kernel.
    fn end_of_user(&self, registers: &Registers) -> Result<(), End> {
        match registers.is_user() {
            true => Err(End::Reached),
            false => Ok(()),
        }
    }

    fn check_trampoline(&self) -> Result<(), End> {
        let symbol = self.program.symbol_at(VirtAddr(self.ip));
        let found = symbol.and_then(|found| {
            let mut all = TRAMPOLINES.iter();
            all.find(|(name, _)| *name == found.symbol.name && !self.signal)
        });
        match found {
            Some((_, who)) => Err(End::Cut(format!("{who} has the return address"))),
            None => Ok(()),
        }
    }

    fn caller_sp(&self, entry: &Entry) -> Result<u64, End> {
        let offset = entry.sp_offset;
        match entry.sp {
            Base::Register(register) => Ok(self.register(register)?.wrapping_add_signed(offset)),
            // As the kernel has it: the offset counts before or behind the reading.
            Base::Indirect(Register::Sp) => Ok(self.word(self.sp)?.wrapping_add_signed(offset)),
            Base::Indirect(register) => {
                self.word(self.register(register)?.wrapping_add_signed(offset))
            }
            Base::Undefined | Base::PreviousSp => {
                let at = self.ip;
                Err(End::Cut(format!("the tables make no sense of {at:#x}")))
            }
        }
    }

    /// Registers beside ip, sp and bp are known only where all were put aside.
    fn registers(&self) -> Option<Registers> {
        self.full.or(self.before)
    }

    fn register(&self, register: Register) -> Result<u64, End> {
        let known = self.registers();
        let other = |value: fn(&Registers) -> u64| {
            let at = self.ip;
            known.as_ref().map(value).ok_or_else(|| {
                End::Cut(format!(
                    "at {at:#x} the caller is found by a register that was not kept"
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
        Ok(self.program.number(VirtAddr(at), 8)?)
    }
}

/// The place of `push %rbp` among the pushes that a function begins with, from 1 on.
fn pushes(code: &[u8]) -> Option<u64> {
    let mut rest = code;
    let mut count = 0;
    loop {
        rest = match rest {
            // endbr64; the place for the function tracer, and a call of it.
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
    fn the_frame_pointer_is_found_among_what_a_function_pushes() {
        // endbr64; nopl; push %r15; push %r14; push %rbp; push %rbx; sub.
        let code = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0, 0, 0x41, 0x57, 0x41, 0x56, 0x55, 0x53,
            0x48, 0x83, 0xec,
        ];
        assert_eq!(pushes(&code), Some(3));
        assert_eq!(pushes(&[0xe8, 1, 2, 3, 4, 0x55]), Some(1));
        // It pushes none, or pushes it after another instruction.
        assert_eq!(pushes(&[0x53, 0x48, 0x89, 0xe5, 0x55]), None);
        assert_eq!(pushes(&[0x41]), None);
        assert_eq!(pushes(&[]), None);
    }
}
