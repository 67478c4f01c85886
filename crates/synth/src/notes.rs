//! ELF notes.

use std::ops::Range;

use crate::order::ByteOrder;

/// Extents of a note in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteExtent {
    /// The name.
    pub name: &'static str,
    /// Offset of the note's header.
    pub header: usize,
    /// Extent of the descriptor.
    pub desc: Range<usize>,
}

/// Notes in the order in which they are added. Offsets are relative to the first note.
#[derive(Debug)]
pub(crate) struct Notes {
    /// Order of the headers and descriptors.
    pub(crate) order: ByteOrder,
    pub(crate) bytes: Vec<u8>,
    pub(crate) extents: Vec<NoteExtent>,
}

impl Notes {
    pub(crate) fn new(order: ByteOrder) -> Self {
        Self {
            order,
            bytes: Vec::new(),
            extents: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, name: &'static str, kind: u32, desc: &[u8]) {
        let header = self.bytes.len();
        // The name's size includes its NUL. Name and descriptor are padded to four bytes.
        let namesz = name.len() as u32 + 1;
        for word in [namesz, desc.len() as u32, kind] {
            self.bytes.extend(self.order.u32(word));
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        let start = self.bytes.len();
        self.bytes.extend(desc);
        self.extents.push(NoteExtent {
            name,
            header,
            desc: start..self.bytes.len(),
        });
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
