//! Pages of the source that cannot be read.

use bigiron_format::PageFrame;
use bigiron_kernel::SourceError;

use crate::summary::Summary;

/// Maximum number of lost page frames listed individually.
const MAX_NAMED: usize = 64;

/// The losses of one helper, or of all.
#[derive(Debug, Default)]
pub struct Losses {
    count: u64,
    frames: Vec<PageFrame>,
    first: Option<(PageFrame, String)>,
    /// The first one that is an error of the disk.
    unreadable: Option<(PageFrame, String)>,
}

impl Losses {
    /// Records that `frame` cannot be read.
    pub fn add(&mut self, frame: PageFrame, error: &SourceError) {
        self.count += 1;
        if self.frames.len() < MAX_NAMED {
            self.frames.push(frame);
        }
        let is_before = |other: &Option<(PageFrame, String)>| {
            other.as_ref().is_none_or(|(first, _)| frame < *first)
        };
        if is_before(&self.first) {
            self.first = Some((frame, error.to_string()));
        }
        if error.is_unreadable() && is_before(&self.unreadable) {
            self.unreadable = Some((frame, error.to_string()));
        }
    }

    /// Adds the losses of another helper.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.frames.extend(other.frames);
        for (one, other) in [
            (&mut self.first, other.first),
            (&mut self.unreadable, other.unreadable),
        ] {
            let both = one.take().into_iter().chain(other);
            *one = both.min_by_key(|(frame, _)| *frame);
        }
    }

    /// Adds the losses and a warning to the summary; `consequence` states what they mean for
    /// the output.
    pub fn report(mut self, summary: &mut Summary, consequence: &str) {
        self.frames.sort_unstable();
        self.frames.truncate(MAX_NAMED);
        summary.lost = self.count;
        summary.lost_frames = self.frames;
        summary.unreadable = self.unreadable.map(|(_, reason)| reason);
        if let Some((frame, reason)) = self.first {
            let number = match self.count {
                1 => "1 page".to_owned(),
                count => format!("{count} pages"),
            };
            summary.warnings.push(format!(
                "{number} cannot be read; {consequence} (first {frame}: {reason})"
            ));
        }
    }
}
