//! A line on the terminal: how far, how fast, how long still.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use bigiron_dump::{Phase, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::background::{Background, Ticks};

/// Time between two looks.
const TICK: Duration = Duration::from_millis(200);

/// Shows `progress` on standard error, if that is a terminal, until the result
/// is dropped.
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
    let template =
        "{msg:8} {bar:30} {percent:>3}%  {bytes} of {total_bytes}  {bytes_per_sec}  {eta} left";
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
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
