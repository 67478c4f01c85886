//! Checks of the targets of a striped dump.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::error::DumpError;
use crate::format::OutputTarget;

/// Maximum number of parts: each takes two threads and the memory of some chunks.
const MAX_PARTS: usize = 64;

/// Refuses targets over which a dump cannot be striped.
pub fn check_stripes(targets: &[OutputTarget]) -> Result<(), DumpError> {
    let refused = |reason: String| Err(DumpError::Layout(reason));
    if !(2..=MAX_PARTS).contains(&targets.len()) {
        return refused(format!(
            "a dump is striped over 2 to {MAX_PARTS} files, not {}",
            targets.len()
        ));
    }
    let mut paths: Vec<&Path> = Vec::with_capacity(targets.len());
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
        paths.push(path);
    }
    Ok(())
}

/// True if two paths name the same file, which may not exist yet.
fn is_same(one: &Path, other: &Path) -> bool {
    if let (Ok(one), Ok(other)) = (fs::metadata(one), fs::metadata(other)) {
        if one.file_type().is_block_device() || other.file_type().is_block_device() {
            return one.rdev() == other.rdev() && one.file_type() == other.file_type();
        }
        // Character devices such as /dev/null take any number of parts.
        return one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino());
    }
    let directory = |path: &Path| {
        let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
        fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()
    };
    one.file_name() == other.file_name() && directory(one) == directory(other)
}
