//! `bigiron cpu mount`: scheduler domains as files.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::fuse::{Kind, Listed, Live, Options, Refusal, Session, Why};
use bigiron_cpu::CpuList;
use bigiron_cpu::build::Flags;
use bigiron_cpu::files::{Attributes, Chains, DomainFiles, FilesError, Inode, Layout};
use bigiron_cpu::source::{self, DomainSource, Machine};
use bigiron_cpu::topology::Topology;
use bigiron_cpu::tune::{TuneError, Tuner};
use clap::{Args, ValueEnum};

use super::domains::{ArchitectureName, KernelName, rules};
use super::temporary::BySettings;
use crate::commands::mount::serve;
use crate::tell::tell;

/// Threads that serve: each look takes microseconds.
const THREADS: usize = 2;
/// For another command that changes sched/verbose: a program that writes to a file waits so long.
const PATIENCE: Duration = Duration::from_secs(5);

/// `bigiron cpu mount`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct MountArguments {
    /// The directory, an empty one
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Whose files they are like
    #[arg(long, value_enum, default_value_t)]
    layout: LayoutName,
    /// Let nothing be written
    #[arg(long)]
    read_only: bool,
    /// Let all users look; only the one who mounts can write
    #[arg(long)]
    allow_other: bool,
    /// In place of the running kernel, a machine by words, as for `bigiron cpu domains --machine`
    #[arg(long, value_name = "WORDS")]
    machine: Option<String>,
    /// Of a described machine: the kernel that is to build the domains
    #[arg(long, value_name = "KERNEL", value_enum, default_value_t)]
    kernel: KernelName,
    /// Of a described machine: whose levels it has
    #[arg(long, value_enum, default_value_t)]
    arch: ArchitectureName,
    /// Of a described machine: the CPUs that are online [default: all]
    #[arg(long, value_name = "LIST", requires = "machine")]
    online: Option<CpuList>,
    /// Print nothing but errors and warnings
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum LayoutName {
    /// /sys/kernel/debug/sched/domains, since Linux 5.13
    #[default]
    Debugfs,
    /// /proc/sys/kernel/sched_domain, before, with flags as a number
    Sysctl,
}

const HELP: &str = "\
DIR has cpuN/domainM/ with the kernel's files, and span. They are made when somebody looks at them, out of the \
kernel's memory; while nobody looks, and while CPUs come and go, they cost nothing. A CPU that is offline has no \
directory. A file that is open keeps what it had when it was opened.

min_interval, max_interval, busy_factor, imbalance_pct and cache_nice_tries can be written. The kernel takes them by its \
own files in debugfs alone, which it shows since Linux 6.4 only while sched/verbose is Y: that is set while writing, \
and put back.

It stays mounted until it is unmounted (umount DIR) or the program gets a signal (Ctrl-C).

Examples:
  bigiron cpu mount /mnt &
  grep . /mnt/cpu0/domain*/{name,span,flags}
  echo 125 > /mnt/cpu0/domain1/imbalance_pct
  umount /mnt
  bigiron cpu mount /mnt --machine 'sockets=2 cores=64 threads=2 caches=8'";

/// Mounts, and serves until that is unmounted.
pub fn run(arguments: &MountArguments) -> anyhow::Result<()> {
    match &arguments.machine {
        Some(words) => {
            let topology = Topology::from_text(words)?;
            let all = (0..topology.cpu_count() as u32).collect();
            let rules = rules(arguments.kernel, arguments.arch);
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
            let tuner = Tuner::running(BySettings {
                patience: PATIENCE,
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
        tell: Box::new(|text| tell!("bigiron: {text}")),
    };
    let session = || Session::live(Served(files), &arguments.directory, options);
    serve(session, what, arguments.quiet)
}

/// The files as FUSE serves them.
struct Served<C>(DomainFiles<C>);

impl<C: Chains + 'static> Live for Served<C> {
    fn is_writable(&self) -> bool {
        self.0.is_writable()
    }

    fn look(&self, number: u64) -> Result<Kind, Refusal> {
        let spot = spot(number)?;
        let seen = self.0.look(spot).map_err(refusal)?;
        Ok(kind(spot, seen))
    }

    fn find(&self, directory: u64, name: &str) -> Result<(u64, Kind), Refusal> {
        let found = self.0.find(spot(directory)?, name);
        let (spot, seen) = found.map_err(refusal)?;
        Ok((spot.number(), kind(spot, seen)))
    }

    fn list(&self, directory: u64) -> Result<Listed, Refusal> {
        let directory = spot(directory)?;
        let entries = self.0.list(directory).map_err(refusal)?.into_iter();
        let entry = |(name, spot): (String, Inode)| (name, spot.number(), !spot.is_file());
        Ok(Listed {
            parent: directory.parent().number(),
            entries: entries.map(entry).collect(),
        })
    }

    fn read(&self, file: u64) -> Result<Vec<u8>, Refusal> {
        let text = self.0.read(spot(file)?);
        text.map(String::into_bytes).map_err(refusal)
    }

    fn write(&self, file: u64, text: &[u8]) -> Result<(), Refusal> {
        self.0.write(spot(file)?, text).map_err(refusal)
    }
}

fn spot(number: u64) -> Result<Inode, Refusal> {
    Inode::of(number).ok_or_else(Refusal::gone)
}

fn kind(spot: Inode, seen: Attributes) -> Kind {
    match spot.is_file() {
        true => Kind::File {
            writable: seen.writable,
            size: seen.size,
        },
        false => Kind::Directory,
    }
}

/// What the caller sees, and what is told.
fn refusal(error: FilesError) -> Refusal {
    let why = match &error {
        FilesError::Gone => Why::Gone,
        FilesError::Source(_) => Why::Failed,
        FilesError::ReadOnly { .. } => Why::Denied,
        FilesError::Tune { source, .. } => match source {
            TuneError::Value { .. } => Why::Invalid,
            TuneError::NoFiles { .. } => Why::ReadOnly,
            TuneError::Denied { .. } => Why::Denied,
            TuneError::Rebuilt { .. } | TuneError::Verbose { .. } => Why::Changed,
            TuneError::File { .. } | TuneError::NotTaken { .. } | TuneError::Source(_) => {
                Why::Failed
            }
        },
    };
    Refusal {
        why,
        reason: error.to_string(),
    }
}
