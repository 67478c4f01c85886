//! The arguments of `bigiron mem`.

use std::ffi::OsString;
use std::path::PathBuf;

use bigiron_memory::kill::HELPERS;
use bigiron_memory::policy::KEYS;
use bigiron_memory::segment::{Huge, Numa};
use clap::{Args, Subcommand, ValueEnum};

use crate::size;

#[cfg(feature = "bench")]
use crate::commands::mem::bench::BenchArguments;

/// `bigiron mem`.
#[derive(Debug, Args)]
pub struct MemoryArguments {
    /// Subcommand.
    #[command(subcommand)]
    pub command: MemoryCommand,
}

/// Subcommands of `bigiron mem`.
#[derive(Debug, Subcommand)]
pub enum MemoryCommand {
    /// Measure creating, locking and destroying memory, by plain calls and with helpers
    #[cfg(feature = "bench")]
    Bench(BenchArguments),
    /// Create a segment or file of shared memory with all pages populated
    Create(CreateArguments),
    /// Remove segments or files of shared memory
    Destroy(DestroyArguments),
    /// Report what can be accelerated on this machine, what prevents it, and how to enable it
    Explain(ExplainArguments),
    /// Kill processes, and free their memory with helpers while they exit
    Kill(KillArguments),
    /// Populate the pages of existing segments, and the page cache of files
    Prewarm(PrewarmArguments),
    /// Run a program with helpers that populate, lock and free its large memory
    Run(RunArguments),
}

/// Kinds of memory that outlive the process that creates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A System V segment, with an id (ipcs)
    Sysv,
    /// POSIX shared memory, with a name (/dev/shm)
    Posix,
    /// A file of hugetlbfs: NAME in its mount, or a path
    Hugetlbfs,
    /// A file in any directory, in tmpfs or on a disk with its blocks allocated
    File,
}

/// Options for helpers.
#[derive(Clone, Copy, Debug, Args)]
pub struct HelperArguments {
    /// Maximum number of helpers of one operation [default: 16, at most the number of processors]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    pub helpers: Option<u16>,
}

/// `bigiron mem create`.
#[derive(Debug, Args)]
#[command(after_long_help = CREATE_HELP)]
pub struct CreateArguments {
    /// Size, such as 4G; rounded up to whole pages
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub size: u64,
    /// Kind of memory [default: sysv without a NAME; posix for a NAME, file for a path]
    #[arg(long, value_name = "KIND")]
    pub kind: Option<Kind>,
    /// Name of POSIX shared memory, or path of a file
    #[arg(value_name = "NAME")]
    pub name: Option<PathBuf>,
    /// Key of a System V segment, such as 17 or 0x11 [default: none]
    #[arg(long, value_name = "K", value_parser = key, conflicts_with = "name")]
    pub key: Option<i32>,
    /// Permissions, as for chmod
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    pub mode: u32,
    /// Huge pages: auto, never, or the page size of a hugetlb pool, such as 2M or 1G
    #[arg(long, value_name = "PAGES", default_value = "auto", value_parser = huge)]
    pub huge: Huge,
    /// Lock a System V segment, so that it is never swapped out
    #[arg(long)]
    pub lock: bool,
    /// Number of files NAME.0, NAME.1, …, which can be freed in parallel
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    pub stripes: u8,
    /// NUMA nodes: local, spread, interleave=NODES or bind=NODES, with NODES such as 0-3,6
    #[arg(long, value_name = "NODES", default_value = "local", value_parser = numa)]
    pub numa: Numa,
    /// Options for helpers.
    #[command(flatten)]
    pub helpers: HelperArguments,
    /// Options for the output.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// Options for the output.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArguments {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print only the names of what was created, and errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// `bigiron mem destroy`.
#[derive(Debug, Args)]
#[command(after_long_help = DESTROY_HELP)]
pub struct DestroyArguments {
    /// Ids or keys (0x…) of System V segments, names of POSIX shared memory, paths
    #[arg(required = true, value_name = "SEGMENT")]
    pub targets: Vec<String>,
    /// Wait until the memory is freed
    #[arg(long)]
    pub wait: bool,
    /// Make only the system call, without helpers or a reaper
    #[arg(long)]
    pub plain: bool,
    /// Options for helpers.
    #[command(flatten)]
    pub helpers: HelperArguments,
    /// Options for the output.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// `bigiron mem prewarm`.
#[derive(Debug, Args)]
pub struct PrewarmArguments {
    /// Ids or keys (0x…) of System V segments, names of POSIX shared memory, paths
    #[arg(required = true, value_name = "SEGMENT|FILE")]
    pub targets: Vec<String>,
    /// Lock System V segments, so that they are never swapped out
    #[arg(long)]
    pub lock: bool,
    /// Pages of shared memory: auto uses huge pages where possible, never uses small ones
    #[arg(long, value_name = "PAGES", default_value = "auto", value_parser = huge)]
    pub huge: Huge,
    /// Options for helpers.
    #[command(flatten)]
    pub helpers: HelperArguments,
    /// Options for the output.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// `bigiron mem kill`.
#[derive(Debug, Args)]
#[command(after_long_help = KILL_HELP)]
pub struct KillArguments {
    /// Ids of processes
    #[arg(required = true, value_name = "PID")]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub processes: Vec<i32>,
    /// Maximum number of helpers; 0 only sends the signal
    #[arg(long, value_name = "N", default_value_t = HELPERS as u16)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=64))]
    pub helpers: u16,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print only errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// `bigiron mem explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const CREATE_HELP: &str = "\
The id or the names are printed on standard output, everything else on standard error. A name appears \
once the memory is populated. The memory is ordinary: any program can attach or open it, and ipcrm or rm \
removes it.

Examples:
  id=$(bigiron mem create --size 64G --lock)
  bigiron mem create --size 8G --stripes 8 --mode 660 cache
  bigiron mem create --size 16G --huge 1G --numa interleave=0-1";

const KILL_HELP: &str = "\
The signal is SIGKILL. The kernel frees a process's memory with one processor; helpers free its private memory \
at the same time (Linux 5.15), if they begin before the process has left it. The command returns when the processes \
have ended.

Examples:
  bigiron mem kill $(pidof server)
  ExecStop=/usr/bin/bigiron mem kill $MAINPID";

const DESTROY_HELP: &str = "\
The segment no longer exists when the command returns; a reaper process may still be freeing its memory. \
--wait waits until it is done and reports both times. Memory that other processes still use is freed when they end.";

fn key(text: &str) -> Result<i32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).map(u32::cast_signed),
        None => text.parse(),
    };
    let number = number.ok().filter(|key| *key != 0);
    number
        .ok_or_else(|| format!("invalid key {text:?}: expected a number such as 17 or 0x11, not 0"))
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    let mode = mode.filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("invalid mode {text:?}: expected permissions such as 600 or 664"))
}

fn huge(text: &str) -> Result<Huge, String> {
    let wrong =
        || format!("invalid page size {text:?}: expected auto, never or a size such as 2M or 1G");
    match text {
        "auto" => Ok(Huge::Auto),
        "never" => Ok(Huge::Never),
        size => {
            let bytes = size::parse(size).map_err(|_| wrong())?;
            let bytes = usize::try_from(bytes)
                .ok()
                .filter(|size| size.is_power_of_two());
            bytes.map(Huge::Pool).ok_or_else(wrong)
        }
    }
}

fn numa(text: &str) -> Result<Numa, String> {
    Numa::parse(text).map_err(|error| error.to_string())
}

/// `bigiron mem run`.
#[derive(Debug, Args)]
#[command(after_long_help = run_help())]
pub struct RunArguments {
    /// File of assignments KEY=VALUE, one per line; # starts a comment
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Maximum number of helpers of one operation [default: 16, at most the number of processors]
    #[arg(long, value_name = "N")]
    pub helpers: Option<String>,
    /// Minimum size of accelerated requests [default: 8M]
    #[arg(long, value_name = "SIZE")]
    pub threshold: Option<String>,
    /// Treatment, at shmat, of segments that the program has created: plain, huge, create or
    /// lock
    #[arg(long, value_name = "HOW")]
    pub attach: Option<String>,
    /// Method of freeing memory: plain, parallel or reaper
    #[arg(long, value_name = "HOW")]
    pub destroy: Option<String>,
    /// Assignment to any key of the policy
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Report the accelerated calls and the time saved, on standard error or appended to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "stderr")]
    pub trace: Option<OsString>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

fn run_help() -> String {
    let width = KEYS.iter().map(|key| key.name.len()).max().unwrap_or(0);
    let keys: String = KEYS
        .iter()
        .map(|key| format!("  {:width$}  {}: {}\n", key.name, key.values, key.meaning))
        .collect();
    format!(
        "\
The program runs in the same process, and the exit code is the program's (125 if bigiron fails, 126 if the \
program cannot be executed, 127 if it does not exist). Assignments are applied in this order: the environment \
variable BIGIRON_MEM, --policy, the other options.

Keys of a policy:
{keys}
Programs without the C library's dynamic loader (static programs, most Go programs) and setuid programs \
run as usual, unaccelerated.

Examples:
  bigiron mem run -- postgres -D data
  bigiron mem run --helpers 8 --trace=/tmp/trace -- java -Xms64g -XX:+AlwaysPreTouch -jar server.jar
  bigiron mem run --set huge=never --attach lock -- ./server"
    )
}
