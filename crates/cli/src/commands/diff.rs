//! `bigiron diff`: compares the pages of two dumps.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use bigiron_dump::{Comparison, FrameRuns, Progress, compare};
use bigiron_helpers::Stop;
use clap::Args;
use serde::Serialize;

use crate::arguments::{ReaderArguments, threads};
use crate::memory_limit::ReadBuffers;
use crate::sandbox::Needs;
use crate::source::{self, Files};
use crate::tell::tell;
use crate::{progress, signals, size, summary};

/// `bigiron diff`.
#[derive(Debug, Args)]
#[command(after_long_help = DIFF_HELP)]
pub struct DiffArguments {
    /// A dump in any format; all parts of a split or striped one as A,B,C
    pub first: PathBuf,
    /// Another dump of the same machine
    pub second: PathBuf,
    /// Read FIRST as a raw image of memory: a file with its ranges of addresses as in /proc/iomem,
    /// or `flat` for one range from address 0 on
    #[arg(long, value_name = "FILE")]
    pub memory_map: Option<PathBuf>,
    /// The same for SECOND
    #[arg(long, value_name = "FILE")]
    pub second_memory_map: Option<PathBuf>,
    /// File with age secret keys, for encrypted dumps
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// What an untrusted dump can cost.
    #[command(flatten)]
    pub reader: ReaderArguments,
    /// Print every run of page frames that differs, one per line
    #[arg(short, long)]
    pub list: bool,
    /// Helper threads [default: one per CPU]
    #[arg(short = 'j', long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
    /// Print the result as JSON
    #[arg(long, conflicts_with = "list")]
    pub json: bool,
    /// Print only errors
    #[arg(short, long, conflicts_with_all = ["list", "json"])]
    pub quiet: bool,
}

const DIFF_HELP: &str = "\
Exit status: 0 both have the same pages with the same bytes; 1 they differ; 2 they cannot be \
compared. A page that one dump excludes and the other keeps is a difference, even if it is zero.

Each line of --list has the kind of difference (different, only-first, only-second, unreadable), \
the first page frame, and the number of page frames.

Examples:
  bigiron diff vmcore.kdump vmcore.vmdump
  bigiron diff --list monday tuesday | grep ^different";

/// Exit code of cmp(1) and diff(1) if the files cannot be compared.
pub const CANNOT_COMPARE: u8 = 2;
const DIFFERENT: u8 = 1;

#[derive(Serialize)]
struct Report<'a> {
    first: &'a Path,
    second: &'a Path,
    is_equal: bool,
    equal: u64,
    different: Frames,
    only_first: Frames,
    only_second: Frames,
    unreadable: Frames,
    /// End of RAM in each dump: the first page frame after the highest one of RAM.
    ends: [u64; 2],
}

#[derive(Serialize)]
struct Frames {
    count: u64,
    /// First page frame and length of each run.
    runs: Vec<(u64, u64)>,
    /// True if there are more runs than listed.
    more: bool,
}

impl From<&FrameRuns> for Frames {
    fn from(frames: &FrameRuns) -> Self {
        let runs = frames.runs().iter();
        Self {
            count: frames.count(),
            runs: runs.map(|run| (run.first.0, run.count)).collect(),
            more: !frames.is_complete(),
        }
    }
}

/// Compares the dumps and prints the result.
pub fn run(arguments: &DiffArguments) -> anyhow::Result<ExitCode> {
    let stop = Stop::new();
    signals::watch(&stop)?;
    let reader = arguments.reader;
    reader.time.begin(std::slice::from_ref(&arguments.first))?;
    let identity = arguments.identity.as_deref();
    let open = |path: &Path, map: &Option<PathBuf>| {
        Files::open_named(&source::parts_of(path), identity)?.with_memory_map(map.as_deref())
    };
    let first = open(&arguments.first, &arguments.memory_map)?;
    let second = open(&arguments.second, &arguments.second_memory_map)?;
    let helpers = threads(arguments.threads);
    let buffers = ReadBuffers { helpers, cache: 0 };
    reader.confine(&[&first, &second], &Needs::Nothing, buffers);
    let (first, second) = (first.parse()?, second.parse()?);
    for source in [&first, &second] {
        if let Some(damage) = source.damage() {
            let name = source.path().display();
            tell!("bigiron: warning: {name} is incomplete: {damage}");
        }
    }
    let progress = Arc::new(Progress::new());
    let page_size = 1 << first.memory().page_shift();
    let display = progress::begin(&progress, page_size, arguments.quiet);
    let found = compare(first.memory(), second.memory(), helpers, &progress, &stop);
    drop(display);
    let found = found?;
    if arguments.json {
        summary::print(&json(arguments, &found)?, false)?;
    } else if arguments.list {
        summary::print(list(&found).trim_end(), false)?;
    } else if !arguments.quiet {
        summary::print(text(arguments, &found).trim_end(), false)?;
    }
    Ok(match found.is_equal() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(DIFFERENT),
    })
}

fn json(arguments: &DiffArguments, found: &Comparison) -> anyhow::Result<String> {
    let report = Report {
        first: &arguments.first,
        second: &arguments.second,
        is_equal: found.is_equal(),
        equal: found.equal,
        different: (&found.different).into(),
        only_first: (&found.only_first).into(),
        only_second: (&found.only_second).into(),
        unreadable: (&found.unreadable).into(),
        ends: [found.ends.0.0, found.ends.1.0],
    };
    Ok(serde_json::to_string_pretty(&report)?)
}

fn list(found: &Comparison) -> String {
    let mut out = String::new();
    let kinds = [
        ("different", &found.different),
        ("only-first", &found.only_first),
        ("only-second", &found.only_second),
        ("unreadable", &found.unreadable),
    ];
    for (kind, frames) in kinds {
        for run in frames.runs() {
            let _ = writeln!(out, "{kind} {:#x} {}", run.first.0, run.count);
        }
        if !frames.is_complete() {
            let listed: u64 = frames.runs().iter().map(|run| run.count).sum();
            let _ = writeln!(out, "# and {} more: {kind}", frames.count() - listed);
        }
    }
    out
}

fn text(arguments: &DiffArguments, found: &Comparison) -> String {
    let (first, second) = (arguments.first.display(), arguments.second.display());
    let mut out = format!("{} pages are equal\n", size::group(found.equal));
    let kinds = [
        ("differ".to_owned(), &found.different),
        (format!("are only in {first}"), &found.only_first),
        (format!("are only in {second}"), &found.only_second),
        ("cannot be read".to_owned(), &found.unreadable),
    ];
    for (what, frames) in kinds {
        if let Some(frame) = frames.first() {
            let count = size::group(frames.count());
            let _ = writeln!(
                out,
                "{count} {what}, the first at page frame {:#x}",
                frame.0
            );
        }
    }
    out
}
