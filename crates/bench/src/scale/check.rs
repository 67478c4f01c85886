//! Holds the model against dumps that are really made.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use bigiron_format::codec::Compression;
use bigiron_kernel::DumpLevel;
use serde::Serialize;
use wait4::Wait4;

use super::calibrate::{Calibration, CodecRounds, Sample};
use super::model::Machine;
use super::simulate::simulate;
use crate::results::median;

/// Helpers that dumps are made with.
pub const HELPERS: [usize; 2] = [1, 2];
/// Bytes that the page cache takes before a writer has to wait, if it is a
/// fifth of this many: the default of vm.dirty_ratio.
const DIRTY_RATIO: f64 = 0.2;

/// A dump that was predicted and made.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The codec.
    pub codec: String,
    /// Helpers.
    pub helpers: usize,
    /// Seconds that the model says.
    pub predicted: f64,
    /// Seconds that dumps took: the median.
    pub measured: f64,
    /// Seconds of processor time that the model says.
    pub predicted_cpu: f64,
    /// Seconds of processor time that dumps took: the median.
    pub measured_cpu: f64,
    /// The fastest and the slowest of them.
    pub range: (f64, f64),
    /// What bounds it in the model.
    pub bottleneck: &'static str,
}

impl Row {
    /// Predicted to measured time, less one.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }

    /// Predicted to measured processor time, less one. It tells something even
    /// where other work runs on the machine and makes dumps wait.
    pub fn cpu_error(&self) -> f64 {
        self.predicted_cpu / self.measured_cpu - 1.0
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The dump.
    pub source: PathBuf,
    /// The program that makes dumps of it; `None` measures costs only.
    pub program: Option<PathBuf>,
    /// The dump level.
    pub level: DumpLevel,
    /// The codecs whose costs are measured.
    pub codecs: Vec<Compression>,
    /// Those of them that dumps are made with.
    pub checked: usize,
    /// How often each is done.
    pub runs: usize,
    /// Where dumps and samples are written to.
    pub directory: PathBuf,
}

/// Measures costs and dumps by turns, since the machine may be faster at one
/// time than at another; then predicts the dumps from the costs. `say` is told
/// what is being done.
pub fn run(
    plan: &Plan,
    sample: &Sample,
    say: &dyn Fn(&str),
) -> anyhow::Result<(Calibration, Vec<Row>)> {
    let mut codecs: Vec<CodecRounds> = plan
        .codecs
        .iter()
        .map(|compression| CodecRounds {
            compression: *compression,
            rounds: Vec::new(),
        })
        .collect();
    let mut times = vec![[const { Vec::new() }; HELPERS.len()]; plan.codecs.len()];
    for round in 0..plan.runs {
        for (codec, times) in codecs.iter_mut().zip(&mut times) {
            say(&format!(
                "round {} of {}: {}",
                round + 1,
                plan.runs,
                codec.compression
            ));
            let compression = codec.compression;
            let measured = sample.round(compression, round, &plan.directory)?;
            codec.rounds.push(measured);
            let checked = plan.codecs[..plan.checked.min(plan.codecs.len())].contains(&compression);
            let Some(program) = plan.program.as_ref().filter(|_| checked) else {
                continue;
            };
            for (helpers, times) in HELPERS.into_iter().zip(times) {
                times.push(dump(plan, program, compression, helpers)?);
            }
        }
    }
    let origin = format!("measured, {} rounds, medians", plan.runs);
    let calibration = sample.calibration(&codecs, origin);
    let mut rows = Vec::new();
    for (compression, times) in plan.codecs.iter().zip(&times) {
        for (helpers, times) in HELPERS.into_iter().zip(times) {
            if times.is_empty() {
                continue;
            }
            rows.push(predict(&calibration, *compression, helpers, times)?);
        }
    }
    Ok((calibration, rows))
}

fn predict(
    calibration: &Calibration,
    compression: Compression,
    helpers: usize,
    runs: &[(f64, f64)],
) -> anyhow::Result<Row> {
    let (times, cpu_times): (Vec<f64>, Vec<f64>) = runs.iter().copied().unzip();
    let (name, costs) = (compression.to_string(), &calibration.costs);
    let codec = costs
        .codec(&name)
        .with_context(|| format!("{name} was not measured"))?;
    let machine = Machine {
        helpers,
        one_file: true,
        hand_over: costs.hand_over,
        disk_rate: costs.disk_rate,
        buffer: DIRTY_RATIO
            * bigiron_helpers::available_memory().map_or(256e6, |bytes| bytes as f64),
        start: costs.start,
        ..Machine::default()
    };
    let outcome = simulate(&machine, &costs.passes(&calibration.kept, codec));
    let fastest = times.iter().copied().fold(f64::INFINITY, f64::min);
    let slowest = times.iter().copied().fold(0.0, f64::max);
    Ok(Row {
        codec: name,
        helpers,
        predicted: outcome.seconds,
        measured: median(&times),
        predicted_cpu: outcome.time.busy(),
        measured_cpu: median(&cpu_times),
        range: (fastest, slowest),
        bottleneck: outcome.bottleneck().name(),
    })
}

/// Makes a dump; gives the seconds that it says its phases took, and those of
/// processor time.
fn dump(
    plan: &Plan,
    program: &Path,
    compression: Compression,
    helpers: usize,
) -> anyhow::Result<(f64, f64)> {
    let directory = tempfile::tempdir_in(&plan.directory)
        .with_context(|| format!("{}: cannot write there", plan.directory.display()))?;
    let mut command = Command::new(program);
    command
        .args(["dump", "--json", "--io", "read", "--dump-level"])
        .arg(plan.level.number().to_string())
        .args(["--threads", &helpers.to_string()])
        .args(["--compress", &compression.to_string()])
        .arg(&plan.source)
        .arg(directory.path().join("dump"));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("{}: cannot start it", program.display()))?;
    let mut text = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut text)?;
    }
    let used = child.wait4()?;
    anyhow::ensure!(
        used.status.success(),
        "{}: no dump was made; try bigiron dump -d {} -c {compression}",
        plan.source.display(),
        plan.level.number()
    );
    let report: serde_json::Value = serde_json::from_slice(&text)
        .with_context(|| format!("{} dump --json gave no JSON", program.display()))?;
    let seconds = report["seconds"].as_f64();
    let seconds = seconds.context("the dump's report has no seconds")?;
    let cpu = used.rusage.utime + used.rusage.stime;
    Ok((seconds, cpu.as_secs_f64()))
}
