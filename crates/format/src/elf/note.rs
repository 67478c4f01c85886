//! ELF notes: registers of every CPU, VMCOREINFO, and what else a writer adds.

use crate::bytes::Endian;

/// The name of the note that holds VMCOREINFO.
pub const VMCOREINFO: &[u8] = b"VMCOREINFO";
/// The name and type of the note that marks the dump of a running kernel.
const LIVE: (&[u8], u32) = (b"BIGIRON", 1);
/// The name and type of the note that does so for crash, as its extension snap
/// (extensions/snap.c) writes it.
const SNAP: (&[u8], u32) = (b"SNAP", 4);
/// The type of the note with a CPU's registers (NT_PRSTATUS, name "CORE").
pub const NT_PRSTATUS: u32 = 1;

/// One note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// The name without its NULs.
    pub name: &'a [u8],
    /// What the name's owner calls it.
    pub kind: u32,
    /// The contents.
    pub descriptor: &'a [u8],
    /// Where the contents begin, from the start of the notes.
    pub descriptor_offset: usize,
}

/// Goes through notes; ends at the first that does not fit.
#[derive(Clone, Debug)]
pub struct Notes<'a> {
    bytes: &'a [u8],
    offset: usize,
    endian: Endian,
}

impl<'a> Notes<'a> {
    /// The notes in `bytes`.
    pub fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self {
            bytes,
            offset: 0,
            endian,
        }
    }

    /// The first note named VMCOREINFO.
    pub fn vmcoreinfo(self) -> Option<Note<'a>> {
        let mut notes = self;
        notes.find(|note| note.name == VMCOREINFO && !note.descriptor.is_empty())
    }

    /// The task that readers of the dump of a running kernel begin with, 0 if it
    /// is not known; `None` for other dumps. See [`live`].
    pub fn live_task(self) -> Option<u64> {
        let endian = self.endian;
        self.filter(|note| [LIVE, SNAP].contains(&(note.name, note.kind)))
            .find_map(|note| endian.u64(note.descriptor, 0))
    }

    /// How many CPUs left their registers.
    pub fn cpu_count(self) -> usize {
        self.filter(|note| note.name == b"CORE" && note.kind == NT_PRSTATUS)
            .count()
    }
}

impl<'a> Iterator for Notes<'a> {
    type Item = Note<'a>;

    fn next(&mut self) -> Option<Note<'a>> {
        loop {
            let head = self.bytes.get(self.offset..)?;
            let name_size = usize::try_from(self.endian.u32(head, 0)?).ok()?;
            let size = usize::try_from(self.endian.u32(head, 4)?).ok()?;
            let kind = self.endian.u32(head, 8)?;
            let name_offset = self.offset.checked_add(12)?;
            let name_end = name_offset.checked_add(name_size)?;
            let descriptor_offset = name_end.checked_next_multiple_of(4)?;
            let descriptor_end = descriptor_offset.checked_add(size)?;
            let name = self.bytes.get(name_offset..name_end)?;
            let descriptor = self.bytes.get(descriptor_offset..descriptor_end)?;
            self.offset = descriptor_end.checked_next_multiple_of(4)?;
            // A kernel leaves an empty note where a CPU saved nothing.
            if name_size == 0 && size == 0 && kind == 0 {
                continue;
            }
            let length = name
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(name.len());
            return Some(Note {
                name: &name[..length],
                kind,
                descriptor,
                descriptor_offset,
            });
        }
    }
}

/// The note that marks the dump of a running kernel. `task` is the address of
/// the task that readers begin with, 0 if it is not known.
pub fn live(task: u64, endian: Endian) -> Vec<u8> {
    let mut descriptor = [0; 8];
    endian.put_u64(&mut descriptor, 0, task);
    encode(LIVE.0, LIVE.1, &descriptor, endian)
}

/// The note by which crash tells the dump of a running kernel, for
/// kdump-compressed dumps: in ELF cores crash then looks for no VMCOREINFO, and
/// finds a kernel only at the addresses it was linked to.
pub fn snap(task: u64, endian: Endian) -> Vec<u8> {
    let mut descriptor = [0; 8];
    endian.put_u64(&mut descriptor, 0, task);
    // crash takes the task from right behind the name (process_elf64_notes,
    // diskdump.c), so that is padded.
    let name = [SNAP.0, &[0; 3]].concat();
    encode(&name, SNAP.1, &descriptor, endian)
}

/// The notes without those of [`snap()`].
pub fn without_snap(notes: &[u8], endian: Endian) -> Vec<u8> {
    let mut walk = Notes::new(notes, endian);
    let (mut out, mut from) = (Vec::with_capacity(notes.len()), 0);
    while let Some(note) = walk.next() {
        let to = walk.offset.min(notes.len());
        if (note.name, note.kind) != SNAP {
            out.extend_from_slice(&notes[from..to]);
        }
        from = to;
    }
    out.extend_from_slice(&notes[from..]);
    out
}

/// The bytes of one note.
pub fn encode(name: &[u8], kind: u32, descriptor: &[u8], endian: Endian) -> Vec<u8> {
    let mut note = vec![0; 12];
    endian.put_u32(&mut note, 0, name.len() as u32 + 1);
    endian.put_u32(&mut note, 4, descriptor.len() as u32);
    endian.put_u32(&mut note, 8, kind);
    note.extend_from_slice(name);
    note.push(0);
    note.resize(note.len().next_multiple_of(4), 0);
    note.extend_from_slice(descriptor);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_as_written() {
        let mut bytes = encode(b"CORE", NT_PRSTATUS, &[1; 7], Endian::Little);
        bytes.extend([0; 12]);
        bytes.extend(encode(VMCOREINFO, 0, b"OSRELEASE=1\n", Endian::Little));
        let notes = Notes::new(&bytes, Endian::Little);
        assert_eq!(notes.clone().cpu_count(), 1);
        let found = notes.vmcoreinfo().unwrap();
        assert_eq!(found.descriptor, b"OSRELEASE=1\n");
        assert_eq!(&bytes[found.descriptor_offset..][..4], b"OSRE");
    }

    #[test]
    fn a_live_dump_is_marked_as_crash_wants_it() {
        const TASK: u64 = 0xffff_ffff_8260_a940;
        let endian = Endian::Little;
        let snap = snap(TASK, endian);
        let name_size = endian.u32(&snap, 0).unwrap() as usize;
        assert_eq!(endian.u64(&snap, 12 + name_size), Some(TASK));
        for bytes in [&snap, &live(TASK, endian)] {
            assert_eq!(Notes::new(bytes, endian).live_task(), Some(TASK));
        }
        let other = encode(b"CORE", 4, &[0; 8], endian);
        assert_eq!(Notes::new(&other, endian).live_task(), None);
        let others = [other.clone(), live(TASK, endian)].concat();
        let all = [other, snap, live(TASK, endian)].concat();
        assert_eq!(without_snap(&all, endian), others);
    }

    #[test]
    fn a_note_longer_than_the_notes_ends_them() {
        let mut bytes = encode(b"CORE", 1, &[0; 8], Endian::Little);
        Endian::Little.put_u32(&mut bytes, 4, u32::MAX);
        assert_eq!(Notes::new(&bytes, Endian::Little).next(), None);
        assert_eq!(Notes::new(&bytes[..7], Endian::Little).next(), None);
    }
}
