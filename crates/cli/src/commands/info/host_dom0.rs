//! dom0 in the overview of a Xen host: its kernel, and what its log tells about its end.

use bigiron_inspect::{Crash, Event, Overview};
use bigiron_kernel::Kernel;
use serde::Serialize;

use super::page::Page;

/// What is known about dom0.
#[derive(Serialize)]
pub struct Dom0 {
    /// The release of its kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<String>,
    /// Why it stopped, by its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    crash: Option<Crash>,
    /// Why less is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
}

impl Dom0 {
    /// Collects what its kernel, if it was found, says.
    pub fn of<'k, 's: 'k>(kernel: Result<&'k Kernel<'s>, &anyhow::Error>) -> Self {
        let overview = match kernel {
            Ok(kernel) => Overview::of(kernel),
            Err(error) => {
                return Self {
                    release: None,
                    crash: None,
                    unknown: Some(format!("{error:#}")),
                };
            }
        };
        let unread = overview.crash.is_none();
        Self {
            release: Some(overview.kernel.release),
            crash: overview.crash,
            unknown: unread.then(|| overview.warnings.join("; ")),
        }
    }

    /// Adds its lines.
    pub fn show(&self, page: &mut Page) {
        if let Some(release) = &self.release {
            page.line("dom0", &format!("Linux {release}"));
        }
        if let Some(reason) = &self.unknown {
            let label = if self.release.is_some() { "" } else { "dom0" };
            page.line(label, &format!("not known: {reason}"));
        }
        let Some(crash) = &self.crash else {
            return;
        };
        let events = [("panic", &crash.panic), ("before it", &crash.cause)];
        let told = events
            .iter()
            .filter_map(|(label, event)| Some((label, event.as_ref()?)));
        let mut lines = 0;
        for (label, Event { message, .. }) in told {
            page.line("", &format!("{label}: {message}"));
            lines += 1;
        }
        if lines == 0 {
            page.line("", "its log has no panic and no fault");
        }
    }
}
