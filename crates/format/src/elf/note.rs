//! ELF notes (Elf64_Nhdr, include/uapi/linux/elf.h): the registers of each CPU, VMCOREINFO, and
//! others that the writer of a dump adds.
//!
//! A crashing kernel writes the notes of its CPUs one by one and may leave a damaged one. The
//! iterator reports it with its offset and ends there, since the position of the next note is
//! unknown. [`Notes::intact`] is for readers that use the notes before it.

use crate::bytes::Endian;
use crate::error::FormatError;

/// Name of the note that holds VMCOREINFO.
pub const VMCOREINFO: &[u8] = b"VMCOREINFO";
/// Name and type of the note that marks the dump of a running kernel.
const LIVE: (&[u8], u32) = own(1);
/// Name and type of the note that marks it for crash, as crash's extension snap writes it
/// (extensions/snap.c).
const SNAP: (&[u8], u32) = (b"SNAP", 4);
/// n_type of the note with the registers of a CPU; its name is "CORE".
pub const NT_PRSTATUS: u32 = 1;
/// n_type of the vector registers of PowerPC, which have 16 bytes.
const NT_PPC_VMX: u32 = 0x100;

/// Returns name and type of a note of bigiron's own. crash tells some notes by their type alone: with a type that
/// another owner uses too, it would take this one for the registers of a CPU (NT_PRSTATUS is 1, NT_FPREGSET is 2).
pub(super) const fn own(number: u8) -> (&'static [u8], u32) {
    (b"BIGIRON", u32::from_be_bytes([b'B', b'I', b'G', number]))
}

/// Size of an Elf64_Nhdr.
const NHDR_SIZE: usize = 12;
/// Alignment of names, descriptors and notes.
const ALIGN: usize = 4;

/// A note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// Name of the owner, without NULs.
    pub name: &'a [u8],
    /// Type, as numbered by the owner.
    pub n_type: u32,
    /// Descriptor: the contents.
    pub desc: &'a [u8],
    /// Offset of the descriptor from the start of the notes.
    pub desc_offset: usize,
}

/// Iterator over notes. It ends after the first damaged note, which it returns as an error.
#[derive(Clone, Debug)]
pub struct Notes<'a> {
    bytes: &'a [u8],
    endian: Endian,
    /// Offset of `bytes` in the file.
    file_offset: u64,
    /// Position in `bytes`; past the end after a damaged note.
    position: usize,
}

impl<'a> Notes<'a> {
    /// Creates an iterator over the notes in `bytes`, which start at `file_offset` of the file;
    /// errors add that to their offsets.
    pub fn new(bytes: &'a [u8], endian: Endian, file_offset: u64) -> Self {
        Self {
            bytes,
            endian,
            file_offset,
            position: 0,
        }
    }

    /// All bytes of the notes, damaged ones included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Offset of the notes in the file.
    pub fn file_offset(&self) -> u64 {
        self.file_offset
    }

    /// Byte order.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// The remaining notes before the first damaged one.
    pub fn intact(self) -> impl Iterator<Item = Note<'a>> {
        self.map_while(Result::ok)
    }

    /// Returns the error of the damaged note, if there is one.
    pub fn damage(mut self) -> Option<FormatError> {
        self.find_map(Result::err)
    }

    /// Returns the first note named VMCOREINFO; an error if a damaged note precedes it.
    pub fn vmcoreinfo(mut self) -> Result<Option<Note<'a>>, FormatError> {
        self.find(|note| {
            note.as_ref()
                .map_or(true, |n| n.name == VMCOREINFO && !n.desc.is_empty())
        })
        .transpose()
    }

    /// Returns the task at which readers of a live dump start, 0 if unknown; `None` if no intact
    /// note marks the dump as live. See [`live`].
    pub fn live_task(self) -> Option<u64> {
        let endian = self.endian;
        self.intact()
            .filter(|note| [LIVE, SNAP].contains(&(note.name, note.n_type)))
            .find_map(|note| endian.u64(note.desc, 0))
    }

    /// Returns the number of CPUs with registers in an intact note.
    pub fn cpu_count(self) -> usize {
        self.intact()
            .filter(|note| note.name == b"CORE" && note.n_type == NT_PRSTATUS)
            .count()
    }

    /// Parses the note at `position` and moves there to the next.
    fn parse(&mut self) -> Result<Note<'a>, FormatError> {
        let start = self.position;
        self.position = usize::MAX;
        let error = |what, offset: usize, expected: String, found: String| {
            let offset = self.file_offset.saturating_add(offset as u64);
            FormatError::unexpected(what, offset, expected, found)
        };
        let rest = &self.bytes[start..];
        let field = |offset| self.endian.u32(rest, offset);
        let (Some(n_namesz), Some(n_descsz), Some(n_type)) = (field(0), field(4), field(8)) else {
            let expected = format!("{NHDR_SIZE} bytes");
            let found = format!("{} before the end of the notes", rest.len());
            return Err(error("the header of an ELF note", start, expected, found));
        };
        let slice = |what, at: usize, offset: usize, size: u32| {
            let end = usize::try_from(size).ok();
            let end = end.and_then(|size| offset.checked_add(size));
            let bytes = end.and_then(|end| self.bytes.get(offset..end));
            bytes.ok_or_else(|| {
                let left = self.bytes.len().saturating_sub(offset);
                let expected = format!("at most {left}, where the notes end");
                error(what, at, expected, size.to_string())
            })
        };
        let name_offset = start + NHDR_SIZE;
        let name = slice("n_namesz of an ELF note", start, name_offset, n_namesz)?;
        let desc_offset = (name_offset + name.len()).next_multiple_of(ALIGN);
        let desc = match n_descsz {
            0 => &[],
            _ => slice("n_descsz of an ELF note", start + 4, desc_offset, n_descsz)?,
        };
        self.position = (desc_offset + desc.len()).next_multiple_of(ALIGN);
        let length = name.iter().position(|byte| *byte == 0);
        Ok(Note {
            name: &name[..length.unwrap_or(name.len())],
            n_type,
            desc,
            desc_offset,
        })
    }
}

impl<'a> Iterator for Notes<'a> {
    type Item = Result<Note<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The kernel leaves an empty note for a CPU that saved nothing, and pads with zeros.
        loop {
            let rest = self.bytes.get(self.position..)?;
            let header = &rest[..rest.len().min(NHDR_SIZE)];
            if header.is_empty() || header.iter().any(|byte| *byte != 0) {
                break;
            }
            self.position += header.len();
        }
        (self.position < self.bytes.len()).then(|| self.parse())
    }
}

/// Returns the note that marks the dump of a running kernel. `task` is the address of the task
/// at which readers start, 0 if unknown.
pub fn live(task: u64, endian: Endian) -> Vec<u8> {
    let mut desc = [0; 8];
    endian.put_u64(&mut desc, 0, task);
    encode(LIVE.0, LIVE.1, &desc, endian)
}

/// Returns the note by which crash recognizes the dump of a running kernel, for kdump-compressed
/// dumps. In an ELF core with this note crash does not look for VMCOREINFO, and finds a kernel
/// only at the addresses that it was linked to.
pub fn snap(task: u64, endian: Endian) -> Vec<u8> {
    let mut desc = [0; 8];
    endian.put_u64(&mut desc, 0, task);
    // crash reads the task immediately after the name (process_elf64_notes, diskdump.c), so the
    // name is padded to a multiple of four.
    let name = [SNAP.0, &[0; 3]].concat();
    encode(&name, SNAP.1, &desc, endian)
}

/// Returns the bytes of `notes` without the notes that `drop` selects. Padding and a damaged note
/// with all bytes after it are kept. The second value is the offset at which these bytes after
/// the last intact note start.
pub(super) fn without(mut notes: Notes, drop: impl Fn(&Note) -> bool) -> (Vec<u8>, usize) {
    let bytes = notes.bytes;
    let mut out = Vec::with_capacity(bytes.len());
    let mut from = 0;
    while let Some(Ok(note)) = notes.next() {
        let to = notes.position.min(bytes.len());
        if !drop(&note) {
            out.extend_from_slice(&bytes[from..to]);
        }
        from = to;
    }
    let end = out.len();
    out.extend_from_slice(&bytes[from..]);
    (out, end)
}

/// Returns the bytes of `notes` without those of [`snap()`].
pub fn without_snap(notes: Notes) -> Vec<u8> {
    without(notes, |note| (note.name, note.n_type) == SNAP).0
}

/// Returns the bytes of the intact notes in the byte order `to`. The registers are 64-bit words,
/// as in the notes of PowerPC, the one architecture where a dump's headers can have another order
/// than its memory.
pub fn reorder(notes: Notes, to: Endian) -> Vec<u8> {
    let mut out = Vec::with_capacity(notes.bytes.len());
    for note in notes.intact() {
        let mut desc = note.desc.to_vec();
        match (note.name, note.n_type) {
            (b"CORE", NT_PRSTATUS) => reverse_prstatus(&mut desc),
            (b"CORE" | b"LINUX", NT_PPC_VMX) => reverse_each(&mut desc, 16),
            (b"CORE" | b"LINUX", _) => reverse_each(&mut desc, 8),
            _ => {}
        }
        out.extend(encode(note.name, note.n_type, &desc, to));
    }
    out
}

/// Reverses the fields of a struct elf_prstatus (include/linux/elfcore.h).
fn reverse_prstatus(desc: &mut [u8]) {
    /// The first bytes: signal numbers (three of 4 bytes and one of 2), two masks, four process
    /// ids, and times.
    const FIELDS: [(usize, usize, usize); 5] = [
        (0, 12, 4),
        (12, 14, 2),
        (16, 32, 8),
        (32, 48, 4),
        (48, 112, 8),
    ];
    for (start, end, size) in FIELDS {
        reverse_each(desc.get_mut(start..end).unwrap_or_default(), size);
    }
    // pr_fpvalid and padding follow the registers.
    let end = desc.len().saturating_sub(8);
    reverse_each(desc.get_mut(112..end).unwrap_or_default(), 8);
    reverse_each(desc.get_mut(end..).unwrap_or_default(), 4);
}

fn reverse_each(bytes: &mut [u8], size: usize) {
    for field in bytes.chunks_exact_mut(size) {
        field.reverse();
    }
}

/// Encodes a note.
pub fn encode(name: &[u8], n_type: u32, desc: &[u8], endian: Endian) -> Vec<u8> {
    let mut note = vec![0; NHDR_SIZE];
    endian.put_u32(&mut note, 0, name.len() as u32 + 1);
    endian.put_u32(&mut note, 4, desc.len() as u32);
    endian.put_u32(&mut note, 8, n_type);
    note.extend_from_slice(name);
    note.push(0);
    note.resize(note.len().next_multiple_of(ALIGN), 0);
    note.extend_from_slice(desc);
    note.resize(note.len().next_multiple_of(ALIGN), 0);
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDIAN: Endian = Endian::Little;

    #[test]
    fn notes_are_parsed_as_encoded() {
        let mut bytes = encode(b"CORE", NT_PRSTATUS, &[1; 7], ENDIAN);
        bytes.extend([0; 12]);
        bytes.extend(encode(VMCOREINFO, 0, b"OSRELEASE=1\n", ENDIAN));
        let notes = Notes::new(&bytes, ENDIAN, 0);
        assert_eq!(notes.clone().cpu_count(), 1);
        assert!(notes.clone().damage().is_none());
        let note = notes.vmcoreinfo().unwrap().unwrap();
        assert_eq!(note.desc, b"OSRELEASE=1\n");
        assert_eq!(&bytes[note.desc_offset..][..4], b"OSRE");
    }

    #[test]
    fn live_dump_is_marked_for_crash() {
        const TASK: u64 = 0xffff_ffff_8260_a940;
        let snap = snap(TASK, ENDIAN);
        let n_namesz = ENDIAN.u32(&snap, 0).unwrap() as usize;
        assert_eq!(ENDIAN.u64(&snap, 12 + n_namesz), Some(TASK));
        for bytes in [&snap, &live(TASK, ENDIAN)] {
            assert_eq!(Notes::new(bytes, ENDIAN, 0).live_task(), Some(TASK));
        }
        let other = encode(b"CORE", 4, &[0; 8], ENDIAN);
        assert_eq!(Notes::new(&other, ENDIAN, 0).live_task(), None);
        let others = [other.clone(), live(TASK, ENDIAN)].concat();
        let all = [other, snap, live(TASK, ENDIAN)].concat();
        assert_eq!(without_snap(Notes::new(&all, ENDIAN, 0)), others);
    }

    #[test]
    fn note_longer_than_the_notes_is_an_error_with_its_file_offset() {
        let mut bytes = encode(b"CORE", 1, &[0; 8], ENDIAN);
        ENDIAN.put_u32(&mut bytes, 4, u32::MAX);
        let mut notes = Notes::new(&bytes, ENDIAN, 0x1000);
        assert_eq!(
            notes.next().unwrap().unwrap_err().to_string(),
            "n_descsz of an ELF note at offset 0x1004: expected at most 8, where the notes end, \
             found 4294967295"
        );
        assert!(notes.next().is_none());
        ENDIAN.put_u32(&mut bytes, 0, 100);
        let damage = Notes::new(&bytes, ENDIAN, 0x1000).damage().unwrap();
        assert_eq!(
            damage.to_string(),
            "n_namesz of an ELF note at offset 0x1000: expected at most 16, where the notes end, \
             found 100"
        );
        let damage = Notes::new(&bytes[..7], ENDIAN, 0x1000).damage().unwrap();
        assert_eq!(
            damage.to_string(),
            "the header of an ELF note at offset 0x1000: expected 12 bytes, found 7 before the \
             end of the notes"
        );
    }

    #[test]
    fn zeros_after_the_last_note_are_padding() {
        let bytes = [encode(b"CORE", 1, &[1; 8], ENDIAN), vec![0; 17]].concat();
        assert_eq!(Notes::new(&bytes, ENDIAN, 0).count(), 1);
        assert!(Notes::new(&bytes, ENDIAN, 0).damage().is_none());
        assert!(Notes::new(&[], ENDIAN, 0).vmcoreinfo().unwrap().is_none());
    }

    #[test]
    fn registers_are_reversed_with_the_byte_order() {
        let mut desc = vec![0; 504];
        Endian::Big.put_u32(&mut desc, 32, 7);
        Endian::Big.put_u64(&mut desc, 112 + 8, 0xc000_0000_0123_4567);
        Endian::Big.put_u32(&mut desc, 496, 1);
        let own = [
            encode(b"CORE", NT_PRSTATUS, &desc, Endian::Big),
            encode(VMCOREINFO, 0, b"OSRELEASE=1\n", Endian::Big),
        ]
        .concat();
        let other = reorder(Notes::new(&own, Endian::Big, 0), ENDIAN);
        let notes = Notes::new(&other, ENDIAN, 0);
        let registers = notes.clone().next().unwrap().unwrap();
        assert_eq!(ENDIAN.u32(registers.desc, 32), Some(7));
        assert_eq!(ENDIAN.u64(registers.desc, 120), Some(0xc000_0000_0123_4567));
        assert_eq!(ENDIAN.u32(registers.desc, 496), Some(1));
        let text = notes.clone().vmcoreinfo().unwrap().unwrap();
        assert_eq!(text.desc, b"OSRELEASE=1\n");
        assert_eq!(reorder(notes, Endian::Big), own);
    }

    #[test]
    fn damaged_note_hides_only_notes_after_it() {
        let info = encode(VMCOREINFO, 0, b"OSRELEASE=1\n", ENDIAN);
        let cut = &encode(b"CORE", NT_PRSTATUS, &[1; 336], ENDIAN)[..100];
        let after = [&info, cut].concat();
        let notes = Notes::new(&after, ENDIAN, 0);
        assert!(notes.clone().vmcoreinfo().unwrap().is_some());
        assert_eq!(notes.clone().intact().count(), 1);
        assert!(notes.clone().damage().is_some());
        assert_eq!(without_snap(notes), after);
        let mut before = cut.to_vec();
        ENDIAN.put_u32(&mut before, 4, 1 << 20);
        before.extend(&info);
        assert!(Notes::new(&before, ENDIAN, 0).vmcoreinfo().is_err());
    }
}
