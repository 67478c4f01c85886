//! The core of a Xen guest as a source.

use bigiron_format::image::ImageRanges;
use bigiron_format::xen_core::XenCore;

use super::super::elf::{ElfBytes, ElfSource};
use super::ranges::find_machine;
use crate::error::SourceError;

/// Opens the core of a guest.
pub(super) fn open(file: ElfBytes) -> Result<ElfSource, SourceError> {
    let core = XenCore::read(file.read()).map_err(|cause| SourceError::Format {
        path: file.path().to_owned(),
        cause,
    })?;
    let mut notes = core.notes;
    let kind = match &core.machine_frames {
        Some(frames) => {
            notes.extend(frames.note());
            "core of a paravirtual Xen guest"
        }
        None => "core of a Xen guest",
    };
    let ImageRanges { ranges, damage } = core.ranges;
    find_machine(file, kind, ImageRanges { ranges, damage }, notes)
}
