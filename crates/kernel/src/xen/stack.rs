//! The hypervisor's stacks (xen/arch/x86/include/asm/current.h): each CPU has one of eight pages.
//! Exceptions of the kinds NMI, MCE, DB and DF have a page of it each, at whose end the processor
//! pushes what it interrupted.
//!
//! Builds for production have no frame pointers, so the hypervisor itself prints every word of
//! its stack that is an address in a function (show_trace, xen/arch/x86/traps.c). Here such a word
//! counts if it is behind a call instruction as well. What a function left behind may be among
//! them.

use bigiron_format::elf::x86_64::Register;

use super::cpus::{Cpu, STACK, UPPER_HALF, end_of_stack};
use super::host::Host;
use super::symbols::Symbols;
use super::vcpus::Vcpu;
use crate::error::KernelError;

const PAGE: u64 = 4096;
/// Pages of a stack, from the lowest on, that may be stacks of exceptions.
const EXCEPTION_PAGES: u64 = 5;
/// What the processor pushes: rip, cs, rflags, rsp, ss.
const FRAME: usize = 5;
/// The hypervisor's code segment (__HYPERVISOR_CS).
const HYPERVISOR_CS: u64 = 0xe008;
/// Maximum length of a call instruction through a register or memory.
const MAX_CALL: usize = 7;
/// Calls of a stack, at most.
const MAX_CALLS: usize = 128;

/// A function on a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The instruction, or where the call returns to.
    pub address: u64,
    /// `function+offset/size`, if it has a symbol.
    pub symbol: Option<String>,
    /// False for a word of the stack, which a function may have left behind.
    pub sure: bool,
}

/// The stack of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Functions, the innermost first.
    pub calls: Vec<Call>,
    /// The virtual CPU that it runs, if it is one of a paravirtual domain.
    pub vcpu: Option<Vcpu>,
    /// Why it ends early.
    pub cut: Option<String>,
}

impl Host<'_> {
    /// Returns the stack of a CPU.
    ///
    /// # Errors
    /// The source fails as a whole.
    pub fn stack(&self, cpu: &Cpu) -> Result<Stack, KernelError> {
        let mut walk = Walk {
            host: self,
            symbols: self.symbols()?,
            stack: Stack::default(),
        };
        walk.push(cpu.registers.get(Register::Rip), true);
        walk.from(cpu.registers.get(Register::Rsp))?;
        walk.stack.vcpu = self.vcpu_on(cpu)?;
        Ok(walk.stack)
    }
}

struct Walk<'h, 'a> {
    host: &'h Host<'a>,
    symbols: Option<&'h Symbols>,
    stack: Stack,
}

impl Walk<'_, '_> {
    /// Adds the calls from a stack pointer on.
    fn from(&mut self, stack_pointer: u64) -> Result<(), KernelError> {
        let page_end = (stack_pointer / PAGE * PAGE).saturating_add(PAGE);
        let frame = match stack_pointer % STACK < EXCEPTION_PAGES * PAGE {
            true => self.frame(page_end)?,
            false => None,
        };
        let Some((instruction, before)) = frame else {
            return self.scan(stack_pointer, end_of_stack(stack_pointer));
        };
        self.scan(stack_pointer, page_end - 8 * FRAME as u64)?;
        self.push(instruction, true);
        // An exception of an exception is rare, and its frame is overwritten by the next one.
        self.scan(before, end_of_stack(before))
    }

    /// Returns the instruction and stack pointer of the hypervisor that an exception interrupted,
    /// whose frame ends at `end`; `None` if there is no such frame. One that interrupts a domain
    /// goes on on the other stack.
    fn frame(&self, end: u64) -> Result<Option<(u64, u64)>, KernelError> {
        let words = self.host.words(end - 8 * FRAME as u64, FRAME)?;
        let words = words.unwrap_or_default();
        let &[instruction, segment, flags, stack_pointer, _] = &words[..] else {
            return Ok(None);
        };
        // Bit 1 of the flags is always set, and the upper half always clear.
        let fits = segment == HYPERVISOR_CS
            && flags & 2 != 0
            && flags >> 32 == 0
            && stack_pointer >= UPPER_HALF;
        Ok(fits.then_some((instruction, stack_pointer)))
    }

    /// Adds the words of a part of the stack that are return addresses.
    fn scan(&mut self, from: u64, end: u64) -> Result<(), KernelError> {
        let mut at = from.next_multiple_of(8);
        while at < end {
            // By pages: the guard page is not mapped.
            let next = (at / PAGE * PAGE + PAGE).min(end);
            let count = ((next - at) / 8) as usize;
            match self.host.words(at, count)? {
                None => {
                    let reason = format!("stack address {at:#x} cannot be read");
                    self.stack.cut = Some(reason);
                    return Ok(());
                }
                Some(words) => {
                    for word in words {
                        if self.stack.calls.len() >= MAX_CALLS {
                            self.stack.cut = Some(format!("after {MAX_CALLS} calls"));
                            return Ok(());
                        }
                        if self.is_return_address(word)? {
                            self.push(word, false);
                        }
                    }
                }
            }
            at = next;
        }
        Ok(())
    }

    /// Returns true if the address is in a function, behind a call instruction.
    fn is_return_address(&self, address: u64) -> Result<bool, KernelError> {
        let offset = address.wrapping_sub(self.host.space().image_start().0);
        let found = self.symbols.and_then(|symbols| symbols.at(offset));
        if !found.is_some_and(|found| found.is_function && found.size.is_some()) {
            return Ok(false);
        }
        let mut before = [0; MAX_CALL];
        let start = address.wrapping_sub(MAX_CALL as u64);
        Ok(self.host.read_if_there(start, &mut before)? && ends_with_call(&before))
    }

    fn push(&mut self, address: u64, sure: bool) {
        let offset = address.wrapping_sub(self.host.space().image_start().0);
        let found = self.symbols.and_then(|symbols| symbols.at(offset));
        let symbol = found.filter(|found| found.is_function).map(|found| {
            let size = found.size.map(|size| format!("/{size:#x}"));
            let size = size.unwrap_or_default();
            format!("{}+{:#x}{size}", found.name, found.offset)
        });
        self.stack.calls.push(Call {
            address,
            symbol,
            sure,
        });
    }
}

/// Returns true if a call instruction ends with these bytes: `e8` with a distance, or `ff /2`
/// through a register or memory.
fn ends_with_call(bytes: &[u8; MAX_CALL]) -> bool {
    let through = |len: usize| {
        let start = MAX_CALL - len;
        bytes[start] == 0xff && bytes[start + 1] >> 3 & 7 == 2
    };
    bytes[MAX_CALL - 5] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(through)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognised_by_their_instruction() {
        for call in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0xff, 0xd0],
            &[0x41, 0xff, 0xd3],
            &[0xff, 0x50, 8],
            &[0xff, 0x14, 0xc5, 0, 1, 2, 3],
            &[0xff, 0x15, 1, 2, 3, 4],
        ] {
            let mut bytes = [0x90; MAX_CALL];
            bytes[MAX_CALL - call.len()..].copy_from_slice(call);
            assert!(ends_with_call(&bytes), "{call:x?}");
        }
        // A jump and a push through a register, and no instruction.
        for other in [[0xff, 0xe0], [0xff, 0xf0], [0xc3, 0x90]] {
            let mut bytes = [0x90; MAX_CALL];
            bytes[MAX_CALL - 2..].copy_from_slice(&other);
            assert!(!ends_with_call(&bytes), "{other:x?}");
        }
    }
}
