//! Progress on standard error, in makedumpfile's format.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bigiron_dump::{Phase, Progress};

use crate::background::Background;

/// Time between two lines.
const TICK: Duration = Duration::from_secs(1);

/// Returns the name of a phase, if it is shown.
pub fn name(phase: Phase) -> Option<&'static str> {
    match phase {
        Phase::Filtering => Some("Excluding unnecessary pages"),
        Phase::Copying => Some("Copying data"),
        Phase::Opening | Phase::Finishing => None,
    }
}

/// Shows `progress` until the result is dropped.
pub fn begin(progress: &Arc<Progress>) -> Background {
    let progress = Arc::clone(progress);
    Background::begin("progress", move |ticks| {
        let mut shown = Shown::default();
        while ticks.wait(TICK) {
            shown.look(&progress);
        }
        shown.end(&progress);
    })
}

#[derive(Default)]
struct Shown {
    /// The current phase and its start.
    phase: Option<(Phase, Instant)>,
    lines: usize,
}

impl Shown {
    fn look(&mut self, progress: &Progress) {
        let phase = progress.phase();
        let begin = match self.phase {
            Some((at_hand, begin)) if at_hand == phase => begin,
            before => {
                self.finish(before.map(|(phase, _)| phase), phase);
                self.phase = Some((phase, Instant::now()));
                Instant::now()
            }
        };
        let (done, total) = progress.frames();
        if total == 0 || done == 0 {
            return;
        }
        let left = begin.elapsed().as_secs_f64() * (total - done.min(total)) as f64 / done as f64;
        self.line(phase, done.min(total) * 1000 / total, left as u64);
    }

    fn end(&mut self, progress: &Progress) {
        let before = self.phase.map(|(phase, _)| phase);
        self.finish(before, progress.phase());
        if self.lines > 0 {
            let _ = io::stderr().lock().write_all(b"\n");
        }
    }

    /// Finishes all phases from `before` that ended by `now`.
    fn finish(&mut self, before: Option<Phase>, now: Phase) {
        let order = [Phase::Filtering, Phase::Copying, Phase::Finishing];
        let place = |phase: Phase| order.iter().position(|other| *other == phase);
        let from = before.and_then(place).unwrap_or(0);
        for phase in &order[from..place(now).unwrap_or(0).max(from)] {
            self.line(*phase, 1000, 0);
        }
    }

    /// Prints one line: `promille` done, `left` seconds remaining.
    fn line(&mut self, phase: Phase, promille: u64, left: u64) {
        let Some(name) = name(phase) else { return };
        let spinner = ['/', '|', '\\', '-'][self.lines % 4];
        self.lines += 1;
        let eta = format!("eta: {}", eta(left));
        let (whole, part) = (promille / 10, promille % 10);
        let mut out = io::stderr().lock();
        let _ = write!(
            out,
            "\r{name:<50}: [{whole:3}.{part} %] {spinner}  {eta:>16}"
        );
        let _ = out.flush();
    }
}

fn eta(seconds: u64) -> String {
    match seconds {
        0..100 => format!("{seconds}s"),
        100..6_000 => format!("{}m{}s", seconds / 60, seconds % 60),
        6_000..172_800 => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
        _ => ">2day".into(),
    }
}
