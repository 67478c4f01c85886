//! Compares the model with real dumps.

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

/// Numbers of helpers of the dumps.
pub const HELPERS: [usize; 2] = [1, 2];
/// Fraction of the available memory that may be dirty before a writer has to wait: the default
/// of vm.dirty_ratio.
const DIRTY_RATIO: f64 = 0.2;

/// A dump that was predicted and made.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The codec.
    pub codec: String,
    /// Number of helpers.
    pub helpers: usize,
    /// Predicted time in seconds.
    pub predicted: f64,
    /// Measured time in seconds, median.
    pub measured: f64,
    /// Predicted CPU time in seconds.
    pub predicted_cpu: f64,
    /// Measured CPU time in seconds, median.
    pub measured_cpu: f64,
    /// Fastest and slowest measured time in seconds.
    pub range: (f64, f64),
    /// Bottleneck according to the model.
    pub bottleneck: &'static str,
}

impl Row {
    /// Returns the relative error of the predicted time.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }

    /// Returns the relative error of the predicted CPU time. It is meaningful even if other
    /// load delays the dumps.
    pub fn cpu_error(&self) -> f64 {
        self.predicted_cpu / self.measured_cpu - 1.0
    }
}

/// Plan of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The dump to measure.
    pub source: PathBuf,
    /// The program that makes dumps; `None` to measure only costs.
    pub program: Option<PathBuf>,
    /// The dump level.
    pub level: DumpLevel,
    /// The codecs to measure.
    pub codecs: Vec<Compression>,
    /// Number of these codecs with which dumps are made.
    pub checked: usize,
    /// Number of rounds.
    pub runs: usize,
    /// Directory for dumps and samples.
    pub directory: PathBuf,
}

/// Measures costs and dumps in turns, because the speed of the machine may vary over time; then
/// predicts the dumps from the costs. `say` receives progress messages.
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

/// Makes a dump; returns the seconds of its phases as reported, and its CPU time in seconds.
fn dump(
    plan: &Plan,
    program: &Path,
    compression: Compression,
    helpers: usize,
) -> anyhow::Result<(f64, f64)> {
    let directory = tempfile::tempdir_in(&plan.directory).with_context(|| {
        format!(
            "{}: cannot create a directory in it",
            plan.directory.display()
        )
    })?;
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
        .with_context(|| format!("{}: cannot start the program", program.display()))?;
    let mut text = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut text)?;
    }
    let used = child.wait4()?;
    anyhow::ensure!(
        used.status.success(),
        "{}: the dump failed; run bigiron dump -d {} -c {compression} to see why",
        plan.source.display(),
        plan.level.number()
    );
    let report: serde_json::Value = serde_json::from_slice(&text).with_context(|| {
        format!(
            "the output of {} dump --json is not JSON",
            program.display()
        )
    })?;
    let seconds = report["seconds"].as_f64();
    let seconds = seconds.context("the dump's report has no seconds")?;
    let cpu = used.rusage.utime + used.rusage.stime;
    Ok((seconds, cpu.as_secs_f64()))
}
