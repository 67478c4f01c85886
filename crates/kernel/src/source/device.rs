//! Raw dump devices as sources: the dump between two blocks.

use std::path::Path;

use bigiron_format::device::{self, DeviceContents, find_claims};
use bigiron_format::{FormatError, ReadAt, elf, flattened, kdump, vmdump};

use super::elf::ElfBytes;
use super::images::begins_image;
use crate::error::SourceError;

/// The contents of a raw dump device.
pub(super) struct OnDevice {
    /// The dump, like a file.
    pub bytes: ElfBytes,
    /// The reason why the dump may be incomplete.
    pub damage: Option<String>,
}

/// Returns the contents of a raw dump device, or the file unchanged if it is not one.
pub(super) fn enter(file: ElfBytes) -> Result<Result<OnDevice, ElfBytes>, SourceError> {
    let path = file.path().to_owned();
    let error = |cause| SourceError::Format {
        path: path.clone(),
        cause,
    };
    let mut front = [0; 16];
    let known = match file.read().read_exact_at("the signature", 0, &mut front) {
        Ok(()) => is_plain_dump(&front),
        // The reader of the dump reports what is wrong.
        Err(FormatError::Truncated { .. }) => true,
        Err(_) => false,
    };
    if known {
        return Ok(Err(file));
    }
    let Some(found) = device::find(file.read()).map_err(error)? else {
        if device::is_device(&front) {
            return Err(SourceError::Unsupported {
                path,
                reason: "is a dump device whose blocks at the start and at the end are both \
                         damaged"
                    .into(),
            });
        }
        return Ok(Err(file));
    };
    check_claims(file.read(), &path, &found)?;
    let size = file.read().size();
    let header = &found.header;
    let damage = if !header.complete {
        Some(format!(
            "{} has no complete mark: its writer was interrupted",
            path.display()
        ))
    } else if found.is_cut(size) {
        Some(format!(
            "{} ends at {size:#x}, before the dump on it does: it is truncated",
            path.display()
        ))
    } else {
        None
    };
    let (offset, length) = found.contents(size);
    let contents = DeviceContents::new(file.into_read(), offset, length);
    Ok(Ok(OnDevice {
        bytes: ElfBytes::Other(Box::new(contents), path),
        damage,
    }))
}

/// Returns true if a file with these first bytes is a dump by itself, without the blocks of a
/// device.
pub fn is_plain_dump(front: &[u8]) -> bool {
    front.starts_with(&elf::SIGNATURE)
        || kdump::KdumpHeaders::is_kdump(front)
        || flattened::is_flattened(front)
        || vmdump::container_of(front).is_some()
        || begins_image(front)
}

/// Another use of the device may have left one of the blocks.
fn check_claims(
    device: &dyn ReadAt,
    path: &Path,
    found: &device::FoundDump,
) -> Result<(), SourceError> {
    if found.good.len() == 2 {
        return Ok(());
    }
    let claims = find_claims(device).map_err(|cause| SourceError::Format {
        path: path.to_owned(),
        cause,
    })?;
    match claims.first() {
        None => Ok(()),
        Some(claim) => Err(SourceError::Unsupported {
            path: path.to_owned(),
            reason: format!(
                "was a dump device and now has another use: {} (its signature is at \
                 offset {:#x})",
                claim.name, claim.offset
            ),
        }),
    }
}
