//! The notes of a machine: NT_PRSTATUS, QEMU's CPU state, VMCOREINFO.

use crate::arch::sme_mask;
use crate::machine::Machine;
use crate::notes::Notes;

const NT_PRSTATUS: u32 = 1;
/// sizeof(QEMUCPUState), target/i386/arch_dump.c.
const QEMU_STATE: usize = 440;

impl Notes {
    pub(crate) fn prstatus(&mut self, machine: &Machine) {
        for cpu in 0..machine.spec.options.cpus {
            let registers = machine.registers(cpu);
            let arch = machine.spec.platform.arch();
            let mut desc = arch.prstatus(&registers, self.order);
            self.order.put32(&mut desc, 32, cpu + 1); // pr_pid
            self.push("CORE", NT_PRSTATUS, &desc);
            arch.cpu_notes(cpu, self);
        }
    }

    /// QEMU's state of an x86_64 CPU.
    pub(crate) fn qemu(&mut self, machine: &Machine) {
        let order = self.order;
        let five = machine.spec.options.levels == 5;
        for cpu in 0..machine.spec.options.cpus {
            let mut desc = vec![0; QEMU_STATE];
            order.put32(&mut desc, 0, 1); // version
            order.put32(&mut desc, 4, QEMU_STATE as u32);
            let (image, _) = machine.image();
            order.put64(&mut desc, 8 + 16 * 8, image.start + 16 * u64::from(cpu)); // rip
            let cr = 392; // after 18 registers and 10 segments of 24 bytes
            order.put64(&mut desc, cr, 0x8005_0033);
            let sme_mask = sme_mask(&machine.spec);
            order.put64(&mut desc, cr + 24, machine.top_table() | sme_mask);
            // PAE and PGE and, with five levels, LA57.
            order.put64(&mut desc, cr + 32, 0xa0 | u64::from(five) << 12);
            self.push("QEMU", 0, &desc);
        }
    }

    pub(crate) fn vmcoreinfo(&mut self, machine: &Machine) {
        self.push("VMCOREINFO", 0, machine.vmcoreinfo().as_bytes());
    }
}
