//! Options of `dump` and `live`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use bigiron_dump::{DumpOptions, Optimizations, Recipients, RecipientsError, Unsaved};
use bigiron_helpers::MemoryBudget;
use bigiron_kernel::DumpLevel;
use bigiron_kernel::xen::Owners;
use clap::{Args, ValueEnum};

use super::compression::CompressionArgument;
use super::format::Format;
use super::{InputArguments, TimeoutArguments, threads};
use crate::report_first::ReportArguments;
use crate::size;
use crate::then_boot::BootArguments;

/// `bigiron dump`.
#[derive(Debug, Args)]
#[command(
    override_usage = "bigiron dump [OPTIONS] <SOURCE>... <OUTPUT>\n       \
                           bigiron dump [OPTIONS] --split A,B,… <SOURCE>...\n       \
                           bigiron dump [OPTIONS] --stripe A,B,… <SOURCE>..."
)]
#[command(after_long_help = DUMP_HELP)]
pub struct DumpArguments {
    /// The sources, followed by the output file unless the dump is split or striped
    ///
    /// A source is /proc/vmcore, an ELF core, a kdump-compressed or flattened dump, all parts
    /// of a split or striped dump, or - for standard input. OUTPUT may be - for standard
    /// output.
    #[cfg_attr(
        feature = "objects",
        doc = "\n\nA source, and OUTPUT, may be an object: s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY."
    )]
    #[arg(required = true, num_args = 1.., value_names = ["SOURCE", "OUTPUT"])]
    pub paths: Vec<PathBuf>,
    /// Options of the dump.
    #[command(flatten)]
    pub how: DumpOptionArgs,
    /// What precedes the dump.
    #[command(flatten)]
    pub report: ReportArguments,
    /// What follows the dump.
    #[command(flatten)]
    pub boot: BootArguments,
}

/// Data to erase from a dump.
#[derive(Clone, Debug, Args)]
pub struct EraseArguments {
    /// Erase the data named by the commands in FILE (makedumpfile.conf(5))
    ///
    /// If any of it cannot be erased, no dump is made.
    #[arg(long, value_name = "FILE")]
    pub erase: Option<PathBuf>,
    /// With --erase: the kernel's vmlinux with debug information
    ///
    /// It has the type of every variable. Without it, the symbols and BTF in the source are
    /// used.
    #[arg(long, value_name = "VMLINUX", requires = "erase")]
    pub debuginfo: Option<PathBuf>,
}

/// `bigiron live`.
#[derive(Debug, Args)]
#[command(after_long_help = LIVE_HELP)]
pub struct LiveArguments {
    /// The output file, or - for standard output
    #[arg(required_unless_present_any = ["split", "stripe"])]
    #[arg(conflicts_with_all = ["split", "stripe"])]
    pub output: Option<PathBuf>,
    /// Options of the dump.
    #[command(flatten)]
    pub how: DumpOptionArgs,
}

/// Options of a dump.
#[derive(Debug, Args)]
pub struct DumpOptionArgs {
    /// Data to erase.
    #[command(flatten)]
    pub erase: EraseArguments,
    /// Split the dump into these files, written in parallel; requires -f kdump
    ///
    /// The files have about the same number of pages each, and replace OUTPUT. crash and
    /// bigiron read them together.
    #[arg(long, value_name = "FILE,FILE", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["encrypt", "device", "overwrite_device"])]
    pub split: Vec<PathBuf>,
    /// Stripe a vmdump over these files, disks or partitions, written in parallel
    ///
    /// Chunks are distributed round-robin. The files replace OUTPUT, and the format is vmdump.
    /// All commands, such as `bigiron save`, read them together.
    #[arg(
        long,
        value_name = "FILE,FILE",
        value_delimiter = ',',
        conflicts_with = "split"
    )]
    pub stripe: Vec<PathBuf>,
    /// Pages to exclude, the sum of: 1 zero pages, 2 page cache without private data, 4 all
    /// page cache, 8 user memory, 16 free memory [default: 31; of a Xen host 17]
    ///
    /// Of several levels, such as 1,31, each is tried if the dump does not fit at the one before.
    #[arg(short = 'd', long, value_name = "0..31", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=31))]
    pub dump_level: Vec<u8>,
    /// Which struct pages are dumped: all, or only those of dumped pages, without which a large
    /// machine's dump is much smaller
    ///
    /// A debugger then sees nothing of pages that are not in the dump. Pages of struct pages are
    /// left out as a whole, so that some struct pages of excluded pages remain.
    #[arg(long, value_name = "OF", default_value = "all")]
    pub struct_pages: StructPages,
    /// Keep, drop and blank pages by the rules in FILE, whatever the dump level says
    ///
    /// A rule that cannot be resolved is left out with a warning, and so is a file that cannot be
    /// read: neither costs the dump. `bigiron rules check` checks them beforehand.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Whose memory of a Xen host is dumped: that of the hypervisor, of dom0, or of all
    ///
    /// Without `all`, the memory of other domains is left out, and so is free memory.
    #[arg(
        long,
        value_name = "OWNER,…",
        value_delimiter = ',',
        default_value = "all"
    )]
    pub xen: Vec<XenOwner>,
    /// Format of the output [default: kdump, or vmdump with --stripe]
    #[arg(short, long)]
    pub format: Option<Format>,
    /// Codec: none, zlib, lzo, snappy or zstd, optionally with a level, such as zstd:3; or
    /// adaptive, which keeps CPUs and disk equally busy; for a vmdump, zstd or bzip2
    #[arg(short, long, value_name = "CODEC[:LEVEL]", default_value = "zstd")]
    pub compress: CompressionArgument,
    /// Memory per chunk of a vmdump, a power of two from 64K to 4M
    ///
    /// Larger chunks make the dump slightly smaller, and reads of single pages slower.
    #[arg(long, value_name = "SIZE", value_parser = size::chunk, default_value = "256K")]
    #[arg(hide_short_help = true)]
    pub chunk_size: u32,
    /// Encrypt the dump for an age public key, or for the keys in a file; may be repeated. The
    /// dump can then be read only with --identity
    #[arg(long, value_name = "RECIPIENT")]
    pub encrypt: Vec<String>,
    /// Helper threads [default: one per CPU]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
    /// Bring offline CPUs online first; auto does so for /proc/vmcore, unless the kernel was
    /// started with maxcpus=
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub online_cpus: OnlineCpus,
    /// Memory for all helpers together, such as 64M [default: a quarter of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub memory_limit: Option<u64>,
    /// Maximum write rate in bytes per second, such as 50M, to leave bandwidth to others; with
    /// --split or --stripe, per file
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub write_limit: Option<u64>,
    /// Seconds without progress before a warning on standard error names what the dump is
    /// waiting for
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "10",
        hide_short_help = true
    )]
    pub stall_warning: NonZeroU64,
    /// Disable an optimisation, to measure its effect
    #[arg(
        long,
        value_name = "WHAT",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub without: Vec<Without>,
    /// Options for reading the source.
    #[command(flatten)]
    pub source: InputArguments,
    /// The time limit.
    #[command(flatten)]
    pub time: TimeoutArguments,
    /// Replace OUTPUT if it exists
    #[arg(long)]
    pub overwrite: bool,
    /// Treat OUTPUT as a raw dump device even if it is a regular file
    ///
    /// Disks and partitions are always dump devices. The dump is written between two blocks
    /// that describe it, and `bigiron save` copies it from there.
    #[arg(long)]
    pub device: bool,
    /// Write to a dump device even if it holds a file system, a partition table, swap space or
    /// the like, which is then lost
    #[arg(long)]
    pub overwrite_device: bool,
    /// What to do with a dump on a dump device that was never saved: keep the first, and refuse
    /// to write; keep the newest, which replaces it; or keep both, one behind the other
    #[arg(long, value_name = "WHICH", default_value = "first")]
    pub keep: Keep,
    /// Where to write the dump if OUTPUT does not take it: it has too little room at every level,
    /// holds an unsaved dump, is missing or fails
    #[arg(long, value_name = "OUTPUT", conflicts_with_all = ["split", "stripe"])]
    pub then: Option<PathBuf>,
    /// Print the summary as JSON on standard output (on standard error with OUTPUT -)
    #[arg(long)]
    pub json: bool,
    /// Also print page cache statistics and lost pages
    #[arg(long)]
    pub stats: bool,
    /// Print only errors and warnings
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
}

const DUMP_HELP: &str = "\
Exit status: 0 success; 1 failure, with the reason on standard error; 2 invalid command line; 3 the \
dump device holds an unsaved dump (--keep first), and nothing was written; 129, 130 or 143 ended by SIGHUP, SIGINT or SIGTERM; 124 ended by --timeout, as by a signal.

Unreadable pages do not stop a dump: they are marked as lost, a warning reports their number and \
the first of them, and the dump is marked incomplete, as it is if the source itself is truncated \
or incomplete. `bigiron verify OUTPUT` then exits with 1.

After an interruption or a failed write, the pages written so far stay in OUTPUT.incomplete, which \
is marked incomplete and can be read: each page is present or marked as lost. In an ELF core, which \
cannot mark pages, pages not yet copied are zeros.

Examples:
  bigiron dump /proc/vmcore /var/crash/vmcore
  bigiron dump -d 1 -c zstd:3 vmcore.elf vmcore.kdump
  bigiron dump /proc/vmcore - | ssh host 'cat > vmcore.flat'
  bigiron dump part1 part2 whole.kdump
  bigiron dump /proc/vmcore --split /disk1/part1,/disk2/part2
  bigiron dump /proc/vmcore --stripe /dev/sdb,/dev/sdc";

const LIVE_HELP: &str = "\
The kernel runs while its memory is copied, so pages are from different moments, and lists that \
changed meanwhile may be inconsistent. Each single page has its contents of some moment. crash \
reports LIVE DUMP. Exit status: as for `bigiron dump`.

Requires root, and a kernel with /proc/kcore that is not locked down.

Examples:
  bigiron live /var/crash/live
  bigiron live -j 2 --write-limit 50M -d 31 - | ssh host 'cat > live.flat'";

/// When offline CPUs are brought online.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnlineCpus {
    /// In a capture kernel, unless its command line forbids it
    Auto,
    /// For any source
    Always,
    /// Never
    Never,
}

/// The dump that stays on a dump device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keep {
    /// An unsaved dump: no other is written
    First,
    /// The dump that is written now
    Newest,
    /// Both, if there is room for the new one behind the old one; otherwise the first
    Both,
}

/// The struct pages that are dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StructPages {
    /// Those of all pages
    All,
    /// Those of dumped pages
    Kept,
}

/// An owner of memory in a Xen host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum XenOwner {
    /// The hypervisor
    Hypervisor,
    /// The privileged domain
    Dom0,
    /// All domains, and free memory
    All,
}

/// An optimisation that can be disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Without {
    /// Store every page, even if an equal one is already stored
    EqualPages,
    /// Try to compress every page
    Incompressible,
    /// Classify every struct page individually
    ScanBlocks,
    /// Write to disks through the page cache even if memory is scarce
    DirectWrites,
}

impl DumpOptionArgs {
    /// Parses the recipients. They are not parsed with the other options, because an error
    /// there would print the argument, which may be a secret key.
    pub fn recipients(&self) -> Result<Option<Recipients>, RecipientsError> {
        let all = self.encrypt.iter().map(|text| text.parse());
        all.reduce(|one, other| Ok(Recipients::and(one?, other?)))
            .transpose()
    }

    /// Returns whose memory of a Xen host is dumped.
    fn owners(&self) -> Owners {
        let has = |owner| self.xen.contains(&owner);
        match has(XenOwner::All) {
            true => Owners::ALL,
            false => Owners {
                hypervisor: has(XenOwner::Hypervisor),
                dom0: has(XenOwner::Dom0),
                others: false,
            },
        }
    }

    /// Returns the dump levels in the order in which they are tried.
    pub fn levels(&self) -> Vec<DumpLevel> {
        let given = self.dump_level.iter().copied();
        given.filter_map(DumpLevel::new).collect()
    }

    /// Returns the options of the dump engine.
    pub fn options(&self) -> DumpOptions {
        DumpOptions {
            level: self.levels().first().copied().unwrap_or(DumpLevel::MAX),
            owners: self.owners(),
            without_struct_pages: self.struct_pages == StructPages::Kept,
            threads: threads(self.threads),
            memory: self
                .memory_limit
                .map_or_else(MemoryBudget::from_free_memory, MemoryBudget::of),
            io: self.source.io.into(),
            overwrite: self.overwrite,
            overwrite_device: self.overwrite_device,
            source_is_here: false,
            unsaved: match self.keep {
                Keep::First => Unsaved::Kept,
                Keep::Newest => Unsaved::Replaced,
                Keep::Both => Unsaved::Followed,
            },
            write_limit: self.write_limit.and_then(NonZeroU64::new),
            size_limit: None,
            discard_if_full: false,
            names_incomplete: false,
            optimizations: Optimizations {
                equal_pages: !self.without.contains(&Without::EqualPages),
                incompressible: !self.without.contains(&Without::Incompressible),
                scan_blocks: !self.without.contains(&Without::ScanBlocks),
                direct_writes: !self.without.contains(&Without::DirectWrites),
            },
            #[cfg(feature = "plan")]
            sample: None,
            identity: None,
        }
    }
}
