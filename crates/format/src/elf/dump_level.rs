//! The note that records the dump level of an ELF core. The headers of the other formats have a
//! field for it.

use super::note::{Note, Notes, encode, own, without};

/// Name and type of the note; its descriptor is the level, 4 bytes.
const NOTE: (&[u8], u32) = own(2);

/// Returns the level recorded in `notes`, if an intact note has one.
pub fn find(notes: Notes<'_>) -> Option<u8> {
    let endian = notes.endian();
    let note = notes.intact().find(is_level)?;
    let level = u8::try_from(endian.u32(note.desc, 0)?).ok()?;
    (level <= 31).then_some(level)
}

/// Returns the bytes of `notes` with `level` in place of the level recorded there.
pub fn replace(notes: Notes<'_>, level: Option<u8>) -> Vec<u8> {
    let endian = notes.endian();
    let (mut out, end) = without(notes, is_level);
    if let Some(level) = level {
        let mut desc = [0; 4];
        endian.put_u32(&mut desc, 0, u32::from(level));
        // Readers would not reach it behind a damaged note.
        out.splice(end..end, encode(NOTE.0, NOTE.1, &desc, endian));
    }
    out
}

fn is_level(note: &Note) -> bool {
    (note.name, note.n_type) == NOTE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Endian;

    #[test]
    fn level_is_replaced_and_other_notes_are_kept() {
        for endian in [Endian::Little, Endian::Big] {
            let notes = |bytes| Notes::new(bytes, endian, 0);
            let core = encode(b"CORE", 1, b"registers", endian);
            assert_eq!(find(notes(&core)), None);
            let old = replace(notes(&core), Some(1));
            let new = replace(notes(&old), Some(31));
            assert_eq!((find(notes(&old)), find(notes(&new))), (Some(1), Some(31)));
            assert_eq!(notes(&new).count(), 2);
            assert_eq!(replace(notes(&new), None), core);
        }
    }

    #[test]
    fn level_that_does_not_exist_is_ignored() {
        let bytes = encode(NOTE.0, NOTE.1, &32_u32.to_le_bytes(), Endian::Little);
        assert_eq!(find(Notes::new(&bytes, Endian::Little, 0)), None);
    }
}
