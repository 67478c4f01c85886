//! One dump, timed.

use std::path::Path;
use std::time::{Duration, Instant};

use bigiron_dump::{DumpOptions, OutputTarget, Progress, Summary, dump};
use bigiron_helpers::Stop;
use bigiron_kernel::{IoMethod, Kernel, PhysicalMemory, Source};
use rustix::time::{ClockId, clock_gettime};
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
    let path = directory.join("dump");
    let kernel = Kernel::find(
        source,
        None,
        IoMethod::Auto,
        PhysicalMemory::DEFAULT_CACHE_PAGES,
    )?;
    let target = OutputTarget::File(path.clone());
    let (begin, cpu_before) = (Instant::now(), cpu_seconds());
    let summary = dump(&kernel, &target, options, &Progress::new(), &Stop::new())?;
    let trial = Trial {
        seconds: begin.elapsed().as_secs_f64(),
        cpu_seconds: cpu_seconds() - cpu_before,
        bytes: summary.bytes_out,
        summary,
    };
    std::fs::remove_file(&path)?;
    Ok(trial)
}

/// Processor time that this process has used, in seconds.
fn cpu_seconds() -> f64 {
    processor_time(ClockId::ProcessCPUTime).as_secs_f64()
}

/// What a clock of processor time shows.
pub fn processor_time(clock: ClockId) -> Duration {
    // Such a clock begins at zero.
    clock_gettime(clock).try_into().unwrap_or_default()
}
