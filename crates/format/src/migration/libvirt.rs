//! The save image of libvirt: a header and the domain's XML before the stream (libvirt's
//! src/qemu/qemu_saveimage.h). The header has the byte order of the host.

use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;

const MAGIC: &[u8; 16] = b"LibvirtQemudSave";
/// Magic of an image that is not finished.
const PARTIAL: &[u8; 16] = b"LibvirtQemudPart";
const HEADER_SIZE: u64 = 92;
const VERSION: usize = 16;
const DATA_SIZE: usize = 20;
const FORMAT: usize = 28;
/// Versions of the format.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=2;
/// Names of the formats of the stream, by number.
const FORMATS: [&str; 7] = ["raw", "gzip", "bzip2", "xz", "lzop", "zstd", "sparse"];

/// Returns true if a file with these first bytes is a save image.
pub(super) fn is_save_image(front: &[u8]) -> bool {
    front.starts_with(MAGIC) || front.starts_with(PARTIAL)
}

/// Returns the offset of the stream, and true if the image is not finished.
///
/// # Errors
///
/// The header is damaged, or the stream has a form that is not read.
pub(super) fn find_stream(file: &dyn ReadAt) -> Result<(u64, bool), FormatError> {
    let mut header = [0; HEADER_SIZE as usize];
    file.read_exact_at("the header of the save image", 0, &mut header)?;
    let endian = [Endian::Little, Endian::Big].into_iter().find(|endian| {
        endian
            .u32(&header, VERSION)
            .is_some_and(|v| VERSIONS.contains(&v))
    });
    let Some(endian) = endian else {
        return Err(FormatError::unexpected(
            "the version of the save image",
            VERSION as u64,
            "1 or 2",
            format!("{:x?}", &header[VERSION..VERSION + 4]),
        ));
    };
    let word = |at: usize| endian.u32(&header, at).unwrap_or(0);
    let stream = HEADER_SIZE + u64::from(word(DATA_SIZE));
    let format = word(FORMAT);
    if format != 0 {
        let name = FORMATS.get(format as usize).copied().unwrap_or("unknown");
        let hint = match name {
            "sparse" | "unknown" => String::new(),
            name => format!(
                "; unpack it and read the result: tail -c +{} FILE | {name} -d >STREAM",
                stream + 1
            ),
        };
        return Err(FormatError::unexpected(
            "the format of the save image",
            FORMAT as u64,
            "0 (raw)",
            format!("{format} ({name}), which is not read{hint}"),
        ));
    }
    Ok((stream, header.starts_with(PARTIAL)))
}
