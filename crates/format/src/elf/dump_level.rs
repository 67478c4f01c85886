//! The note that records the dump level of an ELF core, and whether it lacks struct pages. The
//! headers of the other formats have fields for both.

use super::note::{Note, Notes, encode, own, without};

/// Name and type of the note; its descriptor is 4 bytes: the level in the lowest one, then flags.
const NOTE: (&[u8], u32) = own(2);
/// The flag of a dump without the struct pages of excluded page frames.
const LACKS_STRUCT_PAGES: u32 = 1 << 8;

/// The pages that a dump lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The dump level.
    pub level: u8,
    /// Struct pages of excluded page frames are left out.
    pub struct_pages: bool,
}

/// Returns what is recorded in `notes`, if an intact note has it.
pub fn find(notes: Notes<'_>) -> Option<LeftOut> {
    let endian = notes.endian();
    let note = notes.intact().find(is_level)?;
    let found = endian.u32(note.desc, 0)?;
    let level = u8::try_from(found & !LACKS_STRUCT_PAGES).ok()?;
    let struct_pages = found & LACKS_STRUCT_PAGES != 0;
    (level <= 31).then_some(LeftOut {
        level,
        struct_pages,
    })
}

/// Returns the bytes of `notes` with `left_out` in place of what is recorded there.
pub fn replace(notes: Notes<'_>, left_out: Option<LeftOut>) -> Vec<u8> {
    let endian = notes.endian();
    let (mut out, end) = without(notes, is_level);
    if let Some(left_out) = left_out {
        let mut desc = [0; 4];
        let flags = match left_out.struct_pages {
            true => LACKS_STRUCT_PAGES,
            false => 0,
        };
        endian.put_u32(&mut desc, 0, u32::from(left_out.level) | flags);
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
            let one = LeftOut {
                level: 1,
                struct_pages: false,
            };
            let all = LeftOut {
                level: 31,
                struct_pages: true,
            };
            let old = replace(notes(&core), Some(one));
            let new = replace(notes(&old), Some(all));
            assert_eq!(
                (find(notes(&old)), find(notes(&new))),
                (Some(one), Some(all))
            );
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
