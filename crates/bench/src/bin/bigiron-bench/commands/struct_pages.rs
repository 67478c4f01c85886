//! `bigiron-bench struct-pages`: measures what struct pages of excluded pages cost.

use std::fmt::Write as _;

use bigiron_bench::generated::{GeneratedMachine, LARGEST, MachineOptions, Mixture};
use bigiron_bench::machine::Machine;
use bigiron_bench::output::OutputArguments;
use bigiron_dump::{
    ChunkCompression, DumpOptions, DumpOutput, Format, OutputTarget, Progress, ZstdChunks, dump,
};
use bigiron_format::codec::Compression;
use bigiron_helpers::{Stop, format_size, parse_size};
use bigiron_kernel::{Kernel, PhysicalMemory};
use clap::Args;
use serde::Serialize;

/// Machines by what their memory is used for.
const MACHINES: [(&str, Mixture); 3] = [
    ("idle", Mixture::IDLE),
    ("database", Mixture::DATABASE),
    ("lean database", Mixture::LEAN_DATABASE),
];

/// `bigiron-bench struct-pages`.
#[derive(Debug, Args)]
pub struct StructPagesArguments {
    /// Sizes of the generated machines, up to 32T
    #[arg(long, value_delimiter = ',', default_value = "16G", value_parser = parse_size)]
    sizes: Vec<u64>,
    /// Only rows with this text in `MACHINE, FORMAT`, such as "lean database, kdump, zstd"
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    only: String,
    /// Helper threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Output of the results.
    #[command(flatten)]
    output: OutputArguments,
}

/// A dump of level 31.
#[derive(Debug, Serialize)]
struct Row {
    machine: &'static str,
    memory: u64,
    format: &'static str,
    struct_pages: &'static str,
    /// Bytes of pages that were read to be copied.
    bytes_in: u64,
    bytes_out: u64,
    filter_seconds: f64,
    copy_seconds: f64,
}

/// Dumps each machine with all struct pages, and with those of kept pages; nothing is stored.
pub fn run(arguments: &StructPagesArguments) -> anyhow::Result<()> {
    let here = Machine::here();
    let mut rows = Vec::new();
    for memory in &arguments.sizes {
        anyhow::ensure!(
            *memory <= LARGEST,
            "the size is larger than {LARGEST} bytes"
        );
        for (name, mixture) in MACHINES {
            let machine = GeneratedMachine::new(MachineOptions {
                mixture,
                ..MachineOptions::whole(*memory)
            });
            let formats = [
                ("kdump, lzo", Format::kdump("lzo".parse::<Compression>()?)),
                (
                    "kdump, zstd:1",
                    Format::kdump("zstd:1".parse::<Compression>()?),
                ),
                (
                    "vmdump, zstd:1",
                    Format::Vmdump(ChunkCompression::Zstd(ZstdChunks::default())),
                ),
            ];
            for (format_name, format) in formats {
                if !format!("{name}, {format_name}").contains(&arguments.only) {
                    continue;
                }
                for (struct_pages, without_struct_pages) in [("all", false), ("kept", true)] {
                    let options = DumpOptions {
                        threads: arguments.threads,
                        without_struct_pages,
                        ..DumpOptions::default()
                    };
                    let pages = PhysicalMemory::DEFAULT_CACHE_PAGES;
                    let path = machine.path();
                    let kernel = Kernel::find_in(&machine, path, None, options.io, pages)?;
                    let output = DumpOutput::whole(format, OutputTarget::Nowhere);
                    let (progress, stop) = (Progress::new(), Stop::new());
                    let summary = dump(&kernel.into(), &output, &options, &progress, &stop)?;
                    let seconds = |name: &str| {
                        let phase = summary.phases.iter().find(|phase| phase.name == name);
                        phase.map_or(0.0, |phase| phase.time.as_secs_f64())
                    };
                    rows.push(Row {
                        machine: name,
                        memory: *memory,
                        format: format_name,
                        struct_pages,
                        bytes_in: summary.bytes_in,
                        bytes_out: summary.bytes_out,
                        filter_seconds: seconds("filter"),
                        copy_seconds: seconds("copy"),
                    });
                }
            }
        }
    }
    arguments
        .output
        .print(&here, "struct-pages", &rows, |rows| table(rows))
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>9}  {:14} {:15} {:6} {:>11} {:>11} {:>10} {:>10}\n",
        "memory", "machine", "format", "struct", "read", "written", "filter", "copy"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:>9}  {:14} {:15} {:6} {:>11} {:>11} {:>8.1} s {:>8.1} s",
            format_size(row.memory),
            row.machine,
            row.format,
            row.struct_pages,
            format_size(row.bytes_in),
            format_size(row.bytes_out),
            row.filter_seconds,
            row.copy_seconds
        );
    }
    text
}
