//! Interrupts: what each line belongs to, and how often each CPU took it.
//!
//! Relies on the tree of descriptors (`irq_desc_tree`, since 6.5 `sparse_irqs`, commit
//! 721255b9826b), struct irq_desc, irq_data, irqaction (include/linux/irqdesc.h, irq.h,
//! interrupt.h), and on the per-CPU variables `kstat` (kernel/sched/core.c) and, on x86,
//! `irq_stat` (arch/x86/include/asm/hardirq.h).

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::cpus::online_cpus;
use crate::error::InspectError;
use crate::json::hexadecimal;
use crate::program::Program;

/// Maximum number of interrupts, of their actions, and of bytes of a name.
const MAX_INTERRUPTS: usize = 1 << 20;
const MAX_ACTIONS: usize = 64;
const MAX_NAME: usize = 256;
/// Size of a count.
const COUNT: u64 = 4;
/// Kinds of softirqs, in their order (enum of include/linux/interrupt.h).
pub(crate) const SOFT: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];
/// Interrupts of x86 CPUs that have no descriptor: the member of irq_cpustat_t, and the name in
/// /proc/interrupts (arch/x86/kernel/irq.c).
const OF_CPUS: [(&str, &str); 11] = [
    ("__nmi_count", "NMI"),
    ("apic_timer_irqs", "LOC"),
    ("irq_spurious_count", "SPU"),
    ("apic_perf_irqs", "PMI"),
    ("apic_irq_work_irqs", "IWI"),
    ("icr_read_retry_count", "RTR"),
    ("irq_resched_count", "RES"),
    ("irq_call_count", "CAL"),
    ("irq_tlb_count", "TLB"),
    ("irq_thermal_count", "TRM"),
    ("irq_threshold_count", "THR"),
];

/// The interrupts of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interrupts {
    /// Numbers of the CPUs whose counts are listed, in this order.
    pub cpus: Vec<usize>,
    /// The interrupts that have a descriptor, by number.
    pub lines: Vec<Line>,
    /// Interrupts of the CPUs themselves, by the names in /proc/interrupts; x86 only.
    pub of_cpus: Vec<Counts>,
    /// Softirqs.
    pub soft: Vec<Counts>,
    /// Facts that could not be read, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// An interrupt that has a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its number.
    pub number: u64,
    /// Its number for its controller.
    pub hardware_number: u64,
    /// Name of its controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// Its handlers, by the names of their devices; empty if nobody has requested it.
    pub actions: Vec<Action>,
    /// Times that each CPU took it.
    pub counts: Vec<u64>,
    /// Times that it was disabled more often than enabled: 0 if it is enabled.
    pub disabled: u64,
    /// Times that no handler was responsible for it, of the last 100,000.
    pub unhandled: u64,
    /// Its struct irq_desc.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
}

/// A handler of an interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    /// Name of its device or driver.
    pub name: String,
    /// Its function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
}

/// How often each CPU took an interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Its name.
    pub name: &'static str,
    /// Times that each CPU took it.
    pub counts: Vec<u64>,
}

impl Interrupts {
    /// Reads the interrupts of the online CPUs.
    ///
    /// # Errors
    ///
    /// The kernel lacks a symbol or a member.
    pub fn of(program: &Program) -> Result<Self, InspectError> {
        let mut gaps = Vec::new();
        let cpus = online_cpus(program, &mut gaps);
        let mut found = Self {
            cpus,
            ..Self::default()
        };
        let tree = match program.symbol("irq_desc_tree") {
            Ok(tree) => program.xarray(tree, MAX_INTERRUPTS)?,
            Err(_) => program.maple_tree(program.symbol("sparse_irqs")?, MAX_INTERRUPTS)?,
        };
        gaps.extend(tree.cut.map(|cut| format!("the interrupts: {cut}")));
        for at in tree.items {
            match found.line(program, at) {
                Ok(line) => found.lines.push(line),
                Err(error) => gaps.push(format!("the interrupt at {at}: {error}")),
            }
        }
        for (number, name) in (0..).zip(SOFT) {
            let counts = found.cpus.iter().map(|cpu| {
                let counts = program.per_cpu("kstat", *cpu)?;
                let counts = program.member(counts, "kernel_stat", "softirqs")?;
                program.number(program.plus(counts, COUNT * number)?, COUNT)
            });
            match counts.collect() {
                Ok(counts) => found.soft.push(Counts { name, counts }),
                Err(error) => gaps.push(format!("the softirqs {name}: {error}")),
            }
        }
        found.of_cpus = found.read_of_cpus(program);
        found.gaps = gaps;
        Ok(found)
    }

    fn line(&self, program: &Program, at: VirtAddr) -> Result<Line, InspectError> {
        let value = |path| program.value(at, "irq_desc", path);
        let pointer = |path| program.pointer(at, "irq_desc", path);
        let counts = pointer("kstat_irqs")?;
        let chip = pointer("irq_data.chip")?;
        let controller = match chip {
            VirtAddr(0) => None,
            chip => Some(program.pointer(chip, "irq_chip", "name")?),
        };
        // A count is an `unsigned int`, since 6.10 the first member of a struct irqstat (commit
        // 86d2a2f51fba).
        let count = |cpu: &usize| program.number(program.per_cpu_at(counts, *cpu)?, COUNT);
        Ok(Line {
            number: value("irq_data.irq")?,
            hardware_number: value("irq_data.hwirq")?,
            controller: controller
                .filter(|name| name.0 != 0)
                .map(|name| program.string(name, MAX_NAME))
                .transpose()?,
            actions: actions(program, pointer("action")?)?,
            counts: self.cpus.iter().map(count).collect::<Result<_, _>>()?,
            disabled: value("depth")?,
            unhandled: value("irqs_unhandled")?,
            address: at,
        })
    }

    /// The kinds that this kernel counts.
    fn read_of_cpus(&self, program: &Program) -> Vec<Counts> {
        let kinds = OF_CPUS.into_iter().filter_map(|(member, name)| {
            let counts = self.cpus.iter().map(|cpu| {
                let at = program.per_cpu("irq_stat", *cpu)?;
                program.value(at, "irq_cpustat_t", member)
            });
            let counts: Vec<u64> = counts.collect::<Result<_, InspectError>>().ok()?;
            Some(Counts { name, counts })
        });
        kinds.collect()
    }
}

/// The handlers in a chain of struct irqaction.
fn actions(program: &Program, first: VirtAddr) -> Result<Vec<Action>, InspectError> {
    let mut found = Vec::new();
    let mut at = first;
    while at.0 != 0 && found.len() < MAX_ACTIONS {
        let name = program.pointer(at, "irqaction", "name")?;
        let handler = program.pointer(at, "irqaction", "handler")?;
        found.push(Action {
            name: match name {
                VirtAddr(0) => String::new(),
                name => program.string(name, MAX_NAME)?,
            },
            handler: program.symbol_at(handler).map(|found| found.name()),
        });
        at = program.pointer(at, "irqaction", "next")?;
    }
    Ok(found)
}
