//! Where a striped dump may go.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{Packing, packing};
use crate::error::DumpError;
use crate::options::{DumpOptions, OutputFormat, OutputTarget};

/// Parts at most: each takes two threads and the memory of some chunks.
const MOST_PARTS: usize = 64;

/// Refuses what cannot be a striped dump; gives the names of its parts.
pub fn check_targets(
    targets: &[OutputTarget],
    options: &DumpOptions,
) -> Result<Vec<PathBuf>, DumpError> {
    let refused = |reason: String| Err(DumpError::Layout(reason));
    if options.format != OutputFormat::Vmdump {
        return refused(format!(
            "-f {} cannot be striped; only -f vmdump can",
            options.format.name()
        ));
    }
    if packing(options) == Some(Packing::Bzip2) {
        return refused(
            "-c bzip2 cannot be striped: nothing in it says where a stream belongs once the end \
             of a file is lost; take -c zstd"
                .into(),
        );
    }
    if !(2..=MOST_PARTS).contains(&targets.len()) {
        return refused(format!(
            "a dump is striped over 2 to {MOST_PARTS} files, not {}",
            targets.len()
        ));
    }
    let mut paths: Vec<PathBuf> = Vec::with_capacity(targets.len());
    for target in targets {
        let Some(path) = target.path() else {
            return refused("a dump is striped over files and devices only".into());
        };
        if let Some(same) = paths.iter().find(|other| is_same(other, path)) {
            return refused(format!(
                "{} and {} are the same; a dump is striped over different ones",
                same.display(),
                path.display()
            ));
        }
        paths.push(path.to_owned());
    }
    Ok(paths)
}

/// Whether two names are of one file, which may not be there yet.
fn is_same(one: &Path, other: &Path) -> bool {
    if let (Ok(one), Ok(other)) = (fs::metadata(one), fs::metadata(other)) {
        if one.file_type().is_block_device() || other.file_type().is_block_device() {
            return one.rdev() == other.rdev() && one.file_type() == other.file_type();
        }
        // Character devices such as /dev/null take any number of files.
        return one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino());
    }
    let directory = |path: &Path| {
        let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
        fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()
    };
    one.file_name() == other.file_name() && directory(one) == directory(other)
}
