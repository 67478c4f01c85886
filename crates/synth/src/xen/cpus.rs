//! Physical CPUs in the hypervisor, their stacks, and the virtual CPUs of dom0: one runs on each of
//! them, and a further one does not run.

use super::build::{Builder, PAGE};
use crate::error::SynthError;

/// Functions, by their offset in the image.
pub(super) const FUNCTIONS: [(u32, &str); 4] = [
    (0x5000, "Tkexec_crash_save_cpu"),
    (0x5100, "tcommon/kexec.c#do_crashdump_trigger"),
    (0x5200, "Thandle_keypress"),
    (0x5300, "Tend_of_functions"),
];
/// The return address in each: behind a call instruction.
const RETURN: u64 = 0x45;
/// Pages of a stack, and the one for exceptions of the kind NMI.
const STACK_PAGES: u64 = 8;
const NMI_PAGE: u64 = 2;
/// Bytes of struct cpu_info, and of what is below it on a stack.
const CPU_INFO: u64 = 0x100;
const USED: u64 = 0x80;
/// Registers by their position in a note.
const RIP: usize = 16;
const RSP: usize = 19;
/// Offsets in struct vcpu and struct domain.
const VCPU_DOMAIN: u64 = 24;
const VCPU_REGISTERS: u64 = 0x300;
const DOMAIN_VCPUS: u64 = 0x208;
/// Where a virtual CPU of a domain was.
const IN_DOMAIN: u64 = 0xffff_ffff_8110_0000;

impl Builder {
    /// Lays the CPUs out; returns the registers of each, by their position in a note.
    pub(super) fn cpus(&mut self) -> Result<Vec<Vec<(usize, u64)>>, SynthError> {
        for (offset, _) in FUNCTIONS {
            let call = self.start() + u64::from(offset) + RETURN - 5;
            self.memory.put(call, &[0xe8, 1, 2, 3, 4]);
        }
        let array = self.heap()?;
        let pointer = self.dom0_domain * PAGE + DOMAIN_VCPUS;
        self.memory.put64(pointer, self.address(array));
        let mut vcpus = Vec::new();
        for number in 0..=self.spec.cpus as u64 {
            let vcpu = self.heap()?;
            let address = vcpu * PAGE;
            self.memory.put64(address, number | 7 << 32);
            let domain = self.address(self.dom0_domain);
            self.memory.put64(address + VCPU_DOMAIN, domain);
            // Those of one that runs are out of date.
            let at = IN_DOMAIN + 0x1000 + number;
            self.user_registers(address + VCPU_REGISTERS, at);
            let link = array * PAGE + 8 * number;
            self.memory.put64(link, self.address(vcpu));
            vcpus.push(self.address(vcpu));
        }
        let mut registers = Vec::new();
        for (number, vcpu) in (0..self.spec.cpus as u64).zip(vcpus) {
            registers.push(self.cpu(number, vcpu)?);
        }
        Ok(registers)
    }

    /// Lays the stack of a CPU out. All but the first were stopped by an NMI.
    fn cpu(&mut self, number: u64, vcpu: u64) -> Result<Vec<(usize, u64)>, SynthError> {
        let mut first = self.heap()?;
        while first % STACK_PAGES != 0 {
            first = self.heap()?;
        }
        for page in 1..STACK_PAGES {
            if self.heap()? != first + page {
                return Err(SynthError::layout("a stack has no pages behind each other"));
            }
        }
        let returns = |index: usize| self.virt_start() + u64::from(FUNCTIONS[index].0) + RETURN;
        let (inner, outer) = (returns(1), returns(2));
        let info = STACK_PAGES * PAGE - CPU_INFO;
        let bottom = info - USED;
        // What is no return address, as it is not behind a call, is between two that are.
        for (slot, word) in [inner, inner + 1, outer].into_iter().enumerate() {
            self.memory
                .put64(first * PAGE + bottom + 8 * slot as u64, word);
        }
        self.user_registers(first * PAGE + info, IN_DOMAIN + number);
        for (offset, word) in [(200, number | 0xe010 << 32), (208, vcpu), (216, 0)] {
            self.memory.put64(first * PAGE + info + offset, word);
        }
        let stack = self.address(first);
        let saving = self.virt_start() + u64::from(FUNCTIONS[0].0) + 0x10;
        if number == 0 {
            return Ok(vec![(RIP, saving), (RSP, stack + bottom)]);
        }
        let end = (NMI_PAGE + 1) * PAGE;
        let interrupted = self.virt_start() + u64::from(FUNCTIONS[2].0);
        let frame = [interrupted, 0xe008, 0x202, stack + bottom, 0xe010];
        for (slot, word) in frame.into_iter().enumerate() {
            self.memory
                .put64(first * PAGE + end - 40 + 8 * slot as u64, word);
        }
        Ok(vec![(RIP, saving), (RSP, stack + end - 0x200)])
    }

    /// Writes struct cpu_user_regs of a domain that was at an instruction.
    fn user_registers(&mut self, at: u64, instruction: u64) {
        for index in 0..15 {
            self.memory.put64(at + 8 * index, 0x100 + index);
        }
        let frame = [
            instruction,
            0x1_0000_e033,
            0x246,
            0xffff_c900_0000_1000,
            0xe02b,
        ];
        for (slot, word) in frame.into_iter().enumerate() {
            self.memory.put64(at + 128 + 8 * slot as u64, word);
        }
    }
}
