//! `bigiron save … s3://BUCKET/PREFIX/KEY --keep-dumps N`: older dumps beside the object are removed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bigiron_dump::{Choice, DumpError, Fate, Removed, Retention};
use bigiron_format::ReadAt;
use bigiron_kernel::source::{is_encrypted, is_plain_dump};
use bigiron_objects::{Listed, Location, Remote};

use super::{helper, list, location};

/// Bytes at the beginning of an object that tell what it is.
const FRONT: usize = 4096;
/// What is in the names of dumps: of an encrypted one nothing else can be told.
const NAMES: [&str; 2] = ["vmcore", "dump"];

/// Removes dumps that have the prefix of `saved`, up to its last slash, and no further slash, until
/// the others are within `limits`. `saved` is the newest; what is no dump stays. `fingerprint` names
/// the crash of a dump.
///
/// # Errors
///
/// The prefix cannot be listed, an object not be read, or `fingerprint` fails; nothing is removed
/// then. An object that cannot be removed is a warning.
pub fn apply(
    limits: Retention,
    saved: &Path,
    fingerprint: impl Fn(&Path) -> Result<Option<String>, DumpError>,
) -> anyhow::Result<Removed> {
    let saved = location(saved)?;
    let remote = Arc::new(helper::start(saved.scheme)?);
    let end = saved.key.rfind('/').map_or(0, |slash| slash + 1);
    let prefix = saved.with_key(&saved.key[..end]);
    let mut dumps = Vec::new();
    for object in list(&remote, &prefix)? {
        let is_beside = object
            .key
            .get(end..)
            .is_some_and(|name| !name.contains('/'));
        if is_beside && (object.key == saved.key || is_dump(&remote, &saved, &object)?) {
            dumps.push(object);
        }
    }
    // The newest first. The server's clock has given all of these times.
    dumps.sort_by(|one, other| {
        let order = |object: &Listed| (object.key == saved.key, object.modified);
        order(other)
            .cmp(&order(one))
            .then_with(|| other.key.cmp(&one.key))
    });
    let mut removed = Removed::default();
    let sizes: Vec<_> = dumps.iter().map(|object| object.size).collect();
    let name = |object: &Listed| PathBuf::from(saved.with_key(&object.key).to_string());
    let Choice { fates, bytes } = limits.choose(&sizes, |place| match dumps.get(place) {
        Some(object) => fingerprint(&name(object)),
        None => Ok(None),
    })?;
    for (object, fate) in dumps.iter().zip(fates) {
        if fate == Fate::StaysAsFirst {
            removed.firsts.push(name(object));
        }
        if fate != Fate::Goes {
            continue;
        }
        match remote.remove(&saved.with_key(&object.key)) {
            Ok(()) => {
                removed.files.push(name(object));
                removed.bytes += object.size;
            }
            Err(error) => removed.warnings.push(error.to_string()),
        }
    }
    if let Some(most) = limits.bytes.filter(|most| bytes > *most) {
        removed.warnings.push(format!(
            "{prefix}: the newest dump alone takes {bytes} bytes, more than the {most} allowed"
        ));
    }
    Ok(removed)
}

/// Returns true for an object that is a dump by its first bytes.
fn is_dump(remote: &Arc<Remote>, beside: &Location, object: &Listed) -> anyhow::Result<bool> {
    if object.size == 0 {
        return Ok(false);
    }
    let opened = remote.open(&beside.with_key(&object.key))?;
    let mut front = vec![0; FRONT];
    let count = read(&opened, &mut front)?;
    front.truncate(count);
    let name = object.key.rsplit('/').next().unwrap_or_default();
    let has_name = NAMES.iter().any(|word| name.contains(word));
    let is_core = |front: &[u8]| !front.starts_with(b"\x7fELF") || is_elf_core(front);
    Ok(is_plain_dump(&front) && is_core(&front) || is_encrypted(&front) && has_name)
}

fn read(object: &dyn ReadAt, front: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < front.len() {
        match object.read_at(count as u64, &mut front[count..])? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}

/// Returns true for an ELF file that is a core, and no program or library: the type at offset 16,
/// in the byte order at offset 5 (ELF specification, `e_type` and `EI_DATA`).
fn is_elf_core(front: &[u8]) -> bool {
    const ET_CORE: u16 = 4;
    let bytes = front.get(16..18).and_then(|bytes| bytes.try_into().ok());
    let kind = bytes.map(|bytes| match front.get(5) {
        Some(2) => u16::from_be_bytes(bytes),
        _ => u16::from_le_bytes(bytes),
    });
    kind == Some(ET_CORE)
}
