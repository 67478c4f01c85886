//! `bigiron info`: the overview of a dump, and what crash a log tells of.

mod backtrace;
mod host;
mod host_cpus;
mod host_dom0;
mod host_domains;
mod interrupts;
mod log;
mod memory;
mod modules;
mod mounts;
mod network;
mod overview;
pub mod page;
mod requests;
mod run_queues;
mod symbols_for;
mod system;
mod tasks;
mod topic;
mod user;
mod waits;
mod work_queues;

use std::path::PathBuf;

use bigiron_helpers::Stop;
use bigiron_inspect::{Overview, Program};
#[cfg(feature = "mount")]
use bigiron_kernel::Source;
use bigiron_kernel::xen::Host;
use bigiron_kernel::{Kernel, note_warnings};
use clap::Args;

use host::HostOverview;
use host_dom0::Dom0;
use symbols_for::Tool;
use topic::Topic;

use crate::arguments::SourceArguments;
use crate::debug_info::DebugInfoArguments;
use crate::sandbox::Needs;
use crate::source::{Opened, Reading};
use crate::tell::{print, tell};

/// `bigiron info`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct InfoArguments {
    /// The dump, in any format; all parts of a split or striped one, or - for standard input
    #[arg(required_unless_present = "log")]
    dump: Vec<PathBuf>,
    /// Name the crash that this text log tells of, or standard input for -: of a serial console,
    /// netconsole, pstore, dmesg or syslog
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dump", "TopicArguments"])]
    log: Option<PathBuf>,
    /// Topics besides the overview.
    #[command(flatten)]
    sections: TopicArguments,
    /// Print the commands that open the dump in this program, with the debug information that is found
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["log", "TopicArguments", "json"])]
    symbols_for: Option<Tool>,
    /// Where debug information comes from.
    #[command(flatten)]
    debug_info: DebugInfoArguments,
    /// Print JSON, with the whole call trace and the notes
    #[arg(long)]
    json: bool,
    /// Options for reading the source.
    #[command(flatten)]
    source: SourceArguments,
}

/// Topics besides the overview; the time that each takes depends on its size.
#[derive(Clone, Copy, Debug, Args)]
struct TopicArguments {
    /// Show all of the following
    #[arg(long)]
    all: bool,
    /// Show the system: its machine and hypervisor, command line, taint, changed sysctls, uptime
    /// and load
    #[arg(long)]
    sys: bool,
    /// Show all tasks: state, CPU, memory, name
    #[arg(long)]
    tasks: bool,
    /// Show the current and waiting tasks of each CPU
    #[arg(long)]
    run_queues: bool,
    /// Show the call stack of each CPU, the panicking one first; of a Xen host, the registers too
    #[arg(long)]
    backtrace: bool,
    /// Show the call stack of each task
    #[arg(long)]
    stacks: bool,
    /// Show the blocked tasks: what each waits for, who has it, and since when
    #[arg(long)]
    waits: bool,
    /// Show block devices, and the requests that they have not answered
    #[arg(long)]
    requests: bool,
    /// Show work queues: what their workers execute, since when, and the items that wait
    #[arg(long)]
    workqueues: bool,
    /// Show mounts: device, directory, type, options; frozen or shut down file systems
    #[arg(long)]
    mounts: bool,
    /// Show interrupts and softirqs: what they belong to, and how often each CPU took them
    #[arg(long)]
    irq: bool,
    /// Show network devices: state, driver, transmissions that did not end in time
    #[arg(long)]
    network: bool,
    /// Show memory use by owner: the kernel's counters, slab caches, processes
    #[arg(long)]
    memory: bool,
    /// Show memory use by page, and files by page cache
    #[arg(long)]
    pages: bool,
    /// Show all modules: their memory, and their users
    #[arg(long)]
    modules: bool,
    /// Show a process: its mappings, and the user registers and stacks of its threads; not among --all
    #[arg(long, value_name = "PID")]
    user: Option<i32>,
}

impl TopicArguments {
    /// Returns true if a topic is requested.
    fn any(self) -> bool {
        self.all || self.user.is_some() || TABLE.iter().any(|known| (known.is_wanted)(&self))
    }

    /// Finds the requested topics. The kernel's symbols are not read if there are none.
    fn find(self, kernel: &Kernel) -> anyhow::Result<Vec<Topic>> {
        let is_wanted = |known: &&TopicEntry| self.all || (known.is_wanted)(&self);
        let wanted: Vec<&TopicEntry> = TABLE.iter().filter(is_wanted).collect();
        if !self.any() {
            return Ok(Vec::new());
        }
        match Program::open(kernel) {
            Ok(program) => {
                let found = wanted.iter().map(|known| (known.find)(&program.renewed()));
                let user = self.user.map(|pid| user::find(&program.renewed(), pid));
                found.chain(user).collect()
            }
            Err(error) => {
                let reason = error.to_string();
                let names = wanted.iter().map(|known| known.name);
                let names = names.chain(self.user.map(|_| user::NAME));
                Ok(names.map(|name| Topic::unknown(name, &reason)).collect())
            }
        }
    }
}

/// A topic.
struct TopicEntry {
    /// JSON name.
    name: &'static str,
    /// Returns true if the topic was requested.
    is_wanted: fn(&TopicArguments) -> bool,
    /// Collects the data of the topic.
    find: fn(&Program) -> anyhow::Result<Topic>,
}

/// All topics, in order of output.
const TABLE: &[TopicEntry] = &[
    TopicEntry {
        name: system::NAME,
        is_wanted: |wanted| wanted.sys,
        find: system::find,
    },
    TopicEntry {
        name: tasks::NAME,
        is_wanted: |wanted| wanted.tasks,
        find: tasks::find,
    },
    TopicEntry {
        name: run_queues::NAME,
        is_wanted: |wanted| wanted.run_queues,
        find: run_queues::find,
    },
    TopicEntry {
        name: backtrace::BACKTRACE,
        is_wanted: |wanted| wanted.backtrace,
        find: backtrace::find,
    },
    TopicEntry {
        name: backtrace::STACKS,
        is_wanted: |wanted| wanted.stacks,
        find: backtrace::find_all,
    },
    TopicEntry {
        name: waits::NAME,
        is_wanted: |wanted| wanted.waits,
        find: waits::find,
    },
    TopicEntry {
        name: requests::NAME,
        is_wanted: |wanted| wanted.requests,
        find: requests::find,
    },
    TopicEntry {
        name: work_queues::NAME,
        is_wanted: |wanted| wanted.workqueues,
        find: work_queues::find,
    },
    TopicEntry {
        name: mounts::NAME,
        is_wanted: |wanted| wanted.mounts,
        find: mounts::find,
    },
    TopicEntry {
        name: interrupts::NAME,
        is_wanted: |wanted| wanted.irq,
        find: interrupts::find,
    },
    TopicEntry {
        name: network::NAME,
        is_wanted: |wanted| wanted.network,
        find: network::find,
    },
    TopicEntry {
        name: memory::MEMORY,
        is_wanted: |wanted| wanted.memory,
        find: memory::find,
    },
    TopicEntry {
        name: memory::PAGES,
        is_wanted: |wanted| wanted.pages,
        find: memory::find_pages,
    },
    TopicEntry {
        name: modules::NAME,
        is_wanted: |wanted| wanted.modules,
        find: modules::find,
    },
];

const HELP: &str = "\
No debug symbols are needed: the cause of the crash comes from the kernel log, and everything else from the symbols \
and types in the kernel's memory (kallsyms, which VMCOREINFO names since Linux 6.0; BTF, CONFIG_DEBUG_INFO_BTF).

Examples:
  bigiron info vmcore
  bigiron info --tasks --backtrace vmcore
  bigiron info --json vmcore | jq -r .crash.panic.message
  bigiron info --symbols-for crash vmcore
  bigiron info --log console.txt";

/// Prints the overview and the requested topics.
pub fn run(arguments: &InfoArguments) -> anyhow::Result<()> {
    if let Some(log) = &arguments.log {
        return log::run(log, arguments.json, arguments.source.reader);
    }
    if let Some(tool) = arguments.symbols_for {
        return print_symbols(tool, arguments);
    }
    let opened = Reading::open(&arguments.dump, &arguments.source)?.parse(&Needs::Nothing)?;
    if let Some(host) = opened.host()? {
        return print_host(arguments, &opened, &host);
    }
    opened.with_kernel(|kernel| {
        let overview = Overview::of(kernel);
        let mut sections = arguments.sections.find(kernel)?;
        if !arguments.sections.backtrace && !arguments.sections.all {
            sections.extend(backtrace::for_log(&overview, kernel)?);
        }
        if arguments.json {
            return print(&json_of(&overview, sections)?);
        }
        // Those about notes were printed, with the name of the file, when the kernel was found.
        let printed = note_warnings(kernel.source(), Some(kernel));
        let warnings = overview.warnings.iter();
        for warning in warnings.filter(|warning| !printed.contains(warning)) {
            tell!("bigiron: warning: {warning}");
        }
        let mut page = overview::page(&overview);
        for section in &sections {
            (section.text)(&mut page);
        }
        print(&page.0)
    })
}

/// Prints the commands that open the dump in another program.
fn print_symbols(tool: Tool, arguments: &InfoArguments) -> anyhow::Result<()> {
    let files = arguments.debug_info.start(&Stop::new())?;
    let opened = Reading::open(&arguments.dump, &arguments.source)?.parse(&Needs::Nothing)?;
    opened.with_kernel(|kernel| {
        let lines = symbols_for::commands(tool, &arguments.dump, kernel, &files);
        print(&lines)
    })
}

/// Returns the output of `bigiron info --json` of a Xen host, in whose dom0 a kernel was found or
/// not.
#[cfg(feature = "mount")]
pub fn host_json(
    source: &Source,
    host: &Host,
    dom0: Result<&Kernel, &anyhow::Error>,
) -> anyhow::Result<String> {
    Ok(HostOverview::of(source, host, Dom0::of(dom0))?.json()?)
}

/// Prints the overview of a Xen host.
fn print_host(arguments: &InfoArguments, opened: &Opened, host: &Host) -> anyhow::Result<()> {
    let backtrace = arguments.sections.backtrace;
    let others = TopicArguments {
        backtrace: false,
        ..arguments.sections
    };
    anyhow::ensure!(
        !others.any(),
        "{}: a dump of a Xen host, whose memory belongs to several kernels; topics are of one \
         kernel, except --backtrace: --domain 0 shows those of dom0",
        opened.source.path().display()
    );
    let dom0 = opened.dom0();
    let kernel = match &dom0 {
        Ok(dom0) => dom0.kernel(),
        Err(error) => Err(anyhow::anyhow!("{error:#}")),
    };
    let overview = HostOverview::of(&opened.source, host, Dom0::of(kernel.as_ref()))?;
    if arguments.json {
        return print(&overview.json()?);
    }
    for warning in overview.warnings() {
        tell!("bigiron: warning: {warning}");
    }
    print(&overview.text(backtrace))
}

/// Returns the output of `bigiron info --json` without topics.
#[cfg(feature = "mount")]
pub fn json(kernel: &Kernel) -> anyhow::Result<String> {
    json_of(&Overview::of(kernel), Vec::new())
}

fn json_of(overview: &Overview, sections: Vec<Topic>) -> anyhow::Result<String> {
    let mut object = serde_json::to_value(overview)?;
    for section in sections {
        object[section.name] = section.json;
    }
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}
