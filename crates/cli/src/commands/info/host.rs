//! The overview of a Xen host: the hypervisor, why it stopped, its CPUs and domains, and memory by
//! owner.

use bigiron_format::bitmap::Bitmap;
use bigiron_inspect::{Stop, StopKind};
use bigiron_kernel::xen::{Census, Host, Owner};
use bigiron_kernel::{SECTION_FRAMES, Source};
use serde::Serialize;

use super::host_cpus::CpuState;
use super::host_dom0::Dom0;
use super::host_domains::DomainOverview;
use super::page::Page;
use crate::size;

/// What is known about a host.
#[derive(Serialize)]
pub struct HostOverview {
    dump: Dump,
    xen: Xen,
    /// Why it stopped, by its console.
    stopped: Option<Stop>,
    dom0: Dom0,
    cpus: Vec<CpuState>,
    memory: Memory,
    /// Warnings for people.
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Dump {
    format: String,
    codecs: Vec<&'static str>,
    dump_level: u8,
    complete: bool,
    damage: Option<String>,
}

#[derive(Serialize)]
struct Xen {
    version: String,
    changeset: String,
    compiler: String,
    compile_date: String,
    /// The command line that it was started with, if it is found.
    command_line: Option<String>,
    /// Flags of what makes the hypervisor unreliable.
    tainted: u64,
    cpus: usize,
    /// False if dom0's memory is not described by a table of frames, as that of a PVH dom0.
    dom0_has_frame_table: bool,
    domains: Vec<DomainOverview>,
}

#[derive(Serialize)]
struct Memory {
    page_size: u64,
    /// Page frames of RAM.
    pages: u64,
    /// Page frames that the dump has.
    pages_in_dump: u64,
    owners: Vec<Share>,
    /// Free page frames by the hypervisor's own count, if it is found.
    free_by_hypervisor: Option<u64>,
}

/// Memory of one owner.
#[derive(Serialize)]
struct Share {
    owner: String,
    pages: u64,
}

impl HostOverview {
    /// Collects what the dump says about the host, whose dom0 is known already.
    pub fn of(source: &Source, host: &Host, dom0: Dom0) -> anyhow::Result<Self> {
        let memory = source.memory();
        let crash = host.crash_info();
        let census = host.census()?;
        let mut present = Bitmap::new(SECTION_FRAMES as usize);
        let mut pages_in_dump = 0;
        for first in memory.sections() {
            memory.present(first, &mut present)?;
            pages_in_dump += present.count();
        }
        let damage = source.damage().map(ToOwned::to_owned);
        let mut warnings = warnings(&census);
        let console = host.console();
        if let Err(error) = &console {
            warnings.push(format!("why it stopped is not known: {error}"));
        }
        Ok(Self {
            dump: Dump {
                format: source.kind(),
                codecs: memory.codecs(),
                dump_level: memory.dump_level(),
                complete: damage.is_none(),
                damage,
            },
            xen: Xen {
                version: format!("{}{}", host.version(), host.text(crash.extra_version)),
                changeset: host.text(crash.changeset),
                compiler: host.text(crash.compiler),
                compile_date: host.text(crash.compile_date),
                command_line: host.command_line()?,
                tainted: crash.tainted,
                cpus: memory.notes().cpu_count(),
                dom0_has_frame_table: crash.dom0_frame_lists.is_some(),
                domains: DomainOverview::all(host, &census)?,
            },
            stopped: console.ok().and_then(|console| Stop::find(&console)),
            dom0,
            cpus: CpuState::all(host)?,
            memory: Memory {
                page_size: 1 << memory.page_shift(),
                pages: census.owners.iter().map(|(_, pages)| pages).sum(),
                pages_in_dump,
                owners: shares(&census),
                free_by_hypervisor: host.free_pages()?,
            },
            warnings,
        })
    }

    /// The overview as JSON.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Warnings for people.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The overview as text, with the registers and stacks of all CPUs if `backtrace` is true.
    pub fn text(&self, backtrace: bool) -> String {
        let mut page = Page(String::new());
        let Self {
            dump, xen, memory, ..
        } = self;
        let codecs = match dump.codecs.as_slice() {
            [] => "not compressed".to_owned(),
            codecs => codecs.join(" and "),
        };
        let state = if dump.complete {
            "complete"
        } else {
            "INCOMPLETE"
        };
        page.line(
            "dump",
            &format!(
                "{}, {codecs}, dump level {}, {state}",
                dump.format, dump.dump_level
            ),
        );
        page.optional("", dump.damage.as_deref());
        page.line("Xen host", &format!("Xen {}", xen.version));
        if !xen.changeset.is_empty() {
            page.line("changeset", &xen.changeset);
        }
        page.line("built", &format!("{}, {}", xen.compile_date, xen.compiler));
        page.optional("options", xen.command_line.as_deref());
        if xen.tainted != 0 {
            page.line("tainted", &format!("{:#x}", xen.tainted));
        }
        match &self.stopped {
            Some(stop) => page.line("stopped", &reason(stop)),
            None => page.line("stopped", "not known: its console does not tell"),
        }
        self.dom0.show(&mut page);
        page.line("CPUs", &xen.cpus.to_string());
        if !xen.dom0_has_frame_table {
            page.line("", "dom0 has no table of its page frames (PVH)");
        }
        let bytes = |pages: u64| size::format(pages.saturating_mul(memory.page_size));
        page.line(
            "memory",
            &format!(
                "{}, of which {} are in the dump",
                bytes(memory.pages),
                bytes(memory.pages_in_dump)
            ),
        );
        DomainOverview::show(&xen.domains, memory.page_size, &mut page);
        let rows: Vec<_> = memory
            .owners
            .iter()
            .map(|share| {
                let pages = size::group(share.pages).to_string();
                vec![share.owner.clone(), pages, bytes(share.pages)]
            })
            .collect();
        page.table(
            "Memory by owner",
            &["owner", "pages", "size"],
            &[1, 2],
            &rows,
        );
        if let Some(count) = memory.free_by_hypervisor {
            page.heading(&format!(
                "The hypervisor itself counted {} free pages.",
                size::group(count)
            ));
        }
        let stopped = self.stopped.as_ref().and_then(|stop| stop.cpu);
        for cpu in &self.cpus {
            if backtrace || Some(cpu.number) == stopped.map(|cpu| cpu as usize) {
                cpu.show(backtrace, &mut page);
            }
        }
        page.0
    }
}

/// Formats `on CPU 1, panic: FATAL PAGE FAULT [error_code=0003]`.
fn reason(stop: &Stop) -> String {
    let place = stop.cpu.map(|cpu| format!("on CPU {cpu}, "));
    let kind = match stop.kind {
        StopKind::Panic => "panic",
        StopKind::Dom0 => "dom0",
        StopKind::Watchdog => "watchdog of dom0",
        StopKind::Request => "request",
    };
    format!("{}{kind}: {}", place.unwrap_or_default(), stop.message)
}

fn shares(census: &Census) -> Vec<Share> {
    let shares = census.owners.iter().map(|(owner, pages)| Share {
        owner: owner.to_string(),
        pages: *pages,
    });
    shares.collect()
}

fn warnings(census: &Census) -> Vec<String> {
    let mut warnings = Vec::new();
    if census.unreadable > 0 {
        warnings.push(format!(
            "{} entries of the hypervisor's frame table cannot be read; the owners of their page \
             frames are unknown",
            census.unreadable
        ));
    }
    let broken = census.of(Owner::Broken);
    if broken > 0 {
        warnings.push(format!("{broken} page frames are broken memory"));
    }
    warnings
}
