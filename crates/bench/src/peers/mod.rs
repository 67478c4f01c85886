//! bigiron compared with its peers on the same source: makedumpfile, compressors of whole
//! files, and the bare codec as the limit.
//!
//! The programs run in turns, because machines are shared and noisy; results are medians. Their
//! outputs are compared page by page.

mod agreement;
mod bare_chunks;
mod child;
mod limit;
mod options;
mod output_directory;
mod programs;
mod references;
mod report;
mod row;
mod series;
mod table;

use anyhow::Context;
use bigiron_format::codec::{Codec, Compression};
use bigiron_helpers::Stop;
use bigiron_kernel::{IoMethod, Kernel, PhysicalMemory, Source};

use crate::results::median;
use child::{Ending, Job};
use limit::Sample;
use programs::Program;
use row::Rows;

pub use agreement::{Agreement, Frames};
pub use child::Run;
pub use options::PeersOptions;
pub use output_directory::OutputDirectory;
pub use report::{Bare, Level, Ratios, Reference, Report, Row, SourceInfo};
pub use series::Series;

/// Space for headers, bitmaps and messages in addition to the pages, in bytes.
const ROOM_BESIDE_PAGES: u64 = 64 << 20;

/// Measures everything. `say` receives progress messages.
pub fn run(options: &PeersOptions, stop: &Stop, say: &dyn Fn(&str)) -> anyhow::Result<Report> {
    let source = Source::open(std::slice::from_ref(&options.source))?;
    let cache = PhysicalMemory::DEFAULT_CACHE_PAGES;
    let kernel = Kernel::find(&source, None, IoMethod::Read, cache)
        .with_context(|| options.source.display().to_string())?;
    let page_size = 1_u64 << kernel.source().page_shift();

    let mut kept = Vec::new();
    for level in &options.levels {
        kept.push(limit::kept_pages(&kernel, *level, stop)?);
    }
    // Two outputs exist at the same time.
    let most = kept.iter().max().copied().unwrap_or_default() * page_size;
    let place =
        OutputDirectory::choose(options.directory.as_deref(), 2 * most + ROOM_BESIDE_PAGES)?;
    let makedumpfile = Program::makedumpfile();
    let compressors = if options.compressors {
        Program::compressors()
    } else {
        Vec::new()
    };
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        source: SourceInfo {
            path: options.source.clone(),
            kind: source.kind(),
            kernel: kernel.utsname().release().to_owned(),
            page_size,
            bytes: options.source.metadata().map_or(0, |file| file.len()),
            in_memory: output_directory::is_in_memory(&options.source),
        },
        directory: place.parent().to_owned(),
        in_memory: place.in_memory,
        runs: options.runs,
        helpers: options.helpers,
        programs: std::iter::once(&makedumpfile)
            .chain(&compressors)
            .cloned()
            .collect(),
        levels: Vec::new(),
        rows: Vec::new(),
        references: Vec::new(),
    };
    warm_up(options, &place, stop)?;

    let mut rows = Rows::new(options, &place, &makedumpfile, stop);
    for (level, kept) in options.levels.iter().zip(kept) {
        let sample = Sample::read(&kernel, *level, kept, stop)?;
        report.levels.push(Level {
            level: level.number(),
            kept_pages: sample.kept,
            nonzero_pages: sample.nonzero,
            sampled_pages: sample.pages(),
            memcpy: Bare {
                one: memcpy(&sample, 1, options.runs, stop)?,
                all: memcpy(&sample, options.helpers, options.runs, stop)?,
            },
        });
        for codec in &options.codecs {
            let (number, all) = (
                report.rows.len() + 1,
                options.codecs.len() * options.levels.len(),
            );
            say(&format!(
                "measuring {codec} -d {} ({number} of {all})",
                level.number()
            ));
            report.rows.push(rows.measure(*codec, *level, &sample)?);
        }
        drop(sample);
        if options.compressors {
            say(&format!(
                "measuring vmdumps and compressors -d {}",
                level.number()
            ));
            let found = references::measure(options, &place, &compressors, *level, stop)?;
            report.references.extend(found);
        }
    }
    Ok(report)
}

/// Returns the median time of several copies of the sample.
fn memcpy(sample: &Sample, threads: usize, runs: usize, stop: &Stop) -> anyhow::Result<f64> {
    let copy = Compression::new(Codec::None);
    let times: Result<Vec<f64>, _> = (0..runs)
        .map(|_| sample.seconds(copy, threads, stop))
        .collect();
    Ok(median(&times?))
}

/// Makes one dump that does not count. Without it, the first program would read the source from
/// disk, and all others from memory.
fn warm_up(options: &PeersOptions, place: &OutputDirectory, stop: &Stop) -> anyhow::Result<()> {
    let Some(level) = options.levels.first() else {
        return Ok(());
    };
    let output = place.file("warm-up");
    let mut command = options.bigiron(options.helpers, *level);
    command.args(["-c", &Compression::new(Codec::None).to_string()]);
    command.arg(&options.source).arg(&output);
    let job = Job {
        command,
        output: &output,
        log: &place.file("log"),
        to_stdout: false,
        time_limit: None,
    };
    match child::run(job, stop)? {
        Ending::Done(_) | Ending::TooSlow => row::remove([output]),
        Ending::Signal(_, line) | Ending::Failed(_, line) => {
            anyhow::bail!("bigiron cannot dump the source: {line}")
        }
    }
}
