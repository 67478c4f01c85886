//! The progress line: amount done, rate, time left.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use bigiron_dump::{Phase, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::background::{Background, Ticks};

/// Minimum duration of work for which a line is shown.
#[cfg(any(feature = "hotplug", feature = "memory"))]
const SOON: Duration = Duration::from_secs(1);

/// Time between two updates.
const TICK: Duration = Duration::from_millis(200);

/// A progress line for work that reports its own progress; only on a terminal, and only for
/// work that takes longer than a second.
#[cfg(any(feature = "hotplug", feature = "memory"))]
pub struct Line {
    message: &'static str,
    total: u64,
    style: ProgressStyle,
    began: std::time::Instant,
    is_shown: bool,
    bar: Option<ProgressBar>,
}

#[cfg(any(feature = "hotplug", feature = "memory"))]
impl Line {
    /// Creates a line for `total` bytes.
    #[cfg(feature = "memory")]
    pub fn new(message: &'static str, total: u64, quiet: bool) -> Self {
        Self::with_style(message, total, style(), quiet)
    }

    /// Creates a line for `total` CPUs.
    #[cfg(feature = "hotplug")]
    pub fn of_cpus(message: &'static str, total: u64, quiet: bool) -> Self {
        let template = "{msg:8} {bar:30} {percent:>3}%  {pos} of {len} CPUs  {per_sec}  {eta} left";
        Self::with_style(message, total, of_template(template), quiet)
    }

    fn with_style(message: &'static str, total: u64, style: ProgressStyle, quiet: bool) -> Self {
        Self {
            message,
            total,
            style,
            began: std::time::Instant::now(),
            is_shown: !quiet && std::io::stderr().is_terminal(),
            bar: None,
        }
    }

    /// Updates the amount done.
    pub fn show(&mut self, done: u64) {
        if !self.is_shown || (self.bar.is_none() && self.began.elapsed() < SOON) {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(self.total), ProgressDrawTarget::stderr());
            bar.set_style(self.style.clone());
            bar.set_message(self.message);
            bar.with_elapsed(self.began.elapsed())
        });
        bar.set_position(done);
    }
}

#[cfg(any(feature = "hotplug", feature = "memory"))]
impl Drop for Line {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style() -> ProgressStyle {
    let template =
        "{msg:8} {bar:30} {percent:>3}%  {bytes} of {total_bytes}  {bytes_per_sec}  {eta} left";
    of_template(template)
}

fn of_template(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

/// Shows `progress` on standard error, if that is a terminal, until the result is dropped.
pub fn begin(progress: &Arc<Progress>, page_size: u64, quiet: bool) -> Option<Background> {
    if quiet || !std::io::stderr().is_terminal() {
        return None;
    }
    let progress = Arc::clone(progress);
    Some(Background::begin("progress", move |ticks| {
        show(&progress, page_size, ticks);
    }))
}

fn show(progress: &Progress, page_size: u64, ticks: &Ticks) {
    let style = style();
    let mut bar = None;
    loop {
        let (phase, (done, total)) = (progress.phase(), progress.frames());
        if total > 0 && bar.as_ref().is_none_or(|(shown, _)| *shown != phase) {
            let new = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            new.set_style(style.clone());
            new.set_message(match phase {
                Phase::Opening => "Opening",
                Phase::Filtering => "Filter",
                Phase::Copying => "Copy",
                Phase::Finishing => "Finish",
            });
            if let Some((_, old)) = bar.replace((phase, new)) {
                old.finish_and_clear();
            }
        }
        if let Some((_, bar)) = bar.as_ref().filter(|(shown, _)| *shown == phase) {
            bar.set_length(total * page_size);
            bar.set_position(done * page_size);
        }
        if !ticks.wait(TICK) {
            break;
        }
    }
    if let Some((_, bar)) = bar {
        bar.finish_and_clear();
    }
}
