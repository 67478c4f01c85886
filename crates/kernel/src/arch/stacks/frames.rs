//! A walk over frames where the return address of a call is in a link register.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use super::{
    Chain, End, Nameless, Position, Reason, Registers, StackReader, Unwind, Walk, check_trampoline,
};

/// How an architecture finds the caller of a function, for one kernel.
pub trait CallingConvention: Send + Sync + Sized {
    /// Alignment of frames, in bytes: a power of two.
    const ALIGN: u64;

    /// Parses the registers of a CPU, as in pr_reg of its NT_PRSTATUS. `None` if they are too
    /// short.
    fn of_note(&self, registers: &[u8], endian: Endian) -> Option<Registers>;

    /// Reads the registers with which the sleeping task with the task_struct at `task` continues.
    fn of_sleeper(&self, kernel: &dyn StackReader, task: VirtAddr) -> Result<Registers, Reason>;

    /// Returns true if the function interrupted with these registers has no frame, not yet or no
    /// longer, so that its caller is the function to which the link register returns.
    fn has_no_frame(&self, kernel: &dyn StackReader, registers: &Registers) -> bool;

    /// Returns the position to which the return address `ip` leads.
    fn returned(&self, _kernel: &dyn StackReader, ip: u64, sp: u64) -> Position {
        Position::called(ip, sp)
    }

    /// Moves `frames` to the caller of a function with a frame; `interrupted` has the registers
    /// if the function was interrupted.
    fn leave(
        &self,
        frames: &mut Frames<'_, Self>,
        interrupted: Option<Registers>,
    ) -> Result<(), End>;
}

/// A walk over one stack.
pub struct Frames<'a, C> {
    /// The kernel with the stack.
    pub kernel: &'a dyn StackReader,
    convention: &'a C,
    /// The current frame.
    pub position: Position,
    /// Frame pointer, where the architecture has one.
    pub fp: u64,
    /// Frames left so far.
    pub chain: Chain,
    /// The registers, if the function was interrupted.
    interrupted: Option<Registers>,
    nameless: Nameless,
}

impl<'a, C: CallingConvention> Frames<'a, C> {
    fn new(kernel: &'a dyn StackReader, convention: &'a C, position: Position, fp: u64) -> Self {
        Self {
            kernel,
            convention,
            position,
            fp,
            chain: Chain::new(position.sp, C::ALIGN),
            interrupted: None,
            nameless: Nameless::default(),
        }
    }

    /// Moves to the caller to which the return address `ip` leads.
    pub fn return_to(&mut self, ip: u64, sp: u64) {
        self.position = self.convention.returned(self.kernel, ip, sp);
    }

    /// Moves to the code that was interrupted with these registers.
    ///
    /// # Errors
    ///
    /// It was a user program, so the stack ends.
    pub fn resume(&mut self, registers: Registers) -> Result<(), End> {
        if registers.is_user {
            return Err(End::Reached);
        }
        self.position = Position::interrupted(registers.ip, registers.sp);
        self.fp = registers.fp;
        self.interrupted = Some(registers);
        Ok(())
    }
}

impl<C: CallingConvention> Walk for Frames<'_, C> {
    fn position(&self) -> Option<Position> {
        let user = self.interrupted.is_some_and(|registers| registers.is_user);
        (!user).then_some(self.position)
    }

    fn step(&mut self) -> Result<(), End> {
        self.nameless.check(self.kernel, self.position.code)?;
        let interrupted = self.interrupted.take();
        match interrupted {
            Some(registers) if registers.is_user => return Err(End::Reached),
            Some(registers) if self.convention.has_no_frame(self.kernel, &registers) => {
                self.return_to(registers.link, registers.sp);
                return Ok(());
            }
            Some(_) => {}
            None => check_trampoline(self.kernel, self.position.ip)?,
        }
        self.convention.leave(self, interrupted)
    }
}

impl<C: CallingConvention> Unwind for C {
    fn of_cpu<'a>(
        &'a self,
        kernel: &'a dyn StackReader,
        registers: &[u8],
        endian: Endian,
    ) -> Option<Box<dyn Walk + 'a>> {
        let found = self.of_note(registers, endian)?;
        if found.ip == 0 && found.sp == 0 {
            return None;
        }
        let position = Position::interrupted(found.ip, found.sp);
        let mut frames = Frames::new(kernel, self, position, found.fp);
        frames.interrupted = Some(found);
        Some(Box::new(frames))
    }

    fn of_sleeper<'a>(
        &'a self,
        kernel: &'a dyn StackReader,
        task: VirtAddr,
    ) -> Result<Box<dyn Walk + 'a>, Reason> {
        let found = CallingConvention::of_sleeper(self, kernel, task)?;
        let position = Position::called(found.ip, found.sp);
        Ok(Box::new(Frames::new(kernel, self, position, found.fp)))
    }
}
