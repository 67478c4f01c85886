//! vmdumps of records with valid checksums and chosen fields.

use bigiron_format::codec::{Codec, Compression};
use bigiron_format::vmdump::codec::checksum;
use bigiron_format::vmdump::{record, zeros};

use crate::choices::Choices;

const PAGE: usize = 4096;
/// Most records after the headers.
const MOST: usize = 96;

/// A vmdump in the making.
struct Writer<'a, 'b> {
    choices: &'a mut Choices<'b>,
    out: Vec<u8>,
    dump: u64,
    /// Position of the memory.
    memory: u64,
    chunk_pages: u64,
    /// Position of the next chunk, and its number.
    position: u64,
    number: u64,
    /// The chunks since the last index, as its entries; offset and size of indexes.
    entries: Vec<Vec<u8>>,
    indexes: Vec<Vec<u8>>,
    /// Records with their frames, to be repeated.
    written: Vec<Vec<u8>>,
}

/// Writes chunks, indexes, directories and roots behind the headers of a valid dump: `prefix`
/// is its header, its chunks of ELF headers, and nothing else.
pub fn encode(choices: &mut Choices<'_>, prefix: &[u8]) -> Vec<u8> {
    let word = |at: usize| u64::from_le_bytes(prefix[at..at + 8].try_into().expect("8 bytes"));
    let memory = word(24 + 24);
    let chunk_pages = word(24 + 16) >> 32;
    let mut writer = Writer {
        choices,
        out: prefix.to_vec(),
        dump: word(16),
        memory,
        chunk_pages,
        position: memory,
        number: 1,
        entries: Vec::new(),
        indexes: Vec::new(),
        written: Vec::new(),
    };
    for _ in 0..MOST {
        if writer.choices.is_over() {
            break;
        }
        writer.next();
    }
    writer.out
}

impl Writer<'_, '_> {
    fn next(&mut self) {
        match self.choices.byte() % 16 {
            0..8 => self.chunk(),
            8 | 9 => self.index(),
            10 => self.directory(),
            11 => self.root(),
            12 => {
                let len = self.choices.below(64);
                let byte = self.choices.byte();
                self.out.resize(self.out.len() + len, byte);
            }
            13 => {
                // The head of a record that is long, and is none.
                self.out.extend(0x184d_2a50_u32.to_le_bytes());
                let len = self.choices.number(4096) as u32;
                self.out.extend(len.to_le_bytes());
                self.out.extend(b"VMDindex");
                self.out.extend(self.dump.to_le_bytes());
            }
            14 => {
                let again = self.choices.below(self.written.len());
                let again = self.written.get(again).cloned().unwrap_or_default();
                self.out.extend(again);
            }
            _ => self.position = self.memory + (self.choices.below(64) * PAGE) as u64,
        }
    }

    fn record(&mut self, tag: record::Tag, payload: &[u8]) -> (u64, u64) {
        let frame = record::encode(tag, self.dump, payload);
        let at = self.out.len() as u64;
        self.out.extend(&frame);
        self.written.push(frame.clone());
        (at, frame.len() as u64)
    }

    fn chunk(&mut self) {
        let pages = match self.choices.byte() {
            0 => 1,
            _ => self.chunk_pages,
        };
        let size = pages * PAGE as u64;
        let kind = self.choices.number(2) as u8;
        let fill = self.choices.byte();
        let packed = match fill {
            0..64 => zeros::zstd_frame(self.choices.number(size) as u32),
            _ => self.pages(pages as usize, fill),
        };
        let offset = self.out.len() as u64;
        let len = self.choices.number(packed.len() as u64) as u32;
        let position = self.choices.number(self.position);
        let in_core = self.choices.number(size);
        let sum = self.choices.number(checksum(&packed));
        let lost = self.choices.byte() < 32;
        let number = self.choices.number(self.number);
        let mut bitmaps = Vec::new();
        if kind == 2 {
            for _ in 0..1 + usize::from(lost) {
                let bits = self.choices.number(u64::MAX >> (64 - pages.min(64)));
                bitmaps.extend(bits.to_le_bytes());
            }
        }
        let mut payload = vec![kind, u8::from(lost), 0, 0];
        payload.extend(len.to_le_bytes());
        for field in [number, position, in_core, sum] {
            payload.extend(field.to_le_bytes());
        }
        payload.extend(&bitmaps);
        self.record(record::Tag::Chunk, &payload);
        self.out.extend(packed);
        let mut entry = Vec::new();
        for field in [self.choices.number(offset), position, in_core] {
            entry.extend(field.to_le_bytes());
        }
        entry.extend(len.to_le_bytes());
        entry.extend([kind, u8::from(lost), 0, 0]);
        entry.extend(bitmaps);
        self.entries.push(entry);
        self.position = self.position.wrapping_add(size);
        self.number += 1;
    }

    /// A frame of pages that are nearly equal.
    fn pages(&mut self, pages: usize, fill: u8) -> Vec<u8> {
        let mut bytes = vec![fill; pages * PAGE];
        for (index, page) in bytes.chunks_exact_mut(PAGE).enumerate() {
            page[0] = index as u8;
            page[1] = self.number as u8;
        }
        let mut room = vec![0; bytes.len() + 1024];
        let mut zstd = Compression::new(Codec::Zstd).compressor().expect("zstd");
        let len = zstd.compress(&bytes, &mut room).expect("room");
        room.truncate(len);
        room
    }

    fn index(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        let count = self.choices.number(entries.len() as u64) as u32;
        let mut payload = Vec::from(count.to_le_bytes());
        payload.extend([0; 4]);
        payload.extend(entries.concat());
        let (at, len) = self.record(record::Tag::Index, &payload);
        let mut entry = Vec::new();
        entry.extend(self.choices.number(at).to_le_bytes());
        entry.extend((self.choices.number(len) as u32).to_le_bytes());
        entry.extend(count.to_le_bytes());
        // Position and offset of its first chunk.
        let first = entries.first();
        let field = |at: usize| {
            first.map_or(0, |entry| {
                u64::from_le_bytes(entry[at..at + 8].try_into().expect("8 bytes"))
            })
        };
        for number in [field(8), field(0)] {
            entry.extend(self.choices.number(number).to_le_bytes());
        }
        self.indexes.push(entry);
    }

    fn directory(&mut self) {
        let payload = self.indexes.concat();
        self.record(record::Tag::Directory, &payload);
    }

    fn root(&mut self) {
        let directory = self.record(record::Tag::Directory, &self.indexes.concat());
        let metadata = self.record(record::Tag::Metadata, b"{}");
        // The fields of a root, then those of the header.
        let mut payload = Vec::new();
        payload.extend(u64::from(self.choices.byte() & 1).to_le_bytes());
        let number = self.number;
        for field in [
            number,
            number,
            0,
            directory.0,
            directory.1,
            metadata.0,
            metadata.1,
        ] {
            payload.extend(self.choices.number(field).to_le_bytes());
        }
        payload.extend_from_slice(&self.out[24..24 + 480]);
        payload.extend([584_u32.to_le_bytes(), 480_u32.to_le_bytes()].concat());
        self.record(record::Tag::Root, &payload);
    }
}
