//! One dump, timed.

use std::path::Path;
use std::time::Instant;

use bigiron_bench::clock::processor_time;
use bigiron_dump::{DumpOptions, OutputTarget, Progress, Summary, dump, dump_striped};
use bigiron_helpers::Stop;
use bigiron_kernel::{IoMethod, Kernel, PhysicalMemory, Source};
use rustix::time::ClockId;
use serde::Serialize;

/// What one dump took.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// Wall-clock time from the opened source to the output under its name.
    pub seconds: f64,
    /// Processor time of the whole process, user and system.
    pub cpu_seconds: f64,
    /// Bytes written.
    pub bytes: u64,
    /// What the engine says about it.
    #[serde(skip)]
    pub summary: Summary,
}

/// Dumps `source` to a file in `directory`, which is removed again.
pub fn run(source: &Source, directory: &Path, options: &DumpOptions) -> anyhow::Result<Trial> {
    run_parts(source, directory, options, 1)
}

/// The same, striped over so many files if that is more than one.
pub fn run_parts(
    source: &Source,
    directory: &Path,
    options: &DumpOptions,
    parts: usize,
) -> anyhow::Result<Trial> {
    let name = |part| OutputTarget::File(directory.join(format!("dump{part}")));
    let targets: Vec<_> = (0..parts).map(name).collect();
    let kernel = Kernel::find(
        source,
        None,
        IoMethod::Auto,
        PhysicalMemory::DEFAULT_CACHE_PAGES,
    )?;
    let (begin, cpu_before) = (Instant::now(), cpu_seconds());
    let (progress, stop) = (Progress::new(), Stop::new());
    let summary = match &targets[..] {
        [target] => dump(&kernel, target, options, &progress, &stop)?,
        targets => dump_striped(&kernel, targets, options, &progress, &stop)?,
    };
    let trial = Trial {
        seconds: begin.elapsed().as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu_before,
        bytes: summary.bytes_out,
        summary,
    };
    for path in targets.iter().filter_map(OutputTarget::path) {
        std::fs::remove_file(path)?;
    }
    Ok(trial)
}

/// Processor time that this process has used, in seconds.
fn cpu_seconds() -> f64 {
    processor_time(ClockId::ProcessCPUTime).as_secs_f64()
}
