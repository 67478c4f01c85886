//! The runs of one program in one mode, and their medians.

use std::time::Duration;

use serde::Serialize;

use super::child::{Ending, Run};
use crate::results::median;

/// A mode that is this many times slower than its program's best is not run again.
const HOPELESS: f64 = 2.0;
/// A run that takes this many times what the best mode takes is ended.
pub const TOO_SLOW: f64 = 4.0;
/// No run is ended sooner than this.
const GRACE: Duration = Duration::from_millis(250);

/// The runs of one program in one mode.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// The mode, as in the table.
    pub mode: String,
    /// Threads that do the work.
    pub threads: usize,
    /// The runs that count.
    pub runs: Vec<Run>,
    /// Of each figure the median.
    pub median: Option<Run>,
    /// Runs that a signal ended.
    pub aborted: u64,
    /// Whether a run took so long that it was ended.
    pub too_slow: bool,
    /// Why it was given up.
    pub failure: Option<String>,
}

impl Series {
    /// No runs yet.
    pub fn new(mode: impl Into<String>, threads: usize) -> Self {
        Self {
            mode: mode.into(),
            threads,
            ..Self::default()
        }
    }

    /// Takes a run in; says whether it counts.
    pub fn add(&mut self, ending: Ending) -> bool {
        match ending {
            Ending::Done(run) => {
                self.runs.push(run);
                self.median = Some(median_run(&self.runs));
                true
            }
            Ending::Signal(..) => {
                self.aborted += 1;
                false
            }
            Ending::TooSlow => {
                self.too_slow = true;
                false
            }
            Ending::Failed(code, line) => {
                self.failure = Some(format!("exit status {code}: {line}"));
                false
            }
        }
    }

    /// The median of the wall times.
    pub fn seconds(&self) -> Option<f64> {
        self.median.map(|run| run.seconds)
    }
}

fn median_run(runs: &[Run]) -> Run {
    let middle = |figure: fn(&Run) -> f64| median(&runs.iter().map(figure).collect::<Vec<_>>());
    Run {
        seconds: middle(|run| run.seconds),
        cpu_seconds: middle(|run| run.cpu_seconds),
        peak_bytes: middle(|run| run.peak_bytes as f64) as u64,
        output_bytes: middle(|run| run.output_bytes as f64) as u64,
    }
}

/// The fastest of some modes.
pub fn best(modes: &[Series]) -> Option<&Series> {
    let seconds = |mode: &Series| mode.seconds().unwrap_or(f64::INFINITY);
    let fastest = modes
        .iter()
        .min_by(|one, other| seconds(one).total_cmp(&seconds(other)));
    fastest.filter(|mode| mode.median.is_some())
}

/// Whether `mode` can still become the best of `modes`, and so is worth
/// another run.
pub fn is_worth_a_run(mode: &Series, modes: &[Series]) -> bool {
    let hopeless = match (mode.seconds(), best(modes).and_then(Series::seconds)) {
        (Some(seconds), Some(best)) => seconds > HOPELESS * best,
        _ => false,
    };
    mode.failure.is_none() && !mode.too_slow && !hopeless
}

/// How long a run may take before it is ended: threads of makedumpfile wait
/// for each other by spinning, and where processors are few or busy that may
/// take for ever.
pub fn time_limit(modes: &[Series]) -> Option<Duration> {
    let best = best(modes).and_then(Series::seconds)?;
    Some(Duration::from_secs_f64(TOO_SLOW * best) + GRACE)
}

/// The numbers of threads to try: powers of two, and `most`.
pub fn thread_counts(most: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = std::iter::successors(Some(1_usize), |count| count.checked_mul(2))
        .take_while(|count| *count < most)
        .collect();
    counts.push(most.max(1));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(seconds: &[f64]) -> Series {
        let mut series = Series::new("a mode", 1);
        for seconds in seconds {
            let run = Run {
                seconds: *seconds,
                ..Run::default()
            };
            assert!(series.add(Ending::Done(run)));
        }
        series
    }

    #[test]
    fn the_median_counts_and_aborted_runs_do_not() {
        let mut series = series(&[5.0, 1.0, 2.0]);
        assert!(!series.add(Ending::Signal(6, "libgcc_s.so.1".into())));
        assert_eq!(series.seconds(), Some(2.0));
        assert_eq!((series.runs.len(), series.aborted), (3, 1));
        assert!(series.failure.is_none());
    }

    #[test]
    fn each_figure_has_a_median_of_its_own() {
        let run = |seconds, output_bytes| Run {
            seconds,
            output_bytes,
            ..Run::default()
        };
        let found = median_run(&[run(1.0, 30), run(2.0, 10), run(3.0, 20)]);
        assert_eq!((found.seconds, found.output_bytes), (2.0, 20));
    }

    #[test]
    fn the_best_mode_has_the_least_median_and_hopeless_ones_are_left_out() {
        let mut failed = Series::new("failed", 1);
        failed.add(Ending::Failed(1, "why".into()));
        let modes = [series(&[]), series(&[4.0]), series(&[1.9, 2.1]), failed];
        assert_eq!(best(&modes).and_then(Series::seconds), Some(2.1));
        assert!(best(&modes[..1]).is_none());
        let worth: Vec<bool> = modes.iter().map(|m| is_worth_a_run(m, &modes)).collect();
        assert_eq!(worth, [true, true, true, false]);
        assert!(!is_worth_a_run(&series(&[4.3]), &modes));
        let mut ended = Series::new("ended", 2);
        assert!(!ended.add(Ending::TooSlow));
        assert!(!is_worth_a_run(&ended, &modes));
    }

    #[test]
    fn what_takes_several_times_the_best_is_ended_but_the_first_may_take_its_time() {
        assert_eq!(time_limit(&[series(&[])]), None);
        let limit = time_limit(&[series(&[2.0]), series(&[3.0])]);
        assert_eq!(limit, Some(Duration::from_millis(8250)));
    }

    #[test]
    fn threads_double_up_to_the_number_of_processors() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(12), [1, 2, 4, 8, 12]);
        assert_eq!(thread_counts(16), [1, 2, 4, 8, 16]);
    }
}
