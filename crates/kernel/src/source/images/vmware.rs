//! A saved state of VMware as a source: with the memory in it, or in a file beside it.

use std::path::{Path, PathBuf};

use bigiron_format::FormatError;
use bigiron_format::vmware::{VmwareState, is_vmware};

use super::super::elf::{ElfBytes, ElfSource};
use super::ranges::find_machine;
use crate::error::SourceError;

/// Extensions of a saved state, and of the memory beside it.
const STATES: [&str; 2] = ["vmss", "vmsn"];
const MEMORY: &str = "vmem";

/// Returns the files of one dump: a saved state and the memory beside it if `paths` has one of
/// them alone, otherwise `paths`.
pub fn with_file_beside(paths: &[PathBuf]) -> Vec<PathBuf> {
    let beside = |path: &Path, extension: &str| {
        let path = path.with_extension(extension);
        path.is_file().then_some(path)
    };
    let mut all = paths.to_vec();
    if let [path] = paths {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let other = match extension {
            Some(MEMORY) => STATES.iter().find_map(|state| beside(path, state)),
            Some(extension) if STATES.contains(&extension) => beside(path, MEMORY),
            _ => None,
        };
        all.extend(other);
    }
    all
}

/// Opens a saved state, if one of the files is one; returns the files otherwise.
pub fn open_state(
    files: Vec<ElfBytes>,
) -> Result<Result<Box<ElfSource>, Vec<ElfBytes>>, SourceError> {
    let is_state = |file: &ElfBytes| {
        let mut front = [0; 4];
        let read = file.read().read_exact_at("the signature", 0, &mut front);
        read.is_ok() && is_vmware(&front)
    };
    if files.len() > 2 || !files.iter().any(is_state) {
        return Ok(Err(files));
    }
    let (mut states, mut others): (Vec<_>, Vec<_>) = files.into_iter().partition(is_state);
    let (Some(file), [] | [_]) = (states.pop(), &others[..]) else {
        return Ok(Err(others));
    };
    let path = file.path().to_owned();
    if let Some(second) = states.pop() {
        return Err(SourceError::Unsupported {
            path: second.path().to_owned(),
            reason: "is a saved state as well; give one with the memory beside it".into(),
        });
    }
    let error = |path: &Path, cause: FormatError| SourceError::Format {
        path: path.to_owned(),
        cause,
    };
    let state = VmwareState::read(file.read()).map_err(|cause| error(&path, cause))?;
    let vmem = others.pop().filter(|_| !state.has_memory());
    let size = vmem.as_ref().map(|vmem| vmem.read().size());
    let ranges = state.ranges(size).map_err(|cause| error(&path, cause))?;
    let Some(ranges) = ranges else {
        return Err(SourceError::Unsupported {
            reason: format!(
                "is a saved state of VMware without memory, which is in a file beside it ({}); \
                 give both",
                path.with_extension(MEMORY).display()
            ),
            path,
        });
    };
    let kind = "VMware saved state";
    let source = find_machine(vmem.unwrap_or(file), kind, ranges, state.notes())?;
    Ok(Ok(Box::new(source)))
}
