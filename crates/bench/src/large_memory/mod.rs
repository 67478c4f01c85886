//! Creating, locking and destroying large memory: the plain calls beside ours, as the tables
//! that Solaris' vmtasks were presented with.
//!
//! - [`way`]: the ways that are measured; [`rows`]: what is held against what.
//! - `held`, `run`, `check`: one trial, in which the kernel is asked whether the memory is there.
//! - [`settings`]: settings of the kernel, changed for a moment.
//! - [`small`]: small requests, and from where on helpers win.
//! - [`peers`]: other programs.
//! - [`model`]: what more helpers would give.
//! - [`table`]: the results as text.

mod check;
mod held;
pub mod model;
pub mod peers;
pub mod rows;
pub mod run;
pub mod settings;
pub mod small;
pub mod table;
#[cfg(test)]
mod tests;
pub mod way;

use std::ffi::CString;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bigiron_helpers::Stop;
use bigiron_memory::machine::available_memory;
use serde::Serialize;

use model::{Check, Model};
use peers::{Peer, Peers};
use rows::{Figures, Row};
use run::Bench;
use settings::Facts;
use small::Pair;
use way::Way;

use crate::machine::Machine;

/// Memory is cut in so many equal parts at most, each of whole huge pages.
const MAX_STRIPES: usize = 12;
/// What sizes are rounded up to.
const UNIT: usize = MAX_STRIPES * (2 << 20);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of memory; rounded up to stripes of whole huge pages.
    pub size: usize,
    /// How often each way is run; the medians count.
    pub rounds: usize,
    /// Whether settings of the kernel may be changed for a moment, as root.
    pub allow_huge: bool,
    /// Whether the size from which on helpers win is looked for.
    pub threshold: bool,
    /// Whether other programs are run too.
    pub peers: bool,
    /// How long small requests are measured.
    pub small: Duration,
    /// The program of this, for its `mem reap` and `mem bench --plain-once`.
    pub program: Option<CString>,
}

/// A row with its figures.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// What was held against what.
    #[serde(flatten)]
    pub row: Row,
    /// The plain calls.
    pub plain: Figures,
    /// Ours.
    pub ours: Figures,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// What it was measured on.
    pub machine: Machine,
    /// Bytes of memory of each trial.
    pub size: usize,
    /// How the kernel is set.
    pub facts: Facts,
    /// The rows of all tables.
    pub rows: Vec<Measured>,
    /// Small requests.
    pub small: Vec<Pair>,
    /// The search for the threshold, if it was wanted.
    pub by_helpers: Vec<Pair>,
    /// Other programs.
    pub peers: Vec<Peer>,
    /// What the model is made of; nothing where this process may not lock memory.
    pub model: Option<Model>,
    /// The model beside measurements that it is not made of.
    pub checks: Vec<Check>,
    /// What was not measured, and why.
    pub skipped: Vec<String>,
}

/// Measures everything, by turns. `tell` is told how far it is; `stop` ends it between two trials,
/// with nothing left behind.
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
        "{} MiB are measured on and {} MiB are available; give a smaller --size",
        size >> 20,
        available >> 20
    );
    ensure!(
        !options.allow_huge || rustix::process::geteuid().is_root(),
        "--allow-huge changes settings of the kernel: only root may"
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
        tell("the size from which on helpers win");
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

/// The plain calls once, on a segment: seconds to create and lock it, and to destroy it. What
/// memory it has is left to who runs this.
pub fn plain_once(size: usize) -> anyhow::Result<(f64, f64)> {
    let begin = Instant::now();
    let mut held = held::Held::open(way::Memory::Segment, size, false)?;
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

/// All ways, with what each round gave.
struct Trials(Vec<Trial>);

struct Trial {
    way: Way,
    samples: Vec<run::Sample>,
    failed: bool,
}

impl Trials {
    fn of(rows: &[Row]) -> Self {
        let mut ways = rows::ways(rows.iter());
        let others = model::ways().into_iter();
        for way in others.chain(model::checks().map(|(_, _, way)| way)) {
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        let trial = |way| Trial {
            way,
            samples: Vec::new(),
            failed: false,
        };
        Self(ways.into_iter().map(trial).collect())
    }

    fn round(
        &mut self,
        bench: &Bench,
        stop: &Stop,
        skipped: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        for trial in self.0.iter_mut().filter(|trial| !trial.failed) {
            check_stop(stop)?;
            match bench.run(&trial.way) {
                Ok(sample) => trial.samples.push(sample),
                Err(error) if may_fail(&trial.way, &error) => {
                    trial.failed = true;
                    let text = match trial.way.lock {
                        way::Lock::No => format!("{}: {error:#}", trial.way),
                        lock => format!("memory locked by {lock:?}: {error:#}"),
                    };
                    if !skipped.contains(&text) {
                        skipped.push(text);
                    }
                }
                Err(error) => return Err(error).with_context(|| trial.way.to_string()),
            }
        }
        Ok(())
    }

    fn figures(&self, way: &Way) -> Option<Figures> {
        let trial = self.0.iter().find(|trial| trial.way == *way)?;
        (!trial.failed).then(|| Figures::of(trial.samples.clone()))
    }

    fn measured(&self, row: Row) -> Option<Measured> {
        Some(Measured {
            plain: self.figures(&row.before)?,
            ours: self.figures(&row.after)?,
            row,
        })
    }

    /// Where all ways that it is made of could be measured.
    fn model(&self) -> Option<(Model, Vec<Check>)> {
        let [a, b, c, d] = model::ways().map(|way| self.figures(&way));
        let model = Model::of(&[a?, b?, c?, d?]);
        let check = |(what, inodes, way): (&'static str, usize, Way)| {
            Some(Check {
                what,
                predicted: model.small(model::Case::Worst, 2, inodes),
                measured: self.figures(&way)?.total(),
            })
        };
        let checks = model::checks().into_iter().filter_map(check).collect();
        Some((model, checks))
    }
}

/// Whether a way may be refused here: `mlock` beyond the limit, a reaper where none starts,
/// settings. What anybody may do must work, and memory that is not there is never excused.
fn may_fail(way: &Way, error: &anyhow::Error) -> bool {
    let cause = error.root_cause();
    let is_refused = cause.is::<std::io::Error>() || cause.is::<bigiron_memory::Errno>();
    way.needs != way::Needs::Nothing
        || is_refused
            && (way.lock != way::Lock::No || matches!(way.destroy, way::Destroy::Reaper(_)))
}
