//! What `bigiron save` did: as text, and as JSON.

use std::path::{Path, PathBuf};

use bigiron_dump::Saved;
use bigiron_kernel::Source;
use serde::Serialize;

use crate::size;

/// The result as JSON.
#[derive(Default, Serialize)]
pub struct SaveReport {
    source: String,
    /// True if there was a dump to save.
    found: bool,
    /// True if an earlier run saved it.
    before: bool,
    id: Option<String>,
    number: Option<u64>,
    file: Option<String>,
    log: Option<String>,
    /// What was written before the dump, if the dump is not complete.
    report: Option<String>,
    bytes: u64,
    bytes_copied: u64,
    complete: bool,
    damage: Option<String>,
    /// The bytes of the source that could not be read.
    unreadable: Option<String>,
    /// True if it is still encrypted.
    encrypted: bool,
    mark_cleared: bool,
    pub seconds: f64,
    pub peak_memory: u64,
}

/// The result.
pub enum Outcome {
    /// There is no unsaved dump.
    Nothing,
    /// A dump was started, but the machine stopped before any page was written.
    Empty {
        /// The report that was written before.
        report: Option<PathBuf>,
        mark_cleared: bool,
        /// True if there is another dump on the device.
        has_more: bool,
    },
    /// The dump was copied.
    Saved {
        saved: Saved,
        log: Option<PathBuf>,
        /// The report, if the dump is not complete.
        report: Option<PathBuf>,
        mark_cleared: bool,
        /// True if unreadable bytes are a failure.
        refuses_loss: bool,
        /// True if there is another dump on the device.
        has_more: bool,
    },
}

impl Outcome {
    /// Returns an error if the source has bytes that could not be read, unless that is accepted.
    pub fn check_loss(&self) -> anyhow::Result<()> {
        let Self::Saved {
            saved,
            refuses_loss: true,
            ..
        } = self
        else {
            return Ok(());
        };
        anyhow::bail!(
            "{}: the source could not be read whole: {}; nothing is marked as saved. Use `--again` \
             to read it again, or `--accept-loss` to accept the copy",
            saved.path.display(),
            saved.unreadable.as_deref().unwrap_or_default(),
        )
    }

    /// Returns true if the next save finds another dump on the device.
    pub fn leads_to_another(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Empty {
                mark_cleared,
                has_more,
                ..
            }
            | Self::Saved {
                mark_cleared,
                has_more,
                ..
            } => *mark_cleared && *has_more,
        }
    }

    /// The number of the dump in the directory.
    #[cfg(feature = "retention")]
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Saved { saved, .. } => Some(saved.number),
            _ => None,
        }
    }

    /// The result as JSON has it, without the time that it took.
    pub fn report(&self, source: &Path) -> SaveReport {
        let name = |path: &Path| path.display().to_string();
        let report = SaveReport {
            source: name(source),
            ..SaveReport::default()
        };
        let (saved, log, before, mark_cleared) = match self {
            Self::Nothing => return report,
            Self::Empty {
                report: before,
                mark_cleared,
                ..
            } => {
                return SaveReport {
                    report: before.as_deref().map(name),
                    mark_cleared: *mark_cleared,
                    ..report
                };
            }
            Self::Saved {
                saved,
                log,
                report: before,
                mark_cleared,
                ..
            } => (saved, log, before, mark_cleared),
        };
        SaveReport {
            found: true,
            before: saved.before,
            id: Some(saved.id.to_string()),
            number: Some(saved.number),
            file: Some(name(&saved.path)),
            log: log.as_deref().map(name),
            report: before.as_deref().map(name),
            bytes: saved.bytes,
            bytes_copied: saved.copied,
            complete: saved.damage.is_none(),
            damage: saved.damage.clone(),
            unreadable: saved.unreadable.clone(),
            encrypted: saved.encrypted,
            mark_cleared: *mark_cleared,
            ..report
        }
    }

    /// Formats the result as text.
    pub fn text(&self, source: &str, seconds: f64) -> String {
        let (saved, log, report, mark_cleared) = match self {
            Self::Nothing => return format!("{source}: no unsaved dump"),
            Self::Empty { report: None, .. } => {
                return format!(
                    "{source}: nothing to save: the machine stopped before any part of the dump was \
                     written"
                );
            }
            Self::Empty {
                report: Some(report),
                ..
            } => {
                return format!(
                    "{}: only the report of {source}: the machine stopped before any page was written",
                    report.display()
                );
            }
            Self::Saved {
                saved,
                log,
                report,
                mark_cleared,
                ..
            } => (saved, log, report, *mark_cleared),
        };
        let path = saved.path.display();
        let mut text = if saved.before {
            format!("{source}: already saved as {path}")
        } else {
            let rate = saved.copied as f64 / seconds.max(1e-9);
            format!(
                "{path}: {} of {source} ({}), {seconds:.2} s, {}/s",
                size::format(saved.bytes),
                kind(saved),
                size::format(rate as u64),
            )
        };
        if let Some(log) = log {
            text = format!("{text}\n{}: the kernel log", log.display());
        }
        if let Some(report) = report {
            text = format!(
                "{text}\n{}: the report that was written before the dump",
                report.display()
            );
        }
        if mark_cleared {
            text = format!("{text}\n{source}: marked as saved");
        }
        text
    }
}

/// Describes a saved dump.
fn kind(saved: &Saved) -> String {
    if saved.encrypted {
        return "encrypted".into();
    }
    Source::open(std::slice::from_ref(&saved.path))
        .map_or_else(|_| "unknown".into(), |source| source.kind())
}
