//! The arguments of `bigiron mem`.

use std::ffi::OsString;
use std::path::PathBuf;

use bigiron_memory::policy::KEYS;
use bigiron_memory::segment::{Huge, Numa};
use clap::{Args, Subcommand, ValueEnum};

use crate::size;

#[cfg(feature = "bench")]
use crate::commands::mem::bench::BenchArguments;

/// `bigiron mem`.
#[derive(Debug, Args)]
pub struct MemoryArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: MemoryCommand,
}

/// What to do with large memory.
#[derive(Debug, Subcommand)]
pub enum MemoryCommand {
    /// Measure creating, locking and destroying memory: the plain calls beside helpers
    #[cfg(feature = "bench")]
    Bench(BenchArguments),
    /// Make a segment or file of shared memory, all its pages at once
    Create(CreateArguments),
    /// Remove segments or files of shared memory
    Destroy(DestroyArguments),
    /// Say what can be faster on this machine, what stands in the way, and how to change it
    Explain(ExplainArguments),
    /// Make the pages of segments and files that are there: of files, those of the page cache
    Prewarm(PrewarmArguments),
    /// Run a program whose large memory is made, locked and given back by helpers
    Run(RunArguments),
}

/// Kinds of memory that outlive who makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A System V segment, with an id (ipcs)
    Sysv,
    /// POSIX shared memory, with a name (/dev/shm)
    Posix,
    /// A file of hugetlbfs: NAME in its mount, or a path
    Hugetlbfs,
    /// A file anywhere: with its room on a disk, or in tmpfs
    File,
}

/// How the work is shared.
#[derive(Clone, Copy, Debug, Args)]
pub struct HelperArguments {
    /// The most helpers of one operation [default: 16, and never more than processors]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    pub helpers: Option<u16>,
}

/// `bigiron mem create`.
#[derive(Debug, Args)]
#[command(after_long_help = CREATE_HELP)]
pub struct CreateArguments {
    /// How large, as in 4G; grown to whole pages
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub size: u64,
    /// The kind [default: sysv without a NAME; posix for a NAME, file for a path]
    #[arg(long, value_name = "KIND")]
    pub kind: Option<Kind>,
    /// The name of POSIX shared memory, or the path of a file
    #[arg(value_name = "NAME")]
    pub name: Option<PathBuf>,
    /// The key of a System V segment, as 17 or 0x11 [default: none]
    #[arg(long, value_name = "K", value_parser = key, conflicts_with = "name")]
    pub key: Option<i32>,
    /// Who may use it, as for chmod
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    pub mode: u32,
    /// Huge pages: auto, never, or the size of those of the pool, as 2M or 1G
    #[arg(long, value_name = "PAGES", default_value = "auto", value_parser = huge)]
    pub huge: Huge,
    /// Lock a System V segment, so that it is never swapped out
    #[arg(long)]
    pub lock: bool,
    /// Several files side by side, so that several processors give them back: NAME.0, NAME.1, …
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    pub stripes: u8,
    /// Nodes: local, spread, interleave=NODES or bind=NODES, with NODES as in 0-3,6
    #[arg(long, value_name = "NODES", default_value = "local", value_parser = numa)]
    pub numa: Numa,
    /// How the work is shared.
    #[command(flatten)]
    pub helpers: HelperArguments,
    /// How the result is told.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// How a result is told.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArguments {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Say nothing but what was made, and errors
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
    /// Wait until the memory is free
    #[arg(long)]
    pub wait: bool,
    /// By the kernel's call alone, without helpers and reaper
    #[arg(long)]
    pub plain: bool,
    /// How the work is shared.
    #[command(flatten)]
    pub helpers: HelperArguments,
    /// How the result is told.
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
    /// Missing pages of shared memory: auto makes huge ones where it can, never small ones
    #[arg(long, value_name = "PAGES", default_value = "auto", value_parser = huge)]
    pub huge: Huge,
    /// How the work is shared.
    #[command(flatten)]
    pub helpers: HelperArguments,
    /// How the result is told.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// `bigiron mem explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

const CREATE_HELP: &str = "\
The id or the names are printed on standard output, all else on standard error. A name appears when \
the memory is whole. It is ordinary memory of the system: any program attaches or opens it, and ipcrm or \
rm removes it.

Examples:
  id=$(bigiron mem create --size 64G --lock)
  bigiron mem create --size 8G --stripes 8 --mode 660 cache
  bigiron mem create --size 16G --huge 1G --numa interleave=0-1";

const DESTROY_HELP: &str = "\
It is gone for all who look when this returns; a reaper, a process of its own, may give its memory \
back for some time after. That is told apart with --wait. Memory that others still use goes when they end.";

fn key(text: &str) -> Result<i32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).map(u32::cast_signed),
        None => text.parse(),
    };
    let number = number.ok().filter(|key| *key != 0);
    number.ok_or_else(|| format!("{text:?} is no key; write it like 17 or 0x11, not 0"))
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    let mode = mode.filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("{text:?} is no mode; write it like 600 or 664"))
}

fn huge(text: &str) -> Result<Huge, String> {
    let wrong = || format!("{text:?} is not auto, never or a size such as 2M or 1G");
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
    /// A file of assignments KEY=VALUE, one a line; # begins a comment
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The most helpers of one operation [default: 16, and never more than processors]
    #[arg(long, value_name = "N")]
    pub helpers: Option<String>,
    /// Smaller requests go straight to the kernel [default: 8M]
    #[arg(long, value_name = "SIZE")]
    pub threshold: Option<String>,
    /// What shmat does with a segment that the program made: plain, huge, create or lock
    #[arg(long, value_name = "HOW")]
    pub attach: Option<String>,
    /// How memory is given back: plain, parallel or reaper
    #[arg(long, value_name = "HOW")]
    pub destroy: Option<String>,
    /// Any key of the policy
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Say what was accelerated and what it saved, on standard error or at the end of FILE
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
The program is the one that was named, with the same process number, and its exit code is the result \
(125 where bigiron fails, 126 and 127 where the program cannot be run or is not there). What is assigned in \
the environment variable BIGIRON_MEM counts first, then --policy, then the other options.

Keys of a policy:
{keys}
Programs without the dynamic loader of the C library (static ones, most of Go's) and setuid programs \
run as ever.

Examples:
  bigiron mem run -- postgres -D data
  bigiron mem run --helpers 8 --trace=/tmp/trace -- java -Xms64g -XX:+AlwaysPreTouch -jar server.jar
  bigiron mem run --set huge=never --attach lock -- ./server"
    )
}
