//! The physical CPUs of a Xen host, in the hypervisor.

use std::collections::BTreeMap;

use bigiron_format::elf::x86_64::{REGISTER_NAMES, Register};
use bigiron_kernel::xen::{CONTROL_REGISTERS, Cpu, Host};
use serde::Serialize;

use super::page::Page;

/// Registers in a line.
const IN_LINE: usize = 3;

/// A CPU.
#[derive(Serialize)]
pub struct CpuState {
    pub number: usize,
    /// Its registers by name; empty if it saved none.
    registers: BTreeMap<&'static str, u64>,
    /// Functions on its stack, the innermost first.
    calls: Vec<Call>,
    /// The virtual CPU that it runs, if it is one of a paravirtual domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    vcpu: Option<Virtual>,
    /// Why the stack ends early.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<String>,
}

/// A virtual CPU.
#[derive(Serialize)]
struct Virtual {
    domain: u16,
    number: u32,
    /// The instruction at which it entered the hypervisor.
    instruction: Option<u64>,
}

/// A function on a stack.
#[derive(Serialize)]
struct Call {
    address: u64,
    symbol: Option<String>,
    /// False for a word of the stack, which a function may have left behind.
    sure: bool,
}

impl CpuState {
    /// Collects the CPUs of a host.
    pub fn all(host: &Host) -> anyhow::Result<Vec<Self>> {
        let cpus = host.cpus();
        cpus.iter().map(|cpu| Self::of(host, cpu)).collect()
    }

    fn of(host: &Host, cpu: &Cpu) -> anyhow::Result<Self> {
        if !cpu.is_saved() {
            return Ok(Self {
                number: cpu.number,
                registers: BTreeMap::new(),
                calls: Vec::new(),
                vcpu: None,
                cut: Some("it saved no registers".into()),
            });
        }
        let general = cpu.registers.all();
        let control = cpu.control.into_iter();
        let control = control.flat_map(|values| CONTROL_REGISTERS.into_iter().zip(values));
        let stack = host.stack(cpu)?;
        let calls = stack.calls.into_iter().map(|call| Call {
            address: call.address,
            symbol: call.symbol,
            sure: call.sure,
        });
        Ok(Self {
            number: cpu.number,
            registers: general.chain(control).collect(),
            calls: calls.collect(),
            vcpu: stack.vcpu.map(|vcpu| Virtual {
                domain: vcpu.domain,
                number: vcpu.number,
                instruction: vcpu.registers.map(|registers| registers.get(Register::Rip)),
            }),
            cut: stack.cut,
        })
    }

    /// Adds its stack, and its registers if they are wanted.
    pub fn show(&self, with_registers: bool, page: &mut Page) {
        page.heading(&format!("CPU {}, in the hypervisor", self.number));
        if with_registers {
            let names: Vec<_> = REGISTER_NAMES
                .into_iter()
                .chain(CONTROL_REGISTERS)
                .collect();
            for names in names.chunks(IN_LINE) {
                let values = names.iter().filter_map(|name| {
                    let value = self.registers.get(name)?;
                    Some(format!("{name:>8} {value:016x}"))
                });
                let line = values.collect::<Vec<_>>().join(" ");
                if !line.is_empty() {
                    page.line("", &line);
                }
            }
        }
        for call in &self.calls {
            let address = || format!("{:#x}", call.address);
            let text = call.symbol.clone().unwrap_or_else(address);
            let mark = if call.sure { "" } else { "? " };
            page.line("", &format!("{mark}{text}"));
        }
        if let Some(Virtual {
            domain,
            number,
            instruction,
        }) = &self.vcpu
        {
            let place = instruction.map(|at| format!(", entered from {at:#x}"));
            let place = place.unwrap_or_default();
            page.line(
                "",
                &format!("(virtual CPU {number} of domain {domain}{place})"),
            );
        }
        if let Some(reason) = &self.cut {
            page.line("", &format!("(the trace ends here: {reason})"));
        }
    }
}
