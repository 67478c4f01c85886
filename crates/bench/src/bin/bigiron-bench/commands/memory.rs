//! `bigiron-bench memory`: measures the memory used by dumps of small and large machines.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use bigiron_bench::memory::{MemoryCase, MemoryResult, default_directory};
use bigiron_bench::output::print;
use bigiron_dump::{ChunkCompression, DumpOptions, Format as DumpFormat, ZstdChunks};
use bigiron_format::codec::{Codec, Compression};
use bigiron_helpers::{format_size, group_digits, parse_size};
use clap::{Args, ValueEnum};

/// Dump format.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// kdump-compressed
    Kdump,
    /// kdump-compressed, flattened
    Flattened,
    /// vmdump
    Vmdump,
    /// ELF core
    Elf,
}

impl From<Format> for DumpFormat {
    fn from(format: Format) -> Self {
        let zstd = Compression::new(Codec::Zstd);
        match format {
            Format::Kdump => Self::kdump(zstd),
            Format::Flattened => Self::Kdump {
                compression: zstd.into(),
                flattened: true,
            },
            Format::Vmdump => Self::Vmdump(ChunkCompression::Zstd(ZstdChunks::default())),
            Format::Elf => Self::ELF,
        }
    }
}

/// `bigiron-bench memory`.
#[derive(Debug, Args)]
pub struct MemoryArguments {
    /// Sizes of the generated machines, up to 32T
    #[arg(long, value_delimiter = ',', default_value = "1G,64G,1T,32T", value_parser = parse_size)]
    sizes: Vec<u64>,
    /// Helper threads
    #[arg(long, value_delimiter = ',', default_value = "1,2,4", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Vec<u16>,
    /// Format of the dumps
    #[arg(short, long, value_enum, default_value_t = Format::Kdump)]
    format: Format,
    /// Filter all struct pages of machines above 1 TiB, instead of a sample
    #[arg(long)]
    every_struct_page: bool,
    /// Directory for the dumps, one at a time [default: the directory for temporary files]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Make a single dump in this process and print its result
    #[arg(long, hide = true)]
    in_this_process: bool,
}

/// Makes each dump in a child process, so that it has its own peak.
pub fn run(arguments: &MemoryArguments) -> anyhow::Result<()> {
    let directory = arguments
        .directory
        .clone()
        .unwrap_or_else(default_directory);
    if arguments.in_this_process {
        return run_here(arguments, &directory);
    }
    let mut results = Vec::new();
    if !arguments.json {
        print(&heading())?;
    }
    for size in &arguments.sizes {
        for threads in &arguments.threads {
            let result = run_child(arguments, *size, *threads, &directory)?;
            if !arguments.json {
                print(&line(&result))?;
            }
            results.push(result);
        }
    }
    if arguments.json {
        print(&serde_json::to_string_pretty(&results)?)?;
    }
    let over = results.iter().filter(|result| result.over().is_some());
    match over.count() {
        0 => Ok(()),
        count => bail!(
            "{count} of {} dumps took more memory than allowed",
            results.len()
        ),
    }
}

/// Runs the case of a child: one size, one number of threads.
fn run_here(arguments: &MemoryArguments, directory: &Path) -> anyhow::Result<()> {
    let ([size], [threads]) = (&arguments.sizes[..], &arguments.threads[..]) else {
        bail!("--in-this-process requires one size and one number of threads");
    };
    let options = DumpOptions {
        threads: usize::from(*threads),
        ..DumpOptions::default()
    };
    let case = MemoryCase {
        size: *size,
        every_struct_page: arguments.every_struct_page,
    };
    let result = case.run(arguments.format.into(), &options, directory)?;
    Ok(print(&serde_json::to_string(&result)?)?)
}

fn run_child(
    arguments: &MemoryArguments,
    size: u64,
    threads: u16,
    directory: &Path,
) -> anyhow::Result<MemoryResult> {
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    let mut command = Command::new(&program);
    command
        .args(["memory", "--in-this-process"])
        .arg(format!("--sizes={size}"))
        .arg(format!("--threads={threads}"))
        .arg(format!("--format={}", format_name(arguments.format)))
        .arg("--directory")
        .arg(directory)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if arguments.every_struct_page {
        command.arg("--every-struct-page");
    }
    let output = command
        .output()
        .with_context(|| format!("{}: cannot start the program", program.display()))?;
    ensure!(
        output.status.success(),
        "the dump of a machine of {} with {threads} threads failed: {}",
        format_size(size),
        output.status
    );
    serde_json::from_slice(&output.stdout).context("cannot parse the child's result")
}

fn format_name(format: Format) -> String {
    let value = format.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn heading() -> String {
    format!(
        "{:>10} {:>7} {:>10} {:>10} {:>12} {:>14} {:>11} {:>7}",
        "memory", "helpers", "peak", "allowed", "", "struct pages", "copied", "time"
    )
}

fn line(result: &MemoryResult) -> String {
    let verdict = match result.over() {
        None => "PASS".to_owned(),
        Some(excess) => format!("+{}", format_size(excess)),
    };
    format!(
        "{:>10} {:>7} {:>10} {:>10} {verdict:>12} {:>14} {:>11} {:>6.1}s",
        format_size(result.size),
        result.helpers,
        format_size(result.peak),
        format_size(result.allowed),
        group_digits(result.struct_pages),
        group_digits(result.copied_pages),
        result.seconds
    )
}
