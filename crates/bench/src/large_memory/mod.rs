//! Creation, locking and destruction of large memory: the plain calls compared with this
//! library, in tables like those in which Solaris' vmtasks was presented.
//!
//! - [`method`]: the methods that are measured; [`rows`]: the pairs that are compared.
//! - `held`, `run`, `check`: one trial, which verifies with the kernel that the memory is present.
//! - [`settings`]: kernel settings, changed temporarily.
//! - [`small`]: small requests, and the size from which helpers are faster.
//! - [`peers`]: other programs.
//! - [`model`]: the estimated effect of more helpers.
//! - [`table`]: the results as text.

mod check;
mod held;
pub mod method;
pub mod model;
pub mod peers;
pub mod rows;
pub mod run;
pub mod settings;
pub mod small;
pub mod table;
#[cfg(test)]
mod tests;

use std::ffi::CString;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bigiron_helpers::Stop;
use bigiron_memory::machine::available_memory;
use serde::Serialize;

use method::Method;
use model::{Check, Model};
use peers::{Peer, Peers};
use rows::{Figures, Row};
use run::Bench;
use settings::Facts;
use small::Pair;

use crate::machine::Machine;

/// Maximum number of equal parts into which memory is divided, each of whole huge pages.
const MAX_STRIPES: usize = 12;
/// Granularity of sizes, in bytes.
const UNIT: usize = MAX_STRIPES * (2 << 20);

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the memory in bytes; rounded up to stripes of whole huge pages.
    pub size: usize,
    /// Number of rounds. Results are medians.
    pub rounds: usize,
    /// True if kernel settings may be changed temporarily, as root.
    pub allow_huge: bool,
    /// True to search for the size from which helpers are faster.
    pub threshold: bool,
    /// True to measure other programs as well.
    pub peers: bool,
    /// Duration of the measurement of small requests.
    pub small: Duration,
    /// Path of this program, for `mem reap` and `mem bench --plain-once`.
    pub program: Option<CString>,
}

/// A row with its figures.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The pair of methods that was compared.
    #[serde(flatten)]
    pub row: Row,
    /// Figures of the plain calls.
    pub plain: Figures,
    /// Figures of this library.
    pub ours: Figures,
}

/// The complete results.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The machine of the measurement.
    pub machine: Machine,
    /// Size of each trial's memory in bytes.
    pub size: usize,
    /// Kernel settings.
    pub facts: Facts,
    /// The rows of all tables.
    pub rows: Vec<Measured>,
    /// Small requests.
    pub small: Vec<Pair>,
    /// The search for the threshold, if requested.
    pub by_helpers: Vec<Pair>,
    /// Other programs.
    pub peers: Vec<Peer>,
    /// The model's parameters; `None` if this process may not lock memory.
    pub model: Option<Model>,
    /// Predictions of the model, with measurements that it is not calibrated on.
    pub checks: Vec<Check>,
    /// Cases that were not measured, with reasons.
    pub skipped: Vec<String>,
}

/// Measures everything, in turns. `tell` receives progress messages. `stop` ends the
/// measurement between two trials and leaves nothing behind.
pub fn measure(
    options: &Options,
    machine: &Machine,
    stop: &Stop,
    tell: &mut dyn FnMut(&str),
) -> anyhow::Result<Results> {
    let size = options.size.next_multiple_of(UNIT);
    let available = available_memory();
    ensure!(
        available >= size as u64 + size as u64 / 4,
        "the measurement needs more than {} MiB and {} MiB are available; use a smaller --size",
        size >> 20,
        available >> 20
    );
    ensure!(
        !options.allow_huge || rustix::process::geteuid().is_root(),
        "--allow-huge changes kernel settings and requires root"
    );
    bigiron_memory::engine::prepare();
    let facts = Facts::here();
    let bench = Bench {
        size,
        allow_huge: options.allow_huge,
        reaper: options.program.clone(),
    };
    let (rows, mut skipped) = rows::rows(&facts, options.allow_huge, bench.reaper.is_some());
    let pool = options.allow_huge || facts.pool.1 >= (size >> 21) as u64;
    let mut peers = None;
    if options.peers {
        let (present, absent) = Peers::new(size, options.program.as_deref(), pool);
        peers = Some(present);
        skipped.extend(absent);
    }

    let mut trials = Trials::of(&rows);
    for round in 1..=options.rounds.max(1) {
        tell(&format!("round {round} of {}", options.rounds.max(1)));
        trials.round(&bench, stop, &mut skipped)?;
        if let Some(peers) = &mut peers {
            check_stop(stop)?;
            skipped.extend(peers.round(options.allow_huge));
        }
    }
    tell("small requests");
    check_stop(stop)?;
    let small = small::requests(options.small)?;
    let by_helpers = if options.threshold {
        tell("the size from which helpers are faster");
        check_stop(stop)?;
        small::by_helpers(options.small * 2)?
    } else {
        Vec::new()
    };
    let (model, checks) = trials.model().unzip();
    Ok(Results {
        machine: machine.clone(),
        size,
        facts,
        rows: rows
            .into_iter()
            .filter_map(|row| trials.measured(row))
            .collect(),
        small,
        by_helpers,
        peers: peers.map(Peers::end).unwrap_or_default(),
        model,
        checks: checks.unwrap_or_default(),
        skipped,
    })
}

/// Performs the plain calls once on a segment. Returns the seconds to create and lock it, and
/// to destroy it. The kind of memory depends on the caller's environment.
pub fn plain_once(size: usize) -> anyhow::Result<(f64, f64)> {
    let begin = Instant::now();
    let mut held = held::Held::open(method::Memory::Segment, size, false)?;
    held.shm_lock()?;
    held.touch(rustix::param::page_size());
    let create = begin.elapsed();
    let begin = Instant::now();
    held.destroy()?;
    Ok((create.as_secs_f64(), begin.elapsed().as_secs_f64()))
}

fn check_stop(stop: &Stop) -> anyhow::Result<()> {
    if stop.is_set() {
        bail!("interrupted; nothing is left behind");
    }
    Ok(())
}

/// All methods, with the results of each round.
struct Trials(Vec<Trial>);

struct Trial {
    method: Method,
    samples: Vec<run::Sample>,
    failed: bool,
}

impl Trials {
    fn of(rows: &[Row]) -> Self {
        let mut methods = rows::methods(rows.iter());
        let others = model::methods().into_iter();
        for method in others.chain(model::checks().map(|(_, _, method)| method)) {
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        let trial = |method| Trial {
            method,
            samples: Vec::new(),
            failed: false,
        };
        Self(methods.into_iter().map(trial).collect())
    }

    fn round(
        &mut self,
        bench: &Bench,
        stop: &Stop,
        skipped: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        for trial in self.0.iter_mut().filter(|trial| !trial.failed) {
            check_stop(stop)?;
            match bench.run(&trial.method) {
                Ok(sample) => trial.samples.push(sample),
                Err(error) if may_fail(&trial.method, &error) => {
                    trial.failed = true;
                    let text = match trial.method.lock {
                        method::Lock::No => format!("{}: {error:#}", trial.method),
                        lock => format!("memory locked by {lock:?}: {error:#}"),
                    };
                    if !skipped.contains(&text) {
                        skipped.push(text);
                    }
                }
                Err(error) => return Err(error).with_context(|| trial.method.to_string()),
            }
        }
        Ok(())
    }

    fn figures(&self, method: &Method) -> Option<Figures> {
        let trial = self.0.iter().find(|trial| trial.method == *method)?;
        (!trial.failed).then(|| Figures::of(trial.samples.clone()))
    }

    fn measured(&self, row: Row) -> Option<Measured> {
        Some(Measured {
            plain: self.figures(&row.before)?,
            ours: self.figures(&row.after)?,
            row,
        })
    }

    /// Returns the model and its checks, if all methods that it requires were measured.
    fn model(&self) -> Option<(Model, Vec<Check>)> {
        let [a, b, c, d] = model::methods().map(|method| self.figures(&method));
        let model = Model::of(&[a?, b?, c?, d?]);
        let check = |(what, inodes, method): (&'static str, usize, Method)| {
            Some(Check {
                what,
                predicted: model.small(model::Case::Worst, 2, inodes),
                measured: self.figures(&method)?.total(),
            })
        };
        let checks = model::checks().into_iter().filter_map(check).collect();
        Some((model, checks))
    }
}

/// True if a method may fail on this system: `mlock` beyond the limit, a reaper that cannot start,
/// or a kernel setting. Operations that need no privilege must work, and missing memory is
/// always an error.
fn may_fail(method: &Method, error: &anyhow::Error) -> bool {
    let cause = error.root_cause();
    let is_refused = cause.is::<std::io::Error>() || cause.is::<bigiron_memory::Errno>();
    method.needs != method::Needs::Nothing
        || is_refused
            && (method.lock != method::Lock::No
                || matches!(method.destroy, method::Destroy::Reaper(_)))
}
