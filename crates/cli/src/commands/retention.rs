//! `bigiron save --keep-dumps` and `--max-size`: older dumps are removed.

use std::path::Path;

#[cfg(not(feature = "inspect"))]
use bigiron_dump::DumpError;
use bigiron_dump::{Removed, Retention};
use clap::Args;

#[cfg(feature = "inspect")]
use crate::fingerprint::fingerprint;
use crate::size;
use crate::tell::tell;

/// The dumps that stay in the directory.
#[derive(Clone, Copy, Debug, Args)]
pub struct RetentionArguments {
    /// Then remove older dumps from DIR, or beside the object, but not the newest N, nor the oldest
    /// of each crash. Their logs and info.N stay
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keep_dumps: Option<u64>,
    /// Then remove older dumps from DIR, or beside the object, until they take at most SIZE, such
    /// as 200G: the oldest of each crash last. The newest stays
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    max_size: Option<u64>,
}

impl RetentionArguments {
    /// Removes older dumps than the one with the number `saved`, and reports each. The dump is
    /// saved, so nothing of this is a failure.
    pub fn apply(self, directory: &Path, saved: Option<u64>) {
        let retention = self.limits();
        if !retention.is_unlimited() {
            report(
                retention
                    .apply(directory, saved, fingerprint)
                    .map_err(Into::into),
            );
        }
    }

    /// Removes older dumps than the object `saved` beside it, and reports each.
    #[cfg(feature = "objects")]
    pub fn apply_beside(self, saved: &Path) {
        let retention = self.limits();
        if !retention.is_unlimited() {
            report(crate::objects::retention::apply(
                retention,
                saved,
                fingerprint,
            ));
        }
    }

    fn limits(self) -> Retention {
        Retention {
            dumps: self.keep_dumps,
            bytes: self.max_size,
        }
    }
}

/// A crash is not named without `bigiron info`.
#[cfg(not(feature = "inspect"))]
fn fingerprint(_dump: &Path) -> Result<Option<String>, DumpError> {
    Ok(None)
}

fn report(removed: anyhow::Result<Removed>) {
    match removed {
        Ok(removed) => {
            for file in &removed.files {
                tell!("bigiron: {}: removed; newer dumps stay", file.display());
            }
            for dump in &removed.firsts {
                tell!(
                    "bigiron: {}: stays, the first dump of its crash",
                    dump.display()
                );
            }
            if !removed.files.is_empty() {
                tell!("bigiron: {} are free again", size::format(removed.bytes));
            }
            for warning in &removed.warnings {
                tell!("bigiron: warning: {warning}");
            }
        }
        Err(error) => tell!("bigiron: warning: older dumps are not removed: {error:#}"),
    }
}
