//! `bigiron cpu domains`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bigiron_cpu::build::{Architecture, Rules};
use bigiron_cpu::show::{self, Detail};
use bigiron_cpu::source::{self as root, Bpf, Debugfs, DomainSource, Machine, Schedstat};
use bigiron_cpu::topology::Topology;
use bigiron_cpu::{CpuList, DomainTree};
use bigiron_inspect::{Program, SchedDomains};
use clap::{Args, ValueEnum};

use crate::arguments::SourceArguments;
use crate::source;
use crate::tell::{print, tell};

/// `bigiron cpu domains`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct DomainsArguments {
    /// A dump, in any format; the parts of a split or striped one as A,B,C [default: the
    /// running kernel]
    #[arg(conflicts_with_all = ["machine", "sysfs", "bpf", "schedstat", "debugfs"])]
    dump: Option<PathBuf>,
    /// Description of a machine, such as 'sockets=2 cores=8 threads=2 numa=2'
    #[arg(long, value_name = "WORDS", group = "from")]
    machine: Option<String>,
    /// Directory /sys/devices/system of a machine, or a copy
    #[arg(long, value_name = "DIR", group = "from")]
    sysfs: Option<PathBuf>,
    /// Read the running kernel by a BPF program, which runs only for this and is attached to
    /// nothing
    #[arg(long, group = "from")]
    bpf: bool,
    /// Read /proc/schedstat, or a copy
    #[arg(long, value_name = "FILE", group = "from", num_args = 0..=1, require_equals = true, default_missing_value = "/proc/schedstat")]
    schedstat: Option<PathBuf>,
    /// Read the kernel's own files in debugfs or, for old kernels, under
    /// /proc/sys/kernel/sched_domain
    #[arg(long, value_name = "DIR", group = "from", num_args = 0..=1, require_equals = true, default_missing_value = "/sys/kernel/debug/sched/domains")]
    debugfs: Option<PathBuf>,
    /// Kernel that builds the domains of a described machine
    #[arg(long, value_name = "KERNEL", value_enum, default_value_t)]
    kernel: KernelName,
    /// Architecture of a described machine, which determines the levels [default: that of the
    /// files of --sysfs, or of this machine]
    #[arg(long, value_enum)]
    arch: Option<ArchitectureName>,
    /// Kernel without CONFIG_SCHED_CLUSTER (generic architecture), as Debian's for arm64
    #[arg(long)]
    no_clusters: bool,
    /// Online CPUs of a described machine [default: all, or those of --sysfs]
    #[arg(long, value_name = "LIST")]
    online: Option<CpuList>,
    /// Output format
    #[arg(long = "as", value_name = "FORM", value_enum, default_value_t)]
    form: Form,
    /// Print all domains with their flags, not only the first of similar ones
    #[arg(long)]
    all: bool,
    /// Print the differences from FILE, an earlier output of `--as json`
    #[arg(long, value_name = "FILE")]
    diff: Option<PathBuf>,
    /// Options for reading a dump.
    #[command(flatten)]
    source: SourceArguments,
}

const HELP: &str = "\
The running kernel is read by the first of --bpf, --debugfs and --schedstat that works. BPF provides all values, and requires \
root, or CAP_BPF and CAP_PERFMON; Linux 5.10; BTF; and CONFIG_KALLSYMS_ALL. debugfs (root; since Linux 6.4 only while \
sched/verbose is Y) has no spans, and /proc/schedstat has no flags. A dump has all values.

Words of --machine: sockets, cores (per socket), threads (per core), numa (nodes per socket), caches (per node), \
clusters (per cache), near, far, distances=10,20;20,10, capacities=4*1024,4*446 (of a socket's cores), numbering=threads|cores.

Examples:
  bigiron cpu domains
  bigiron cpu domains vmcore --as table
  bigiron cpu domains --machine 'sockets=2 cores=64 threads=2 caches=8' --as svg > domains.svg
  bigiron cpu domains --as json > before.json; …; bigiron cpu domains --diff before.json";

const NO_SYSFS: &str =
    "--sysfs expects a directory such as /sys/devices/system, with `cpu` and `node` in it";
const NO_BPF: &str = "BPF cannot read the domains of this kernel; --debugfs or --schedstat may";
const NOTHING: &str = "cannot read the domains of this kernel by BPF, debugfs or /proc/schedstat; \
                       --sysfs=/sys/devices/system builds them";

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Form {
    /// One domain per line, with the domains that it contains below it
    #[default]
    Tree,
    /// One line per level and kind of domain
    Table,
    /// All values, as JSON
    Json,
    /// A graph for Graphviz
    Dot,
    /// An SVG picture
    Svg,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum KernelName {
    #[value(name = "6.1")]
    Linux6_1,
    #[default]
    #[value(name = "6.12")]
    Linux6_12,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ArchitectureName {
    X86,
    Power,
    /// arm64 and others
    Generic,
}

/// Returns the given architecture, or that of a directory, or that of this machine.
pub(super) fn architecture(given: Option<ArchitectureName>, sysfs: Option<&Path>) -> Architecture {
    let found = || sysfs.and_then(Architecture::of_directory);
    let given = given.map(Architecture::from);
    given.or_else(found).unwrap_or(Architecture::HOST)
}

impl From<ArchitectureName> for Architecture {
    fn from(name: ArchitectureName) -> Self {
        match name {
            ArchitectureName::X86 => Self::X86,
            ArchitectureName::Power => Self::Power,
            ArchitectureName::Generic => Self::Generic,
        }
    }
}

/// Returns the rules of a kernel on an architecture.
pub(super) fn rules(kernel: KernelName, architecture: Architecture) -> Rules {
    let rules = match kernel {
        KernelName::Linux6_1 => Rules::LINUX_6_1,
        KernelName::Linux6_12 => Rules::LINUX_6_12,
    };
    rules.on(architecture)
}

/// Reads the domains, and prints them or their differences.
pub fn run(arguments: &DomainsArguments) -> anyhow::Result<()> {
    // Before a dump is read, which ends with all files closed to this process.
    let before = arguments.diff.as_deref().map(read_before).transpose()?;
    let tree = read(arguments)?;
    for warning in &tree.warnings {
        tell!("bigiron: warning: {warning}");
    }
    if let Some(before) = &before {
        return print_changes(before, &tree);
    }
    let detail = if arguments.all {
        Detail::All
    } else {
        Detail::Alike
    };
    print(&match arguments.form {
        Form::Tree => show::text(&tree, detail),
        Form::Table => show::table(&tree),
        Form::Json => serde_json::to_string(&tree)? + "\n",
        Form::Dot => show::dot(&tree),
        Form::Svg => show::picture(&tree),
    })
}

fn read(arguments: &DomainsArguments) -> anyhow::Result<DomainTree> {
    let machine = |description: String, topology: Topology, online, isolated| Machine {
        description,
        online: arguments.online.clone().unwrap_or(online),
        isolated,
        topology,
        rules: Rules {
            clusters: !arguments.no_clusters,
            ..rules(
                arguments.kernel,
                architecture(arguments.arch, arguments.sysfs.as_deref()),
            )
        },
    };
    if let Some(dump) = &arguments.dump {
        of_dump(dump, &arguments.source)
    } else if let Some(words) = &arguments.machine {
        let topology = Topology::from_text(words)?;
        let all = (0..topology.cpu_count() as u32).collect();
        Ok(machine(words.clone(), topology, all, CpuList::default()).read()?)
    } else if let Some(directory) = &arguments.sysfs {
        let topology = Topology::from_directory(directory).context(NO_SYSFS)?;
        let (online, isolated) = Topology::cpus_in(directory)?;
        Ok(machine(directory.display().to_string(), topology, online, isolated).read()?)
    } else if let Some(file) = &arguments.schedstat {
        Ok(Schedstat::at(file).read()?)
    } else if let Some(directory) = &arguments.debugfs {
        Ok(Debugfs::at(directory).read()?)
    } else if arguments.bpf {
        let bpf = Bpf::load().context(NO_BPF)?;
        Ok(bpf.read()?)
    } else {
        Ok(root::running().context(NOTHING)?.read()?)
    }
}

fn of_dump(dump: &Path, source: &SourceArguments) -> anyhow::Result<DomainTree> {
    let parts = [dump.to_owned()];
    source::with_kernel(&parts, source, |kernel| {
        let program = Program::open(kernel)?;
        let mut tree = SchedDomains::new(&program)?.tree()?;
        tree.source = dump.display().to_string();
        Ok(tree)
    })
}

/// Reads an earlier output of `--as json`.
fn read_before(file: &Path) -> anyhow::Result<DomainTree> {
    let name = file.display();
    let text = std::fs::read(file).with_context(|| name.to_string())?;
    let before: DomainTree = serde_json::from_slice(&text).with_context(|| {
        format!("{name}: expected the output of `bigiron cpu domains --as json`")
    })?;
    if before.cpus.is_empty() {
        bail!("{name}: no CPUs in this file");
    }
    Ok(before)
}

fn print_changes(before: &DomainTree, tree: &DomainTree) -> anyhow::Result<()> {
    let mut text = String::new();
    for change in show::changes(before, tree) {
        let _ = writeln!(text, "{change}");
    }
    print(&text)
}
