//! Medians, and saved raw results.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use crate::machine::Machine;

/// Returns the median of `values`; of an even number of values the upper middle one. Zero if
/// there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Returns the median of `times`.
pub fn median_time(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Writes raw results as `DIRECTORY/DATE-NAME.json`, and returns the path.
pub fn save(
    directory: &Path,
    machine: &Machine,
    name: &str,
    results: &impl Serialize,
) -> anyhow::Result<PathBuf> {
    #[derive(Serialize)]
    struct Document<'a, T> {
        machine: &'a Machine,
        results: &'a T,
    }
    let path = directory.join(format!("{}-{name}.json", machine.date));
    let text = serde_json::to_string_pretty(&Document { machine, results })?;
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&path, text + "\n"))
        .with_context(|| format!("{}: cannot write the results", path.display()))?;
    Ok(path)
}
