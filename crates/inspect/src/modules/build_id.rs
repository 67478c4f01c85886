//! The build id of a module: from struct module (CONFIG_STACKTRACE_BUILD_ID, since 5.14), else
//! from its notes in /sys/module/NAME/notes.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;

use crate::error::InspectError;
use crate::program::Program;

/// Maximum number of note sections of a module; there are two or three.
const MAX_NOTES: u64 = 32;
/// Bytes of notes that are read.
const NOTE_BYTES: usize = 256;
/// NT_GNU_BUILD_ID.
const BUILD_ID: u32 = 3;
/// Maximum length of a build id; that of SHA-1 has 20 bytes.
const MAX_BYTES: usize = 64;

/// Reads the build id in hexadecimal; returns `None` if the module has none or it is all zeros.
pub fn read(program: &Program, module: VirtAddr) -> Result<Option<String>, InspectError> {
    if program.has("module", "build_id") {
        let mut bytes = [0; 20];
        let at = program.member(module, "module", "build_id")?;
        program.read("a build id", at, &mut bytes)?;
        return Ok(text(&bytes));
    }
    if !program.has("module", "notes_attrs") || !program.has("module_notes_attrs", "attrs") {
        return Ok(None);
    }
    let notes = program.pointer(module, "module", "notes_attrs")?;
    if notes.0 == 0 {
        return Ok(None);
    }
    // The count was removed in 6.14 (4723f16de64e); the group is now an array of attribute
    // addresses, terminated by NULL.
    let count = match program.has("module_notes_attrs", "notes") {
        true => program.value(notes, "module_notes_attrs", "notes")?,
        false => counted(program, notes)?,
    };
    let first = program.member(notes, "module_notes_attrs", "attrs")?;
    let each = program.size_of("bin_attribute")?;
    for index in 0..count.min(MAX_NOTES) {
        let at = VirtAddr(first.0.wrapping_add(index * each));
        let size = program.value(at, "bin_attribute", "size")?;
        let note = program.pointer(at, "bin_attribute", "private")?;
        let mut bytes = [0; NOTE_BYTES];
        let len = size.min(NOTE_BYTES as u64) as usize;
        program.read("a note", note, &mut bytes[..len])?;
        let endian = program.kernel().source().endian();
        if let Some(found) = in_note(&bytes[..len], endian) {
            return Ok(text(found));
        }
    }
    Ok(None)
}

fn counted(program: &Program, notes: VirtAddr) -> Result<u64, InspectError> {
    let names = ["grp.bin_attrs_new", "grp.bin_attrs"];
    let member = names
        .into_iter()
        .find(|name| program.has("module_notes_attrs", name));
    let Some(member) = member else {
        return Ok(0);
    };
    let table = program.pointer(notes, "module_notes_attrs", member)?;
    for index in 0..MAX_NOTES {
        if program.number(VirtAddr(table.0.wrapping_add(8 * index)), 8)? == 0 {
            return Ok(index);
        }
    }
    Ok(MAX_NOTES)
}

/// Returns the contents of a build id note: after Elf64_Nhdr and `GNU`.
fn in_note(note: &[u8], endian: Endian) -> Option<&[u8]> {
    let field = |offset| endian.u32(note, offset);
    let is_ours = field(0)? == 4 && field(8)? == BUILD_ID && note.get(12..16)? == b"GNU\0";
    let len = field(4)? as usize;
    (is_ours && len <= MAX_BYTES).then(|| note.get(16..16 + len))?
}

fn text(bytes: &[u8]) -> Option<String> {
    let digits = || bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.iter().any(|byte| *byte != 0).then(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_id_is_read_from_its_note_only() {
        let mut note = [
            4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0, 0xab, 0xcd,
        ];
        let found = in_note(&note, Endian::Little);
        assert_eq!(found.and_then(text), Some("abcd".into()));
        assert_eq!(in_note(&note[..17], Endian::Little), None);
        note[4] = 65;
        assert_eq!(in_note(&note, Endian::Little), None);
        note[4] = 2;
        note[8] = 1;
        assert_eq!(in_note(&note, Endian::Little), None);
        assert_eq!(text(&[0, 0]), None);
    }
}
