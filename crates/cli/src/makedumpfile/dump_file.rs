//! Checks of DUMPFILE.

use std::fs;
use std::path::Path;

use super::settings::Settings;

/// Refuses an existing output without `-f`.
pub fn check_dump_file(settings: &Settings, path: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        settings.force || fs::symlink_metadata(path).is_err(),
        "Can't open the dump file ({}). File exists; -f replaces it",
        path.display()
    );
    Ok(())
}
