//! How dumps are made: the command lines of `dump` and `live`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use bigiron_dump::{
    DumpOptions, Optimizations, OutputFormat, PageCompression, Recipients, RecipientsError,
};
use bigiron_helpers::MemoryBudget;
use bigiron_kernel::DumpLevel;
use clap::{Args, ValueEnum};

use super::{InputArguments, threads};
use crate::size;

/// `bigiron dump`.
#[derive(Debug, Args)]
#[command(
    override_usage = "bigiron dump [OPTIONS] <SOURCE>... <OUTPUT>\n       \
                           bigiron dump [OPTIONS] --split A,B,… <SOURCE>...\n       \
                           bigiron dump [OPTIONS] --stripe A,B,… <SOURCE>..."
)]
#[command(after_long_help = DUMP_HELP)]
pub struct DumpArguments {
    /// What to dump (/proc/vmcore, an ELF core, a kdump-compressed or flattened dump, all
    /// parts of a split one, or - for standard input), then the file to make (- for
    /// standard output), unless it is split or striped
    #[arg(required = true, num_args = 1.., value_names = ["SOURCE", "OUTPUT"])]
    pub paths: Vec<PathBuf>,
    /// How it is made.
    #[command(flatten)]
    pub how: DumpOptionArgs,
}

/// What is erased from a dump.
#[derive(Clone, Debug, Args)]
pub struct EraseArguments {
    /// Commands that name data to blank in the dump (makedumpfile.conf(5)); all of it, or no
    /// dump is made
    #[arg(long, value_name = "FILE")]
    pub erase: Option<PathBuf>,
    /// With --erase: the kernel's vmlinux with debug information, which knows the type of every
    /// variable; without it, symbols and BTF in the source are used
    #[arg(long, value_name = "VMLINUX", requires = "erase")]
    pub debuginfo: Option<PathBuf>,
}

/// `bigiron live`.
#[derive(Debug, Args)]
#[command(after_long_help = LIVE_HELP)]
pub struct LiveArguments {
    /// The file to make, or - for standard output
    #[arg(required_unless_present_any = ["split", "stripe"])]
    #[arg(conflicts_with_all = ["split", "stripe"])]
    pub output: Option<PathBuf>,
    /// How it is made.
    #[command(flatten)]
    pub how: DumpOptionArgs,
}

/// How a dump is made.
#[derive(Debug, Args)]
pub struct DumpOptionArgs {
    /// What is erased from it.
    #[command(flatten)]
    pub erase: EraseArguments,
    /// Split the dump into these files, all written at the same time and with as many pages each;
    /// crash and `bigiron` take all of them together. Then there is no OUTPUT. For -f kdump
    #[arg(long, value_name = "FILE,FILE", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["encrypt", "device", "overwrite_device"])]
    pub split: Vec<PathBuf>,
    /// Stripe a vmdump over these files, disks or partitions: its chunks go to them in turn, and all
    /// are written at the same time. `bigiron save` and all other commands take all of them
    /// together. Then there is no OUTPUT, and the format is vmdump
    #[arg(
        long,
        value_name = "FILE,FILE",
        value_delimiter = ',',
        conflicts_with = "split"
    )]
    pub stripe: Vec<PathBuf>,
    /// What is left out, a sum: 1 zero pages, 2 page cache without private data, 4 all page
    /// cache, 8 user memory, 16 free memory
    #[arg(short = 'd', long, value_name = "0..31", default_value_t = 31)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=31))]
    pub dump_level: u8,
    /// The format of the output [default: kdump, and vmdump with --stripe]
    #[arg(short, long)]
    pub format: Option<Format>,
    /// none, zlib, lzo, snappy or zstd, with a level where it has one: zstd:3; or adaptive: as
    /// fast or as strong as keeps processors and disk busy
    #[arg(short, long, value_name = "CODEC[:LEVEL]", default_value = "zstd")]
    pub compress: PageCompression,
    /// Memory in a chunk of a vmdump, a power of two from 64K to 4M: larger ones are a little
    /// smaller in all, and single pages take longer to read
    #[arg(long, value_name = "SIZE", value_parser = size::chunk, default_value = "256K")]
    #[arg(hide_short_help = true)]
    pub chunk_size: u32,
    /// Encrypt the dump for a public key of age, or for those in a file; more than once for
    /// several. It can be read with --identity only
    #[arg(long, value_name = "RECIPIENT")]
    pub encrypt: Vec<String>,
    /// Helper threads [default: one for each CPU]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
    /// CPUs that are off line are brought up first, to help: auto for /proc/vmcore, where the kernel
    /// was not started with maxcpus=
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub online_cpus: OnlineCpus,
    /// Memory that the helpers may take together, like 64M [default: a quarter of what is free]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub memory_limit: Option<u64>,
    /// Bytes a second that are written at most, like 50M, to leave some of a disk or of a network
    /// to others; with --split or --stripe to each of the files
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub write_limit: Option<u64>,
    /// Seconds in which nothing moves until standard error says what it waits for
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "10",
        hide_short_help = true
    )]
    pub stall_warning: NonZeroU64,
    /// Do without some of what makes dumps faster, to see what it brings
    #[arg(
        long,
        value_name = "WHAT",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub without: Vec<Without>,
    /// How the source is read.
    #[command(flatten)]
    pub source: InputArguments,
    /// Replace OUTPUT if it is there already
    #[arg(long)]
    pub overwrite: bool,
    /// OUTPUT is a raw dump device, also if it is a file; a disk or partition always is one. The
    /// dump goes between two blocks that say what it is, and `bigiron save` fetches it from there
    #[arg(long)]
    pub device: bool,
    /// Write to a dump device even if there is a file system, a partition table, swap space or the
    /// like on it, which is then lost
    #[arg(long)]
    pub overwrite_device: bool,
    /// Print the summary as JSON on standard output (standard error with OUTPUT -)
    #[arg(long)]
    pub json: bool,
    /// Print the page cache's hits and misses, and lost pages, too
    #[arg(long)]
    pub stats: bool,
    /// Print nothing but errors and warnings
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
}

const DUMP_HELP: &str = "\
Exit status: 0 the dump was made; 1 it was not, and standard error says why; 2 the command \
line is wrong; 129, 130 or 143 SIGHUP, SIGINT or SIGTERM ended it.

What the source cannot give does not stop a dump: pages that cannot be read are marked as lost, \
a warning counts them and names the first, and the dump is marked incomplete, as it is when the \
source itself is cut or marked so. `bigiron verify OUTPUT` then exits with 1.

What was written before an interruption or a failed write stays in OUTPUT.incomplete, is marked \
incomplete, and can be read: each page is there or marked as lost. In an ELF core, which cannot \
mark pages, those that were not copied yet are zeros.

Examples:
  bigiron dump /proc/vmcore /var/crash/vmcore
  bigiron dump -d 1 -c zstd:3 vmcore.elf vmcore.kdump
  bigiron dump /proc/vmcore - | ssh host 'cat > vmcore.flat'
  bigiron dump part1 part2 whole.kdump
  bigiron dump /proc/vmcore --split /disk1/part1,/disk2/part2
  bigiron dump /proc/vmcore --stripe /dev/sdb,/dev/sdc";

const LIVE_HELP: &str = "\
The kernel runs on while its memory is copied, so pages are of different moments, and lists that \
were changed in between may lead nowhere. Each page by itself is what some moment held. crash says \
LIVE DUMP. Exit status as of `bigiron dump`.

It needs root, and a kernel with /proc/kcore that is not locked down.

Examples:
  bigiron live /var/crash/live
  bigiron live -j 2 --write-limit 50M -d 31 - | ssh host 'cat > live.flat'";

/// [`OutputFormat`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// kdump-compressed; flattened if it goes to standard output
    Kdump,
    /// kdump-compressed as a stream, for pipes
    Flattened,
    /// ELF core, uncompressed
    Elf,
    /// ELF core in compressed chunks, which zstd -d or bzip2 -d alone unpack; the fastest and smallest
    Vmdump,
}

impl From<Format> for OutputFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Kdump => Self::Kdump,
            Format::Flattened => Self::Flattened,
            Format::Elf => Self::Elf,
            Format::Vmdump => Self::Vmdump,
        }
    }
}

/// Whether a dump brings CPUs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnlineCpus {
    /// In a capture kernel that was not told to leave them alone
    Auto,
    /// Whatever the source is
    Always,
    /// The CPUs stay as they are
    Never,
}

/// A part of [`Optimizations`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Without {
    /// Store every page, whether an equal one is there already or not
    EqualPages,
    /// Try to compress every page
    Incompressible,
    /// Look at every struct page by itself
    ScanBlocks,
}

impl DumpOptionArgs {
    /// Who can read the dump. Not parsed with the other options, since a complaint
    /// about one of those repeats what was given, which may be a secret key.
    pub fn recipients(&self) -> Result<Option<Recipients>, RecipientsError> {
        let all = self.encrypt.iter().map(|text| text.parse());
        all.reduce(|one, other| Ok(Recipients::and(one?, other?)))
            .transpose()
    }

    /// The options of the engine.
    pub fn options(&self) -> DumpOptions {
        DumpOptions {
            level: DumpLevel::new(self.dump_level).unwrap_or(DumpLevel::MAX),
            format: self.format().into(),
            compression: self.compress,
            threads: threads(self.threads),
            memory: self
                .memory_limit
                .map_or_else(MemoryBudget::from_free_memory, MemoryBudget::of),
            io: self.source.io.into(),
            overwrite: self.overwrite,
            encrypt: None,
            overwrite_device: self.overwrite_device,
            write_limit: self.write_limit.and_then(NonZeroU64::new),
            size_limit: None,
            discard_if_full: false,
            optimizations: Optimizations {
                equal_pages: !self.without.contains(&Without::EqualPages),
                incompressible: !self.without.contains(&Without::Incompressible),
                scan_blocks: !self.without.contains(&Without::ScanBlocks),
            },
            chunk_bytes: self.chunk_size,
            identity: None,
        }
    }
}
