//! The system in lines: what machine it is, how it was started, and how long it ran.
//!
//! Relies on `saved_command_line` (init/main.c), `dmi_ident` and enum dmi_field (drivers/firmware),
//! `x86_hyper_type` (arch/x86/kernel/cpu/hypervisor.c), `tainted_mask` (kernel/panic.c), `avenrun`
//! (kernel/sched/loadavg.c), and on the clocks of the run queues.

use bigiron_format::VirtAddr;
use bigiron_kernel::printk::Log;
use bigiron_kernel::types::{Named, TypeTable};
use serde::Serialize;

use crate::error::InspectError;
use crate::jiffies::Jiffies;
use crate::modules::taint_letters;
use crate::program::Program;
use crate::sysctls::{self, Sysctl};

/// Maximum length of a command line (COMMAND_LINE_SIZE is 4096 at most), and of a text of DMI.
const MAX_COMMAND_LINE: usize = 8192;
const MAX_DMI: usize = 256;
/// FSHIFT: load averages have 11 bits behind the point.
const LOAD_ONE: f64 = 2048.0;
const LOADS: u64 = 3;
/// Fields of DMI: the kernel's name, and ours.
const DMI_FIELDS: [(&str, &str); 7] = [
    ("DMI_SYS_VENDOR", "vendor"),
    ("DMI_PRODUCT_NAME", "product"),
    ("DMI_PRODUCT_VERSION", "version"),
    ("DMI_BOARD_NAME", "board"),
    ("DMI_BIOS_VENDOR", "firmware vendor"),
    ("DMI_BIOS_VERSION", "firmware version"),
    ("DMI_BIOS_DATE", "firmware date"),
];

/// Facts about a system. What the kernel does not have is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct System {
    /// The machine, as its firmware calls it: names of fields, and their texts.
    pub machine: Vec<(&'static str, String)>,
    /// The hypervisor that the kernel runs on: `kvm`; `native` without one. x86 only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// The kernel command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// The kernel's taint letters; empty if it is not tainted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<String>,
    /// The modules that taint it, with their letters.
    pub tainting_modules: Vec<(String, String)>,
    /// Settings that are not as the kernel starts with.
    pub sysctls: Vec<Sysctl>,
    /// Nanoseconds since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uptime_nsec: Option<u64>,
    /// Load averages of 1, 5 and 15 minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<[f64; LOADS as usize]>,
    /// Nanoseconds from the last message of the log to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_last_message_nsec: Option<u64>,
    /// Facts that could not be read, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl System {
    /// Reads the facts.
    pub fn of(program: &Program) -> Self {
        let mut missing = Vec::new();
        let clock = kept("uptime", Jiffies::of(program), &mut missing).map(|found| found.clock);
        let taints = kept("taints", program.variable("tainted_mask", 8), &mut missing);
        let modules = program.modules().list.iter();
        let tainting = modules.filter(|module| !module.taints.is_empty());
        Self {
            machine: kept("machine", machine(program), &mut missing).unwrap_or_default(),
            // Other architectures have no such variable.
            hypervisor: hypervisor(program).ok().flatten(),
            command_line: kept("command line", command_line(program), &mut missing),
            taints: taints.map(taint_letters),
            tainting_modules: tainting
                .map(|module| (module.name.clone(), module.taints.clone()))
                .collect(),
            sysctls: sysctls::changed(program),
            uptime_nsec: clock,
            load: kept("load", load(program), &mut missing),
            since_last_message_nsec: clock
                .zip(last_message(program))
                .map(|(clock, message)| clock.saturating_sub(message)),
            missing,
        }
    }
}

fn kept<T>(what: &str, found: Result<T, InspectError>, missing: &mut Vec<String>) -> Option<T> {
    found
        .map_err(|error| missing.push(format!("{what}: {error}")))
        .ok()
}

fn command_line(program: &Program) -> Result<String, InspectError> {
    let at = VirtAddr(program.variable("saved_command_line", 8)?);
    Ok(program.string(at, MAX_COMMAND_LINE)?.trim().to_owned())
}

fn machine(program: &Program) -> Result<Vec<(&'static str, String)>, InspectError> {
    let table = program.symbol("dmi_ident")?;
    let mut found = Vec::new();
    for (field, name) in DMI_FIELDS {
        let Some(index) = program.enumerator(field)? else {
            continue;
        };
        let offset = 8_u64.saturating_mul(index.unsigned_abs());
        let text = program.number(program.plus(table, offset)?, 8)?;
        if text != 0 {
            found.push((name, program.string(VirtAddr(text), MAX_DMI)?));
        }
    }
    Ok(found)
}

fn hypervisor(program: &Program) -> Result<Option<String>, InspectError> {
    let kind = program.variable("x86_hyper_type", 4)?;
    let types = program.types();
    let Some(id) = types.find(Named::Enumeration, "x86_hypervisor_type")? else {
        return Ok(None);
    };
    let names = types.enumerators(id)?;
    let name = names.iter().find(|(_, value)| value.unsigned_abs() == kind);
    Ok(name.map(|(name, _)| name.trim_start_matches("X86_HYPER_").to_ascii_lowercase()))
}

fn load(program: &Program) -> Result<[f64; LOADS as usize], InspectError> {
    let table = program.symbol("avenrun")?;
    let mut found = [0.0; LOADS as usize];
    for (index, load) in (0..).zip(&mut found) {
        let at = program.plus(table, 8 * index)?;
        *load = program.number(at, 8)? as f64 / LOAD_ONE;
    }
    Ok(found)
}

fn last_message(program: &Program) -> Option<u64> {
    let log = Log::open(program.kernel()).ok()?;
    let mut last = None;
    let read = log.for_each(false, &mut |record| {
        last = record.ts_nsec.or(last);
        Ok(())
    });
    read.ok().and(last)
}
