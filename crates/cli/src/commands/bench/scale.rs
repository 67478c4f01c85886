//! `bigiron bench scale`: predicts dump times of larger machines.

use std::path::PathBuf;

use anyhow::Context;
use bigiron_bench::machine::Machine;
use bigiron_bench::scale::calibrate::{Calibration, Sample};
use bigiron_bench::scale::check::{self, Plan};
use bigiron_bench::scale::costs::Costs;
use bigiron_bench::scale::large::{self, Hardware};
use bigiron_bench::scale::{plot, remap, service, solaris, windows};
use bigiron_format::codec::Compression;
use bigiron_kernel::{DumpLevel, IoMethod, Kernel, PhysicalMemory, Source};
use clap::Args;
use serde::Serialize;

use super::scale_report as tables;
use crate::size;
use crate::summary;
use crate::tell::tell;

/// Codecs whose costs are measured; dumps are made with the first three.
const CODECS: [&str; 4] = ["none", "lzo", "zstd:1", "zstd:-3"];
const CHECKED: usize = 3;

/// `bigiron bench scale`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub struct ScaleArguments {
    /// Dump on whose pages the costs are measured; without it, stated costs are used
    source: Option<PathBuf>,
    /// Dump level: pages of SOURCE to exclude
    #[arg(short = 'd', long, value_name = "0..31", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=31))]
    dump_level: u8,
    /// Runs per cost and per dump, of which the median is used
    #[arg(long, default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Measure only the costs; make no dumps to check the model
    #[arg(long)]
    no_check: bool,
    /// Directory for samples and dumps [default: that of SOURCE]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    /// Write rate of each disk of the large machine, in bytes per second, such as 2G
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    disk_rate: Option<u64>,
    /// Memory read rate of all helpers of the large machine together, in bytes per second
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    bus_rate: Option<u64>,
    /// Memory for all helpers of the large machine together
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory_limit: Option<u64>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Draw dump time against the number of helpers
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

const HELP: &str = "\
Without SOURCE, prints the model's predictions for published measurements, and for a machine of \
32 TB with stated costs. With SOURCE, measures the costs on this machine, makes dumps with 1 and 2 \
helpers next to SOURCE, and prints the model's predictions for them.

docs/scale.md describes the model and what it leaves out.";

#[derive(Serialize)]
struct Everything<'a> {
    machine: &'a Machine,
    calibration: Option<&'a Calibration>,
    costs: &'a Costs,
    check: &'a [check::Row],
    solaris: &'a [solaris::Prediction],
    vmcore_access: &'a [remap::Row],
    vmcore_windows: &'a [windows::Row],
    large: &'a Hardware,
    large_kept: Vec<(u8, bigiron_bench::scale::costs::Kept)>,
    large_table: &'a [large::Cell],
    service: &'a [service::ServiceRow],
}

/// Measures the costs if there is a source, simulates, and prints the tables.
pub fn run(arguments: &ScaleArguments) -> anyhow::Result<()> {
    if let Some(path) = &arguments.plot {
        anyhow::ensure!(
            path.extension().is_some_and(|extension| extension == "svg"),
            "{}: the plot is an SVG; its name must end in .svg",
            path.display()
        );
    }
    let here = Machine::here();
    let measured = match &arguments.source {
        Some(source) => Some(measure(arguments, source.clone())?),
        None => None,
    };
    let costs = match &measured {
        Some((calibration, _)) => calibration.costs.clone(),
        None => Costs::stated(),
    };
    let mut hardware = Hardware::default();
    if let Some(rate) = arguments.disk_rate {
        hardware.disk_rate = rate as f64;
    }
    if let Some(rate) = arguments.bus_rate {
        hardware.bus_rate = rate as f64;
    }
    hardware.memory = arguments.memory_limit.unwrap_or(hardware.memory);
    let (past, accesses) = (solaris::predictions(), remap::rows());
    let mapped = windows::rows();
    let cells = large::table(&costs, &hardware);
    let services = service::rows(&costs, &hardware);
    if let Some(path) = &arguments.plot {
        let picture = picture(&costs, &hardware, &past)?;
        std::fs::write(path, picture)
            .with_context(|| format!("{}: cannot write the plot", path.display()))?;
    }
    if arguments.json {
        let everything = Everything {
            machine: &here,
            calibration: measured.as_ref().map(|measured| &measured.0),
            costs: &costs,
            check: measured.as_ref().map_or(&[], |measured| &measured.1),
            solaris: &past,
            vmcore_access: &accesses,
            vmcore_windows: &mapped,
            large: &hardware,
            large_kept: large::LEVELS
                .map(|level| (level, large::kept(level)))
                .into(),
            large_table: &cells,
            service: &services,
        };
        return Ok(summary::print(
            &serde_json::to_string_pretty(&everything)?,
            false,
        )?);
    }
    let mut parts = Vec::new();
    if let Some((calibration, rows)) = &measured {
        parts.push(here.line());
        parts.push(tables::calibration(calibration));
        if !rows.is_empty() {
            parts.push(tables::check(rows));
        }
    }
    parts.push(tables::solaris(&past));
    parts.push(tables::vmcore_access(&accesses));
    parts.push(tables::mapped_windows(&mapped));
    parts.push(tables::large(&costs, &hardware, &cells));
    parts.push(tables::service(&hardware, &services));
    Ok(summary::print(&parts.join("\n\n"), false)?)
}

fn measure(
    arguments: &ScaleArguments,
    path: PathBuf,
) -> anyhow::Result<(Calibration, Vec<check::Row>)> {
    let source = Source::open(std::slice::from_ref(&path))?;
    let kernel = Kernel::find(
        &source,
        None,
        IoMethod::Read,
        PhysicalMemory::DEFAULT_CACHE_PAGES,
    )?;
    let level = DumpLevel::new(arguments.dump_level).unwrap_or(DumpLevel::MAX);
    let beside = || match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let codecs: Result<Vec<Compression>, _> = CODECS.iter().map(|name| name.parse()).collect();
    let plan = Plan {
        directory: arguments.directory.clone().unwrap_or_else(beside),
        program: (!arguments.no_check).then_some(program),
        level,
        codecs: codecs?,
        checked: CHECKED,
        runs: usize::from(arguments.runs),
        source: path,
    };
    tell!("bigiron: counting pages");
    let sample = Sample::take(&kernel, level)?;
    check::run(&plan, &sample, &|what| tell!("bigiron: {what}"))
}

/// Draws time against helpers for a machine of 32 TB, with one line per number of disks, and
/// the Solaris systems.
fn picture(
    costs: &Costs,
    hardware: &Hardware,
    past: &[solaris::Prediction],
) -> anyhow::Result<String> {
    use plot::{Line, Series, Style};
    let name = "zstd:1";
    let codec = costs.codec(name).context("zstd:1 has no costs")?;
    let kept = large::kept(31);
    let mut series = Vec::new();
    for system in past.iter().map(|prediction| prediction.system) {
        let most = system.cpus - 1;
        let points = helpers_up_to(most)
            .map(|helpers| (helpers as f64, system.parallel(helpers).seconds))
            .collect();
        series.push(Series {
            name: String::new(),
            points,
            style: Style::Past,
        });
        series.push(Series {
            name: system.name.into(),
            points: vec![(most as f64, system.after)],
            style: Style::Measured,
        });
    }
    for (colour, disks) in [1, 4, 16].into_iter().enumerate() {
        let points = helpers_up_to(1024)
            .map(|helpers| {
                let outcome = large::dump(costs, hardware, &kept, codec, helpers, (disks, false));
                (helpers as f64, outcome.seconds)
            })
            .collect();
        let plural = if disks == 1 { "" } else { "s" };
        series.push(Series {
            name: format!("{disks} disk{plural}"),
            points,
            style: Style::Line(Line::bold(colour)),
        });
    }
    let title = "More helpers help until the disks are saturated";
    let subtitle = format!(
        "32 TB of memory, dump level 31 keeps 3 % of it, {name}, disks of {:.1} GB/s",
        hardware.disk_rate / 1e9
    );
    Ok(plot::svg(title, &subtitle, series))
}

/// Returns 1, 2, 3, 4, 6, 8, 11 and so on (rounded powers of √2), up to and including `most`.
fn helpers_up_to(most: usize) -> impl Iterator<Item = usize> {
    let mut all: Vec<usize> = (0..)
        .map(|step| 2_f64.powf(f64::from(step) / 2.0).round() as usize)
        .take_while(|helpers| *helpers < most)
        .chain([most])
        .collect();
    all.dedup();
    all.into_iter()
}
