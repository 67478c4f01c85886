//! The note that records what was erased from a dump (makedumpfile --config).

use super::note::{Notes, encode};
use crate::bytes::Endian;

/// Name of the note; its type is 0.
const NAME: &[u8] = b"ERASEINFO";

/// Returns the text of the note in `notes`, without NULs; empty if there is none.
pub fn find(notes: &[u8], endian: Endian) -> &[u8] {
    let note = Notes::new(notes, endian).find(|note| note.name == NAME);
    let text = note.map_or(&[][..], |note| note.descriptor);
    let end = text.iter().position(|byte| *byte == 0);
    &text[..end.unwrap_or(text.len())]
}

/// Returns `notes` with the text of that note replaced; without the note if `text` is empty.
pub fn replace(notes: &[u8], text: &[u8], endian: Endian) -> Vec<u8> {
    let mut out = Vec::with_capacity(notes.len());
    let mut from = 0;
    for note in Notes::new(notes, endian) {
        let to = (note.descriptor_offset + note.descriptor.len()).next_multiple_of(4);
        let to = to.min(notes.len());
        if note.name != NAME {
            out.extend_from_slice(&notes[from..to]);
        }
        from = to;
    }
    out.extend_from_slice(&notes[from..]);
    if !text.is_empty() {
        let note = encode(NAME, 0, text, endian);
        // Readers would not reach it behind bytes that are not notes.
        let at = out.len() - (notes.len() - from);
        out.splice(at..at, note);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_is_replaced_and_others_are_kept() {
        let endian = Endian::Little;
        let core = encode(b"CORE", 1, b"registers", endian);
        let old = replace(&core, b"erase a size 1\n", endian);
        assert_eq!(find(&old, endian), b"erase a size 1\n");
        let new = replace(&old, b"erase b nullify\n", endian);
        assert_eq!(find(&new, endian), b"erase b nullify\n");
        assert_eq!(Notes::new(&new, endian).count(), 2);
        assert_eq!(replace(&new, b"", endian), core);
    }
}
