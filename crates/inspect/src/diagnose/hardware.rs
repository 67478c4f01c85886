//! Finding: errors that the hardware reported: machine checks of the processor, EDAC, the
//! firmware (GHES), PCI Express (AER).
//!
//! Relies on the log: __print_mce and mce_panic (arch/x86/kernel/cpu/mce/core.c),
//! edac_raw_mc_handle_error (drivers/edac/edac_mc.c), cper_estatus_print
//! (drivers/firmware/efi/cper.c), and aer_print_error (drivers/pci/pcie/aer.c).

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::log::Line;
use super::machine_check::Status;
use crate::error::InspectError;

/// Kind.
pub const KIND: &str = "hardware";
/// Before each line of a machine check and of the firmware's reports.
const MARK: &str = "[Hardware Error]: ";
/// Before the errors that stopped the kernel before this one.
const EARLIER: &str = "BERT: Error records from previous boot";
/// Records and lines shown.
const SHOWN: usize = 6;
/// Words of a panic that hardware causes.
const PANICS: [&str; 5] = [
    "machine check",
    "hardware error",
    "hardware memory error",
    "Uncorrected memory error",
    "NMI: Not continuing",
];
/// The firmware's report of the last crash is logged at once.
const SAME_REPORT_NSEC: u64 = 100_000_000;

/// How bad an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Corrected,
    Uncorrected,
}

/// A machine check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MachineCheck {
    cpu: usize,
    bank: u64,
    status: Status,
    /// What the record says more, as logged: `RIP …`, `TSC … ADDR …`.
    more: Vec<String>,
}

/// The finding.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let log = evidence.log();
    let checks = machine_checks(log.lines());
    let others = others(log.lines());
    let panic = log.crash.panic.as_ref().map(|panic| panic.message.as_str());
    let is_known = |message: &&str| {
        let lower = message.to_ascii_lowercase();
        PANICS
            .iter()
            .any(|known| lower.contains(&known.to_ascii_lowercase()))
    };
    let panicked = panic.filter(is_known);
    let worst = checks.iter().map(MachineCheck::severity);
    let worst = worst.chain(others.iter().map(|(severity, _)| *severity));
    let Some(worst) = worst.max().or(panicked.map(|_| Severity::Uncorrected)) else {
        return Ok(Vec::new());
    };
    let weight = match (panicked, worst) {
        (Some(_), _) => 97,
        (None, Severity::Uncorrected) => 55,
        (None, Severity::Corrected) => 30,
    };
    let first = checks.iter().find(|check| check.severity() == worst);
    let title = match (
        first,
        others.iter().find(|(severity, _)| *severity == worst),
    ) {
        (Some(check), _) => format!("the hardware failed: {check}"),
        (None, Some((_, line))) => format!("the hardware reported errors: {line}"),
        (None, None) => format!("the hardware failed: {}", panic.unwrap_or("")),
    };
    let mut finding = Finding::new(KIND, weight, Sure::Certain, title);
    if let Some(message) = panicked {
        finding = finding.because(format!("the kernel panicked for it: {message}"));
    }
    for check in checks.iter().take(SHOWN) {
        finding = finding.because(format!(
            "{check}: IA32_MC{}_STATUS {:#x}",
            check.bank, check.status.0
        ));
        for more in &check.more {
            finding = finding.because(format!("CPU {}: {more}", check.cpu));
        }
        finding = finding.cpu(check.cpu);
    }
    for (_, line) in others.iter().take(SHOWN) {
        finding = finding.because(format!("the log: {line}"));
    }
    let left = (checks.len().saturating_sub(SHOWN)) + others.len().saturating_sub(SHOWN);
    if left > 0 {
        finding = finding.because(format!("and {left} more"));
    }
    let last = log.last_time(is_about_hardware);
    if let (None, Some(last), Some(end)) = (panicked, last, log.end()) {
        let before = seconds(end.saturating_sub(last));
        finding = finding.because(format!("the last of it was {before} before the end"));
    }
    Ok(vec![finding.more("bigiron dmesg DUMP")])
}

impl MachineCheck {
    fn severity(&self) -> Severity {
        match self.status.is_uncorrected() {
            true => Severity::Uncorrected,
            false => Severity::Corrected,
        }
    }

    /// Reads `CPU 1: Machine Check Exception: 5 Bank 1: be00000000000134`.
    fn of(line: &str) -> Option<Self> {
        let (cpu, rest) = line.strip_prefix("CPU ")?.split_once(": Machine Check")?;
        let (_, rest) = rest.split_once(" Bank ")?;
        let (bank, status) = rest.split_once(": ")?;
        Some(Self {
            cpu: cpu.parse().ok()?,
            bank: bank.parse().ok()?,
            status: Status(u64::from_str_radix(status.trim(), 16).ok()?),
            more: Vec::new(),
        })
    }
}

/// Formats as `CPU 1, bank 1, a cache error: a read of data (data, level 0); uncorrected, …`.
impl std::fmt::Display for MachineCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (error, flags) = (self.status.error(), self.status.flags());
        write!(f, "CPU {}, bank {}: {error}; {flags}", self.cpu, self.bank)
    }
}

/// The machine checks in a log. The lines of one follow its first.
fn machine_checks<'l>(lines: impl Iterator<Item = &'l Line>) -> Vec<MachineCheck> {
    let mut found: Vec<MachineCheck> = Vec::new();
    for line in lines {
        let Some((_, text)) = line.text.split_once(MARK) else {
            continue;
        };
        if let Some(check) = MachineCheck::of(text) {
            found.push(check);
        } else if let Some(check) = found.last_mut()
            && (text.starts_with("RIP ") || text.contains("ADDR "))
            && check.more.len() < 2
        {
            check.more.push(text.trim_end().to_owned());
        }
    }
    found
}

/// The errors that others report, with their lines, the worst ones first.
fn others<'l>(lines: impl Iterator<Item = &'l Line>) -> Vec<(Severity, &'l str)> {
    let mut found = Vec::new();
    let mut earlier: Option<u64> = None;
    for line in lines {
        let time = line.ts_nsec.unwrap_or(0);
        if line.text.starts_with(EARLIER) {
            earlier = Some(time);
        }
        let is_earlier = earlier.is_some_and(|at| time.saturating_sub(at) < SAME_REPORT_NSEC);
        if let Some(severity) = severity(&line.text).filter(|_| !is_earlier) {
            found.push((severity, line.text.as_str()));
        }
    }
    found.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
    found
}

/// How bad the error is that a line reports; `None` for another line.
fn severity(line: &str) -> Option<Severity> {
    // EDAC MC0: 1 UE memory read error on …
    if let Some(rest) = line.strip_prefix("EDAC ") {
        let (_, rest) = rest.split_once(": ")?;
        return match rest.split(' ').nth(1)? {
            "UE" => Some(Severity::Uncorrected),
            "CE" => Some(Severity::Corrected),
            _ => None,
        };
    }
    // {1}[Hardware Error]: event severity: fatal
    let firmware = line.split_once(MARK);
    if let Some(word) = firmware.and_then(|(_, text)| text.strip_prefix("event severity: ")) {
        return match word.trim() {
            "fatal" | "recoverable" => Some(Severity::Uncorrected),
            "corrected" => Some(Severity::Corrected),
            _ => None,
        };
    }
    // pcieport 0000:00:1c.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=…
    let (_, rest) = line.split_once("PCIe Bus Error: severity=")?;
    match rest.starts_with("Corrected") {
        true => Some(Severity::Corrected),
        false => Some(Severity::Uncorrected),
    }
}

fn is_about_hardware(line: &str) -> bool {
    let check = line.split_once(MARK);
    check.is_some_and(|(_, text)| MachineCheck::of(text).is_some()) || severity(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<Line> {
        let line = |text: &&str| Line {
            ts_nsec: Some(1),
            text: (*text).to_owned(),
        };
        texts.iter().map(line).collect()
    }

    #[test]
    fn machine_checks_are_read_with_their_lines() {
        let log = lines(&[
            "mce: [Hardware Error]: Machine check events logged",
            "mce: [Hardware Error]: CPU 1: Machine Check Exception: 5 Bank 1: be00000000000134",
            "mce: [Hardware Error]: RIP !INEXACT! 10:<ffffffffb6493f8f> {default_idle+0xf/0x20}",
            "mce: [Hardware Error]: TSC 38de51744 ADDR 123000 MISC 8c ",
            "mce: [Hardware Error]: PROCESSOR 2:60fb1 TIME 1795643938 SOCKET 0 APIC 1 microcode 0",
            "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 8: 8c00004000010090",
        ]);
        let found = machine_checks(log.iter());
        let [first, second] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((first.cpu, first.bank), (1, 1));
        assert_eq!(first.severity(), Severity::Uncorrected);
        assert_eq!(first.more.len(), 2);
        assert_eq!((second.cpu, second.bank), (0, 8));
        assert_eq!(second.severity(), Severity::Corrected);
    }

    #[test]
    fn reports_of_others_are_known_and_those_of_the_last_boot_are_not() {
        let log = lines(&[
            "EDAC MC: Ver: 3.0.0",
            "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)",
            "EDAC MC1: 2 UE memory scrubbing error on unknown memory",
            "{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0",
            "{1}[Hardware Error]: event severity: fatal",
            "pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Physical Layer",
            "pcieport 0000:00:1d.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction",
            "BERT: Error records from previous boot:",
            "[Hardware Error]: event severity: fatal",
        ]);
        let found = others(log.iter());
        let severities: Vec<Severity> = found.iter().map(|(severity, _)| *severity).collect();
        let expected = [
            [Severity::Uncorrected; 3].as_slice(),
            &[Severity::Corrected; 2],
        ]
        .concat();
        assert_eq!(severities, expected);
    }
}
