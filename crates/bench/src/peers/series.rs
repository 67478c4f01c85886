//! The runs of one program in one mode, with their median.

use std::time::Duration;

use serde::Serialize;

use super::child::{Ending, Run};
use crate::results::median;

/// A mode that is this many times slower than its program's best is not run again.
const HOPELESS: f64 = 2.0;
/// Factor over the best mode's time after which a run is killed.
pub const TOO_SLOW: f64 = 4.0;
/// Minimum time limit of a run.
const GRACE: Duration = Duration::from_millis(250);

/// The runs of one program in one mode.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// Name of the mode, as in the table.
    pub mode: String,
    /// Number of threads.
    pub threads: usize,
    /// The successful runs.
    pub runs: Vec<Run>,
    /// Median of each figure.
    pub median: Option<Run>,
    /// Number of runs ended by a signal.
    pub aborted: u64,
    /// True if a run was killed because it exceeded its time limit.
    pub too_slow: bool,
    /// Reason why the mode was abandoned.
    pub failure: Option<String>,
}

impl Series {
    /// Creates a series without runs.
    pub fn new(mode: impl Into<String>, threads: usize) -> Self {
        Self {
            mode: mode.into(),
            threads,
            ..Self::default()
        }
    }

    /// Adds a run; returns true if it counts.
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

    /// Returns the median wall time in seconds.
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

/// Returns the fastest of `modes`.
pub fn best(modes: &[Series]) -> Option<&Series> {
    let seconds = |mode: &Series| mode.seconds().unwrap_or(f64::INFINITY);
    let fastest = modes
        .iter()
        .min_by(|one, other| seconds(one).total_cmp(&seconds(other)));
    fastest.filter(|mode| mode.median.is_some())
}

/// True if `mode` can still become the best of `modes`, and is worth another run.
pub fn is_worth_a_run(mode: &Series, modes: &[Series]) -> bool {
    let hopeless = match (mode.seconds(), best(modes).and_then(Series::seconds)) {
        (Some(seconds), Some(best)) => seconds > HOPELESS * best,
        _ => false,
    };
    mode.failure.is_none() && !mode.too_slow && !hopeless
}

/// Returns the time limit of a run. The threads of makedumpfile wait for each other by
/// spinning, which may take forever if processors are few or busy.
pub fn time_limit(modes: &[Series]) -> Option<Duration> {
    let best = best(modes).and_then(Series::seconds)?;
    Some(Duration::from_secs_f64(TOO_SLOW * best) + GRACE)
}

/// Returns the numbers of threads to try: powers of two, and `most`.
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
    fn median_excludes_aborted_runs() {
        let mut series = series(&[5.0, 1.0, 2.0]);
        assert!(!series.add(Ending::Signal(6, "libgcc_s.so.1".into())));
        assert_eq!(series.seconds(), Some(2.0));
        assert_eq!((series.runs.len(), series.aborted), (3, 1));
        assert!(series.failure.is_none());
    }

    #[test]
    fn each_figure_has_its_own_median() {
        let run = |seconds, output_bytes| Run {
            seconds,
            output_bytes,
            ..Run::default()
        };
        let found = median_run(&[run(1.0, 30), run(2.0, 10), run(3.0, 20)]);
        assert_eq!((found.seconds, found.output_bytes), (2.0, 20));
    }

    #[test]
    fn best_mode_has_lowest_median_and_slow_modes_are_dropped() {
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
    fn time_limit_is_a_multiple_of_the_best_and_absent_for_the_first_run() {
        assert_eq!(time_limit(&[series(&[])]), None);
        let limit = time_limit(&[series(&[2.0]), series(&[3.0])]);
        assert_eq!(limit, Some(Duration::from_millis(8250)));
    }

    #[test]
    fn thread_counts_double_up_to_the_number_of_processors() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(12), [1, 2, 4, 8, 12]);
        assert_eq!(thread_counts(16), [1, 2, 4, 8, 16]);
    }
}
