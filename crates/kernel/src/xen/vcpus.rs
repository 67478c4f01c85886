//! The virtual CPUs of paravirtual domains, and their registers.
//!
//! The registers of a virtual CPU that was running are at the end of the physical CPU's stack
//! (struct cpu_info, xen/arch/x86/include/asm/current.h), those of others in struct vcpu. Nothing
//! tells the layouts of struct vcpu and struct domain, so their members are found by what they
//! contain: a pointer to the domain, an array of pointers to virtual CPUs, and the registers by the
//! segments that a paravirtual kernel has.

use bigiron_format::VirtAddr;
use bigiron_format::elf::x86_64::{Register, Registers};

use super::cpus::{Cpu, UPPER_HALF};
use super::host::Host;
use crate::error::{KernelError, SourceError};

/// Bytes at the end of a stack that have struct cpu_info.
const CPU_INFO: usize = 512;
/// Words of struct vcpu that have the pointer to its domain.
const VCPU_HEAD: usize = 32;
/// Bytes of struct vcpu that have its registers.
const VCPU: usize = 2 * 4096;
/// Bytes of struct domain that are searched for its virtual CPUs.
const DOMAIN: usize = 4096;
/// Virtual CPUs of a domain, at most.
const MAX_VCPUS: u32 = 8192;
/// Words of struct cpu_user_regs up to rip, whose frame follows.
const BEFORE_FRAME: usize = 16;
/// Words from rip to the number of the physical CPU, by the words of segments behind the frame:
/// with es to gs, with two of FRED, without.
const TO_NUMBER: [usize; 3] = [9, 7, 5];
/// Registers in struct cpu_user_regs, by its words.
const USER_REGISTERS: [(Register, usize); 20] = [
    (Register::R15, 0),
    (Register::R14, 1),
    (Register::R13, 2),
    (Register::R12, 3),
    (Register::Rbp, 4),
    (Register::Rbx, 5),
    (Register::R11, 6),
    (Register::R10, 7),
    (Register::R9, 8),
    (Register::R8, 9),
    (Register::Rax, 10),
    (Register::Rcx, 11),
    (Register::Rdx, 12),
    (Register::Rsi, 13),
    (Register::Rdi, 14),
    (Register::Rip, 16),
    (Register::Cs, 17),
    (Register::Rflags, 18),
    (Register::Rsp, 19),
    (Register::Ss, 20),
];
/// Segments of paravirtual kernels and of their programs (xen/include/public/arch-x86/xen-x86_64.h).
const CODE_SEGMENTS: [u64; 4] = [0xe033, 0x33, 0xe023, 0x23];
const STACK_SEGMENTS: [u64; 2] = [0xe02b, 0x2b];

/// A virtual CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vcpu {
    /// The identifier of its domain.
    pub domain: u16,
    /// Its number in the domain.
    pub number: u32,
    /// Its registers, if they are found.
    pub registers: Option<Registers>,
    address: u64,
}

impl Host<'_> {
    /// Returns the virtual CPU whose registers are on the stack of a physical CPU.
    ///
    /// # Errors
    /// The source fails as a whole.
    pub fn vcpu_on(&self, cpu: &Cpu) -> Result<Option<Vcpu>, KernelError> {
        if !cpu.is_saved() {
            return Ok(None);
        }
        let start = cpu.stack_end().wrapping_sub(CPU_INFO as u64);
        let Some(words) = self.words(start, CPU_INFO / 8)? else {
            return Ok(None);
        };
        for at in BEFORE_FRAME..words.len() {
            let Some(registers) = registers_at(&words, at) else {
                continue;
            };
            let info = TO_NUMBER.into_iter().find_map(|distance| {
                let info = words.get(at + distance..at + distance + 3)?;
                let is_this = info[0] & 0xffff_ffff == cpu.number as u64 && info[1] >= UPPER_HALF;
                is_this.then(|| (info[1], info[2]))
            });
            let Some((current, per_cpu)) = info else {
                continue;
            };
            // An idle CPU still has the registers of the one that ran before.
            let before = self.per_cpu_pointer("per_cpu__curr_vcpu", per_cpu)?;
            let vcpu = self.vcpu_at(before.unwrap_or(current))?;
            return Ok(vcpu.map(|vcpu| Vcpu {
                registers: Some(registers),
                ..vcpu
            }));
        }
        Ok(None)
    }

    /// Returns the virtual CPUs of a domain, in the order of their numbers; none if they are not
    /// found.
    ///
    /// # Errors
    /// The source fails as a whole.
    pub fn vcpus(&self, domain: u16) -> Result<Vec<Vcpu>, KernelError> {
        let Some(array) = self.vcpu_array(domain)? else {
            return Ok(Vec::new());
        };
        let mut running = Vec::new();
        for cpu in self.cpus() {
            running.extend(self.vcpu_on(&cpu)?);
        }
        let mut found = Vec::new();
        for number in 0..MAX_VCPUS {
            let at = array.wrapping_add(8 * u64::from(number));
            let pointer = self.words(at, 1)?.and_then(|words| words.first().copied());
            let vcpu = match pointer {
                Some(pointer) if pointer >= UPPER_HALF => self.vcpu_at(pointer)?,
                _ => None,
            };
            let Some(vcpu) = vcpu.filter(|vcpu| (vcpu.domain, vcpu.number) == (domain, number))
            else {
                break;
            };
            let is_this = |other: &&Vcpu| other.address == vcpu.address;
            found.push(match running.iter().find(is_this) {
                Some(running) => *running,
                None => Vcpu {
                    registers: self.saved_registers(vcpu.address)?,
                    ..vcpu
                },
            });
        }
        Ok(found)
    }

    /// Returns the address of the domain's array of pointers to its virtual CPUs.
    fn vcpu_array(&self, domain: u16) -> Result<Option<u64>, KernelError> {
        let known = self.domains().iter().find(|known| known.id == domain);
        let Some(known) = known else {
            return Ok(None);
        };
        let words = self.words(known.address.0, DOMAIN / 8)?;
        for array in words.unwrap_or_default() {
            if array < UPPER_HALF || !array.is_multiple_of(8) {
                continue;
            }
            let first = self
                .words(array, 1)?
                .and_then(|words| words.first().copied());
            let vcpu = match first {
                Some(first) if first >= UPPER_HALF => self.vcpu_at(first)?,
                _ => None,
            };
            if vcpu.is_some_and(|vcpu| (vcpu.domain, vcpu.number) == (domain, 0)) {
                return Ok(Some(array));
            }
        }
        Ok(None)
    }

    /// Returns the virtual CPU at an address, without registers: it begins with its number, and has
    /// a pointer to its domain.
    fn vcpu_at(&self, address: u64) -> Result<Option<Vcpu>, KernelError> {
        let Some(words) = self.words(address, VCPU_HEAD)? else {
            return Ok(None);
        };
        let number = words.first().copied().unwrap_or_default() as u32;
        let mut domains = self.domains().iter();
        let domain = domains.find(|domain| words.contains(&domain.address.0));
        Ok(domain.filter(|_| number < MAX_VCPUS).map(|domain| Vcpu {
            domain: domain.id,
            number,
            registers: None,
            address,
        }))
    }

    /// Returns the registers that a virtual CPU had when it ran last.
    fn saved_registers(&self, vcpu: u64) -> Result<Option<Registers>, KernelError> {
        let mut words = Vec::new();
        // The second page may be another's, or missing.
        for page in (0..VCPU).step_by(4096) {
            match self.words(vcpu.wrapping_add(page as u64), 4096 / 8)? {
                Some(more) => words.extend(more),
                None => break,
            }
        }
        let mut places = BEFORE_FRAME..words.len();
        Ok(places.find_map(|at| registers_at(&words, at)))
    }

    /// Reads words at an address of the hypervisor; `None` if they are not there.
    pub(super) fn words(&self, at: u64, count: usize) -> Result<Option<Vec<u64>>, KernelError> {
        let mut bytes = vec![0; 8 * count];
        let is_there = self.read_if_there(at, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        Ok(is_there.then(|| words.collect()))
    }

    /// Fills `bytes` from an address of the hypervisor; returns false if they are not there.
    pub(super) fn read_if_there(&self, at: u64, bytes: &mut [u8]) -> Result<bool, SourceError> {
        let read = self
            .space()
            .read(self.memory(), "data of a CPU", VirtAddr(at), bytes);
        match read {
            Ok(()) => Ok(true),
            Err(KernelError::Source(error)) if !error.is_one_page() => Err(error),
            Err(_) => Ok(false),
        }
    }
}

/// Returns the registers whose rip is the word at `at`, if a paravirtual domain has such.
fn registers_at(words: &[u64], at: usize) -> Option<Registers> {
    let words = words.get(at.checked_sub(BEFORE_FRAME)?..)?;
    let word = |index: usize| words.get(index).copied();
    // The upper half of the word with cs has the mask of events.
    let (code, flags, stack) = (word(17)? & 0xffff, word(18)?, word(20)? & 0xffff);
    let fits = CODE_SEGMENTS.contains(&code)
        && STACK_SEGMENTS.contains(&stack)
        && flags & 2 != 0
        && flags >> 22 == 0
        && word(16)? != 0;
    if !fits {
        return None;
    }
    let mut registers = Registers::default();
    for (register, index) in USER_REGISTERS {
        registers.set(register, word(index)?);
    }
    registers.set(Register::Ss, stack);
    registers.guess_code_segment();
    Some(registers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_a_paravirtual_domain_are_known_by_their_segments() {
        let mut words: Vec<u64> = (100..140).collect();
        let frame = [
            0xffff_ffff_8100_0000,
            0x1_0000_e033,
            0x246,
            0xffff_c900_0000_1000,
            0xe02b,
        ];
        words[20..25].copy_from_slice(&frame);
        let found = (0..words.len()).filter_map(|at| registers_at(&words, at));
        let found: Vec<_> = found.collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].get(Register::Rip), 0xffff_ffff_8100_0000);
        assert_eq!(found[0].get(Register::Cs), 0x10);
        assert_eq!(
            (found[0].get(Register::R15), found[0].get(Register::Rdi)),
            (104, 118)
        );
        words[21] = 0xe008;
        assert!((0..words.len()).all(|at| registers_at(&words, at).is_none()));
    }
}
