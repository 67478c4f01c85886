//! One dump, timed.

use std::path::Path;
use std::time::Instant;

use bigiron_bench::clock::processor_time;
use bigiron_dump::{DumpOptions, DumpOutput, Format, OutputTarget, Progress, Summary, dump};
use bigiron_helpers::Stop;
use bigiron_kernel::{IoMethod, Kernel, PhysicalMemory, Source};
use rustix::time::ClockId;
use serde::Serialize;

/// The resources used by one dump.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// Wall time in seconds, from the opened source to the output under its final name.
    pub seconds: f64,
    /// CPU time of the whole process in seconds, user and system.
    pub cpu_seconds: f64,
    /// Number of bytes written.
    pub bytes: u64,
    /// The engine's summary.
    #[serde(skip)]
    pub summary: Summary,
}

/// Dumps `source` to a file in `directory`, which is then removed.
pub fn run(
    source: &Source,
    directory: &Path,
    format: Format,
    options: &DumpOptions,
) -> anyhow::Result<Trial> {
    let output = DumpOutput::file(format, directory.join("dump0"));
    run_output(source, &output, options)
}

/// Dumps `source` to `output`, whose files are then removed.
pub fn run_output(
    source: &Source,
    output: &DumpOutput,
    options: &DumpOptions,
) -> anyhow::Result<Trial> {
    let kernel = Kernel::find(
        source,
        None,
        IoMethod::Auto,
        PhysicalMemory::DEFAULT_CACHE_PAGES,
    )?;
    let (begin, cpu_before) = (Instant::now(), cpu_seconds());
    let (progress, stop) = (Progress::new(), Stop::new());
    let summary = dump(&kernel.into(), output, options, &progress, &stop)?;
    let trial = Trial {
        seconds: begin.elapsed().as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu_before,
        bytes: summary.bytes_out,
        summary,
    };
    for path in output.targets().iter().filter_map(OutputTarget::path) {
        std::fs::remove_file(path)?;
    }
    Ok(trial)
}

/// Returns the CPU time used by this process, in seconds.
fn cpu_seconds() -> f64 {
    processor_time(ClockId::ProcessCPUTime).as_secs_f64()
}
