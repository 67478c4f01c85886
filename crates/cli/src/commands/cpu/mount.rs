//! `bigiron cpu mount`: scheduler domains as files.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::fuse::{Kind, Listed, Live, Options, Refusal, RefusalKind, Session};
use bigiron_cpu::CpuList;
use bigiron_cpu::build::Flags;
use bigiron_cpu::files::{Attributes, DomainFiles, FilesError, Inode, Layout};
use bigiron_cpu::source::Chains;
use bigiron_cpu::source::{self, DomainSource, Machine};
use bigiron_cpu::topology::Topology;
use bigiron_cpu::tune::{TuneError, Tuner};
use clap::{Args, ValueEnum};

use super::domains::{ArchitectureName, KernelName, architecture, rules};
use super::temporary::JournaledSettings;
use crate::commands::mount::serve;
use crate::tell::tell;

/// Number of serving threads; each request takes microseconds.
const THREADS: usize = 2;
/// Time to wait for another command that changes sched/verbose; a program that writes to a file
/// waits as long.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// `bigiron cpu mount`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct MountArguments {
    /// The directory, which must be empty
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Layout of the files
    #[arg(long, value_enum, default_value_t)]
    layout: LayoutName,
    /// Make all files read-only
    #[arg(long)]
    read_only: bool,
    /// Grant access to all users; only the user who mounts can write
    #[arg(long)]
    allow_other: bool,
    /// Described machine instead of the running kernel, as for `bigiron cpu domains --machine`
    #[arg(long, value_name = "WORDS")]
    machine: Option<String>,
    /// Kernel that builds the domains of a described machine
    #[arg(long, value_name = "KERNEL", value_enum, default_value_t)]
    kernel: KernelName,
    /// Architecture of a described machine, which determines the levels [default: that of this
    /// machine]
    #[arg(long, value_enum)]
    arch: Option<ArchitectureName>,
    /// Online CPUs of a described machine [default: all]
    #[arg(long, value_name = "LIST", requires = "machine")]
    online: Option<CpuList>,
    /// Print only errors and warnings
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum LayoutName {
    /// /sys/kernel/debug/sched/domains, since Linux 5.13
    #[default]
    Debugfs,
    /// /proc/sys/kernel/sched_domain, before Linux 5.13, with flags as a number
    Sysctl,
}

const HELP: &str = "\
DIR contains cpuN/domainM/ with the kernel's files, and span. They are generated on access from the kernel's \
memory; otherwise they cost nothing, also while CPUs go offline and online. An offline CPU has no directory. An open \
file keeps the contents from when it was opened.

min_interval, max_interval, busy_factor, imbalance_pct and cache_nice_tries are writable. The kernel accepts values only \
through its own files in debugfs, which since Linux 6.4 exist only while sched/verbose is Y: it is set while a value is \
written, and restored.

The files stay mounted until they are unmounted (umount DIR) or the program receives a signal (Ctrl-C).

Examples:
  bigiron cpu mount /mnt &
  grep . /mnt/cpu0/domain*/{name,span,flags}
  echo 125 > /mnt/cpu0/domain1/imbalance_pct
  umount /mnt
  bigiron cpu mount /mnt --machine 'sockets=2 cores=64 threads=2 caches=8'";

/// Mounts the domains and serves them until they are unmounted.
pub fn run(arguments: &MountArguments) -> anyhow::Result<()> {
    match &arguments.machine {
        Some(words) => {
            let topology = Topology::from_text(words)?;
            let all = (0..topology.cpu_count() as u32).collect();
            let rules = rules(arguments.kernel, architecture(arguments.arch, None));
            let machine = Machine {
                description: words.clone(),
                online: arguments.online.clone().unwrap_or(all),
                isolated: CpuList::default(),
                topology,
                rules,
            };
            let layout = match arguments.layout {
                LayoutName::Debugfs => Layout::Debugfs,
                LayoutName::Sysctl => Layout::Sysctl {
                    bits: Flags::known(rules.new_names),
                },
            };
            let files = DomainFiles::new(machine.read()?, layout, None);
            mount(arguments, files, &format!("the machine {words:?}"))
        }
        None => {
            let running = source::running()?;
            for warning in running.warnings() {
                tell!("bigiron: warning: {warning}");
            }
            let layout = match arguments.layout {
                LayoutName::Debugfs => Layout::Debugfs,
                LayoutName::Sysctl => Layout::sysctl_of_running(),
            };
            let tuner = Tuner::running(JournaledSettings {
                lock_timeout: LOCK_TIMEOUT,
                command: "bigiron cpu mount",
            });
            let tuner = Some(tuner).filter(|_| !arguments.read_only);
            let files = DomainFiles::new(running, layout, tuner);
            mount(arguments, files, "the running kernel")
        }
    }
}

fn mount<C: Chains + 'static>(
    arguments: &MountArguments,
    files: DomainFiles<C>,
    what: &str,
) -> anyhow::Result<()> {
    let options = Options {
        name: "sched_domains".into(),
        threads: THREADS,
        time: SystemTime::now(),
        everyone: arguments.allow_other,
        is_chunked: false,
        tell: Box::new(|text| tell!("bigiron: {text}")),
    };
    let session = || Session::live(Served(files), &arguments.directory, options);
    serve(session, what, arguments.quiet)
}

/// Files as served by FUSE.
struct Served<C>(DomainFiles<C>);

impl<C: Chains + 'static> Live for Served<C> {
    fn is_writable(&self) -> bool {
        self.0.is_writable()
    }

    fn look(&self, number: u64) -> Result<Kind, Refusal> {
        let inode = inode(number)?;
        let seen = self.0.look(inode).map_err(refusal)?;
        Ok(kind(inode, seen))
    }

    fn find(&self, directory: u64, name: &str) -> Result<(u64, Kind), Refusal> {
        let found = self.0.find(inode(directory)?, name);
        let (inode, seen) = found.map_err(refusal)?;
        Ok((inode.number(), kind(inode, seen)))
    }

    fn list(&self, directory: u64) -> Result<Listed, Refusal> {
        let directory = inode(directory)?;
        let entries = self.0.list(directory).map_err(refusal)?.into_iter();
        let entry = |(name, inode): (String, Inode)| (name, inode.number(), !inode.is_file());
        Ok(Listed {
            parent: directory.parent().number(),
            entries: entries.map(entry).collect(),
        })
    }

    fn read(&self, file: u64) -> Result<Vec<u8>, Refusal> {
        let text = self.0.read(inode(file)?);
        text.map(String::into_bytes).map_err(refusal)
    }

    fn write(&self, file: u64, text: &[u8]) -> Result<(), Refusal> {
        self.0.write(inode(file)?, text).map_err(refusal)
    }
}

fn inode(number: u64) -> Result<Inode, Refusal> {
    Inode::of(number).ok_or_else(Refusal::gone)
}

fn kind(inode: Inode, seen: Attributes) -> Kind {
    match inode.is_file() {
        true => Kind::File {
            writable: seen.writable,
            size: seen.size,
        },
        false => Kind::Directory,
    }
}

/// Returns the error for the calling program, and the reason to print.
fn refusal(error: FilesError) -> Refusal {
    let why = match &error {
        FilesError::Gone => RefusalKind::Gone,
        FilesError::Source(_) => RefusalKind::Failed,
        FilesError::ReadOnly { .. } => RefusalKind::Denied,
        FilesError::Tune { cause, .. } => match cause {
            TuneError::Value { .. } => RefusalKind::Invalid,
            TuneError::NoFiles { .. } => RefusalKind::ReadOnly,
            TuneError::Denied { .. } => RefusalKind::Denied,
            TuneError::Rebuilt { .. } | TuneError::Verbose { .. } => RefusalKind::Changed,
            TuneError::File { .. } | TuneError::NotTaken { .. } | TuneError::Source(_) => {
                RefusalKind::Failed
            }
        },
    };
    Refusal {
        why,
        reason: error.to_string(),
    }
}
