//! What a log says of the machine and the kernel, whether it tells of a crash or not.
//!
//! | fact | line | printed by |
//! |---|---|---|
//! | release, version | `Linux version 6.1.0 (…) #1 SMP …` | init/main.c |
//! | machine | `DMI: …`, `Machine model: …`, `Hardware name: …` | dmi_scan.c, of/fdt.c, lib/dump_stack.c |
//! | release, taint | `CPU: 1 PID: 87 Comm: sh Tainted: G W 6.1.0 #1` | lib/dump_stack.c |
//! | modules | `Modules linked in: a(O) b [last unloaded: c]` | kernel/module/main.c |

mod line;

use std::io::{self, BufRead};

use bigiron_kernel::printk::Record;
use serde::Serialize;

use crate::signature::{Search, Signature, for_each_line, writer_of};

/// Maximum length of a fact, and maximum number of modules: a log may be hostile.
const MAX_FACT: usize = 512;
const MAX_MODULES: usize = 1024;
/// Lines of the report that are kept.
const FIRST_LINES: usize = 12;

/// Facts that a log states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogFacts {
    /// As `uname -r`.
    pub release: Option<String>,
    /// As `uname -v`.
    pub version: Option<String>,
    /// Vendor and product of the machine, as DMI or the device tree name it.
    pub machine: Option<String>,
    /// The kernel's taint letters, sorted; empty if it was not tainted.
    pub tainted: Option<String>,
    /// Modules that the report lists, sorted.
    pub modules: Vec<String>,
    /// The host, as a syslog or journald names it.
    pub host: Option<String>,
    /// Seconds from boot to the report; without one, to the last line with a time.
    pub uptime: Option<u64>,
    /// The first lines of the report.
    pub first_lines: Vec<String>,
}

/// Searches a log for its report and for facts. A log with several boots counts from the last
/// one before the report.
#[derive(Debug, Default)]
pub struct LogReader {
    search: Search,
    facts: LogFacts,
    has_report: bool,
    /// True while lines go on with the list of modules, which printk breaks.
    in_modules: bool,
}

impl LogReader {
    /// Reads a text log of any size. Memory does not grow with it.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn read_text(text: &mut dyn BufRead) -> io::Result<(Option<Signature>, LogFacts)> {
        let mut reader = Self::default();
        for_each_line(text, &mut |line| reader.text_line(line))?;
        let signature = reader.search.signature(&[]);
        Ok((signature, reader.into_facts()))
    }

    /// Reads a record of the kernel's log.
    pub fn record(&mut self, record: &Record<'_>) {
        self.search.record(record);
        let time = record.ts_nsec.map(|time| time / 1_000_000_000);
        for line in String::from_utf8_lossy(record.text.bytes()).lines() {
            self.line(line, time);
        }
    }

    /// The search for the report.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Ends the reading.
    pub fn into_facts(self) -> LogFacts {
        let Self {
            search, mut facts, ..
        } = self;
        let lines = search.first_lines(FIRST_LINES);
        facts.first_lines = lines.map(shortened).collect();
        facts.uptime = search.time().or(facts.uptime);
        facts.modules.sort_unstable();
        facts.modules.dedup();
        facts
    }

    fn text_line(&mut self, text: &str) {
        self.search.text_line(text);
        let Some((host, time, line)) = writer_of(text) else {
            return;
        };
        if self.facts.host.is_none() {
            self.facts.host = host.map(shortened);
        }
        self.line(line, time);
    }

    fn line(&mut self, text: &str, time: Option<u64>) {
        let facts = &mut self.facts;
        if !self.has_report {
            self.has_report = self.search.first_line().is_some();
            facts.uptime = time.or(facts.uptime);
            if let Some((release, version)) = line::booted(text) {
                let host = facts.host.take();
                *facts = LogFacts {
                    release: Some(shortened(release)),
                    version: version.map(shortened),
                    host,
                    uptime: time,
                    ..LogFacts::default()
                };
            }
        }
        if facts.machine.is_none() {
            facts.machine = line::machine(text).map(shortened);
        }
        if facts.tainted.is_none()
            && let Some((letters, release)) = line::tainted(text)
        {
            facts.tainted = Some(letters);
            if facts.release.is_none() {
                facts.release = release.map(shortened);
            }
        }
        if let Some(list) = line::modules(text) {
            self.in_modules = facts.modules.is_empty();
            if self.in_modules {
                self.add_modules(list);
            }
        } else if self.in_modules {
            self.in_modules = line::goes_on_with_modules(text);
            if self.in_modules {
                self.add_modules(text);
            }
        }
    }

    fn add_modules(&mut self, list: &str) {
        let room = MAX_MODULES.saturating_sub(self.facts.modules.len());
        let names = line::module_names(list).take(room);
        self.facts.modules.extend(names.map(shortened));
        self.in_modules &= !list.contains('[');
    }
}

/// Returns the text, of limited length.
fn shortened(text: &str) -> String {
    let end = text.char_indices().map(|(at, _)| at).nth(MAX_FACT);
    text[..end.unwrap_or(text.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str) -> LogFacts {
        LogReader::read_text(&mut text.as_bytes()).unwrap().1
    }

    const REPORT: &str = "\
[   81.000000] BUG: kernel NULL pointer dereference, address: 0000000000000008
[   81.000001] CPU: 1 PID: 87 Comm: sh Kdump: loaded Tainted: G        W  O       6.1.0-13-amd64 #1  Debian 6.1.55-1
[   81.000002] Hardware name: Dell Inc. PowerEdge R640/0W23H8, BIOS 2.4.7 01/13/2020
[   81.000003] RIP: 0010:write_it+0x1/0x2 [faulty]
[   81.000004] Call Trace:
[   81.000005]  caller+0x1/0x2
[   81.000006] Modules linked in: faulty(O) nfs
[   81.000007] sunrpc xfs [last unloaded: gone]
[   81.000008] CR2: 0000000000000008
[   99.000000] the end
";

    #[test]
    fn report_states_kernel_machine_taint_and_modules() {
        let found = facts(REPORT);
        assert_eq!(found.release.as_deref(), Some("6.1.0-13-amd64"));
        assert_eq!(found.tainted.as_deref(), Some("GOW"));
        assert_eq!(
            found.machine.as_deref(),
            Some("Dell Inc. PowerEdge R640/0W23H8")
        );
        assert_eq!(found.modules, ["faulty", "nfs", "sunrpc", "xfs"]);
        assert_eq!(found.uptime, Some(81));
        assert!(found.first_lines[0].starts_with("BUG: kernel NULL"));
    }

    #[test]
    fn last_boot_before_the_report_counts() {
        let boots = "\
[    0.000000] Linux version 5.10.0-1 (a@b) (gcc) #1 SMP old
[    0.000000] DMI: Old Machine, BIOS 1
[    9.000000] Modules linked in: old
[    0.000000] Linux version 6.1.0-13-amd64 (a@b) (gcc (Debian) 12) #1 SMP new
[    0.000000] DMI: New Machine, BIOS 1
";
        let next = "[    0.000000] Linux version 7.0 (a@b) #1 SMP next\n";
        let found = facts(&format!("{boots}{REPORT}{next}"));
        assert_eq!(found.release.as_deref(), Some("6.1.0-13-amd64"));
        assert_eq!(found.version.as_deref(), Some("#1 SMP new"));
        assert_eq!(found.machine.as_deref(), Some("New Machine"));
        assert_eq!(found.modules, ["faulty", "nfs", "sunrpc", "xfs"]);
    }

    #[test]
    fn syslog_names_the_host() {
        let found = facts("Nov 24 16:33:32 node17 kernel: [   12.345678] eth0: up\n");
        assert_eq!(found.host.as_deref(), Some("node17"));
        assert_eq!(found.uptime, Some(12));
        assert!(found.first_lines.is_empty());
        let found = facts("[   12.345678] node18 kernel: eth0: up\n");
        assert_eq!(found.host.as_deref(), Some("node18"));
    }
}
