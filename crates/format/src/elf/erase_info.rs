//! The note that records what was erased from a dump (makedumpfile --config).

use super::note::{Notes, encode, without};

/// Name of the note; its type is 0.
const NAME: &[u8] = b"ERASEINFO";

/// Returns the text of the note in `notes`, without NULs; empty if no intact note has one.
pub fn find(notes: Notes<'_>) -> &[u8] {
    let note = notes.intact().find(|note| note.name == NAME);
    let text = note.map_or(&[][..], |note| note.desc);
    let end = text.iter().position(|byte| *byte == 0);
    &text[..end.unwrap_or(text.len())]
}

/// Returns the bytes of `notes` with the text of that note replaced; without the note if `text`
/// is empty.
pub fn replace(notes: Notes<'_>, text: &[u8]) -> Vec<u8> {
    let endian = notes.endian();
    let (mut out, end) = without(notes, |note| note.name == NAME);
    if !text.is_empty() {
        // Readers would not reach it behind a damaged note.
        out.splice(end..end, encode(NAME, 0, text, endian));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Endian;

    #[test]
    fn note_is_replaced_and_others_are_kept() {
        let endian = Endian::Little;
        let notes = |bytes| Notes::new(bytes, endian, 0);
        let core = encode(b"CORE", 1, b"registers", endian);
        let old = replace(notes(&core), b"erase a size 1\n");
        assert_eq!(find(notes(&old)), b"erase a size 1\n");
        let new = replace(notes(&old), b"erase b nullify\n");
        assert_eq!(find(notes(&new)), b"erase b nullify\n");
        assert_eq!(notes(&new).count(), 2);
        assert_eq!(replace(notes(&new), b""), core);
    }

    #[test]
    fn note_is_added_before_a_damaged_note() {
        let endian = Endian::Little;
        let core = encode(b"CORE", 1, b"registers", endian);
        let cut = [&core[..], &core[..20]].concat();
        let new = replace(Notes::new(&cut, endian, 0), b"erase a size 1\n");
        assert_eq!(find(Notes::new(&new, endian, 0)), b"erase a size 1\n");
        assert!(new.ends_with(&core[..20]));
    }
}
