//! A vmdump that can be read at random: its header, where its chunks are, and
//! what is missing.

use super::chunk::{Chunk, ChunkHeader};
use super::header::{Container, VmdumpHeader};
use super::index::{self, DirectoryEntry};
use super::record::{self, Tag};
use super::root::{Extent, Root};
use super::scan::Scan;
use super::streams;
use super::walk::{Walk, WalkItem};
use crate::bytes::ReadAt;
use crate::error::FormatError;

/// Chunks that are found together where there is no index.
pub(super) const PIECE_CHUNKS: u32 = 1024;

/// What an index record or the metadata unpacks to in the bzip2 container, at most.
const MAX_SMALL_RECORD: u64 = 8 << 20;

/// A part of the core that the file has not got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first byte in the core.
    pub start: u64,
    /// Behind the last byte in the core.
    pub end: u64,
}

/// Chunks whose places are read together: those of an index record, or about
/// as many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Where its first chunk begins in the core.
    pub(super) position: u64,
    /// Where its chunks are in the file.
    pub(super) chunks: Extent,
    /// Its index record.
    pub(super) record: Option<Extent>,
}

/// A vmdump.
pub struct VmdumpFile {
    bytes: Box<dyn ReadAt>,
    header: VmdumpHeader,
    root: Option<Root>,
    /// By position in the core.
    pieces: Vec<Piece>,
    /// All chunks of a dump in bzip2 without a root.
    scanned: Vec<Chunk>,
    gaps: Vec<Gap>,
    damage: Option<FormatError>,
}

impl VmdumpFile {
    /// Reads the header, and finds the chunks: by the directory, or, where the
    /// end of the file is missing or damaged, by going through all of it.
    pub fn open(bytes: Box<dyn ReadAt>) -> Result<Self, FormatError> {
        let mut front = [0; 16];
        bytes.read_exact_at("the signature", 0, &mut front)?;
        // Where its first record is damaged, it may still be one by its root.
        let container = streams::container_of(&front).unwrap_or(Container::Zstd);
        let found = Root::find(&bytes, container)?;
        if container == Container::Bzip2 && found.is_none() {
            return Self::open_cut_streams(bytes);
        }
        let header = match container {
            Container::Zstd => read_header(&bytes),
            Container::Bzip2 => found
                .as_ref()
                .map(|(_, root)| root.header.clone())
                .ok_or_else(|| FormatError::unexpected("the root", 0, "one", "none")),
        };
        // The root has a copy of the header.
        let (header, mut damage) = match (header, &found) {
            (Ok(header), _) => (header, None),
            (Err(error), Some((_, root))) => (root.header.clone(), Some(error)),
            (Err(error), None) => return Err(error),
        };
        let mut file = Self {
            bytes,
            header,
            root: None,
            pieces: Vec::new(),
            scanned: Vec::new(),
            gaps: Vec::new(),
            damage: None,
        };
        match found.filter(|(_, root)| root.header == file.header) {
            Some((_, root)) => {
                match file.read_directory(&root) {
                    Ok(pieces) => file.pieces = pieces,
                    Err(error) if container == Container::Bzip2 => return Err(error),
                    Err(error) => {
                        file.scan();
                        damage = Some(error);
                    }
                }
                file.root = Some(root);
            }
            None => file.scan(),
        }
        if damage.is_some() {
            file.damage = damage;
        }
        Ok(file)
    }

    /// A dump in bzip2 that has no root.
    fn open_cut_streams(bytes: Box<dyn ReadAt>) -> Result<Self, FormatError> {
        let scanned = streams::scan(&bytes)?;
        let piece = |chunks: &[Chunk]| Piece {
            position: chunks.first().map_or(0, |chunk| chunk.position),
            chunks: Extent::default(),
            record: None,
        };
        let covered = scanned.chunks.last().map_or(0, Chunk::end);
        let gap = Gap {
            start: covered,
            end: scanned.header.core_size,
        };
        Ok(Self {
            bytes,
            pieces: scanned
                .chunks
                .chunks(PIECE_CHUNKS as usize)
                .map(piece)
                .collect(),
            gaps: Some(gap)
                .into_iter()
                .filter(|gap| gap.start < gap.end)
                .collect(),
            header: scanned.header,
            root: None,
            scanned: scanned.chunks,
            damage: scanned.damage,
        })
    }

    /// What the dump is.
    pub fn header(&self) -> &VmdumpHeader {
        &self.header
    }

    /// The root; `None` if the file was cut or its writer interrupted.
    pub fn root(&self) -> Option<&Root> {
        self.root.as_ref()
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &dyn ReadAt {
        self.bytes.as_ref()
    }

    /// Parts of the core that are not in the file, the first of them, as far
    /// as they were looked for: where there is no usable root.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// What is damaged in the file, as far as it was looked at: the first of it.
    pub fn damage(&self) -> Option<&FormatError> {
        self.damage.as_ref()
    }

    /// Parts of the index.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Where the record of a part of the index is, if it has one.
    pub fn index_place(&self, piece: usize) -> Option<Extent> {
        self.pieces.get(piece)?.record
    }

    /// The part of the index that the byte at `position` of the core may be in.
    pub fn piece_of(&self, position: u64) -> Option<usize> {
        self.pieces
            .partition_point(|piece| piece.position <= position)
            .checked_sub(1)
    }

    /// Where the first chunk of a part of the index begins in the core.
    pub fn piece_position(&self, piece: usize) -> Option<u64> {
        self.pieces.get(piece).map(|piece| piece.position)
    }

    /// The chunks of a part of the index, in the order of the core.
    pub fn chunks(&self, piece: usize) -> Result<Vec<Chunk>, FormatError> {
        if !self.scanned.is_empty() {
            let mut pieces = self.scanned.chunks(PIECE_CHUNKS as usize);
            return Ok(pieces.nth(piece).map(<[Chunk]>::to_vec).unwrap_or_default());
        }
        let Some(piece) = self.pieces.get(piece) else {
            return Ok(Vec::new());
        };
        if let Some(place) = piece.record {
            match self.read_index(place) {
                Ok(chunks) => return Ok(chunks),
                // The headers of the chunks say the same.
                Err(FormatError::Unexpected { .. } | FormatError::Truncated { .. })
                    if self.header.container == Container::Zstd => {}
                Err(error) => return Err(error),
            }
        }
        let mut chunks: Vec<Chunk> = Vec::new();
        for step in Walk::new(&self.bytes, &self.header, piece.chunks) {
            if let WalkItem::Chunk(ChunkHeader { chunk, .. }) = step
                && chunks
                    .last()
                    .is_none_or(|last| last.end() <= chunk.position)
                && chunks.len() < index::MAX_ENTRIES
            {
                chunks.push(chunk);
            }
        }
        Ok(chunks)
    }

    fn read_index(&self, place: Extent) -> Result<Vec<Chunk>, FormatError> {
        let payload = self.read_payload(Tag::Index, place)?;
        index::decode(&self.header, &payload, place.offset)
    }

    /// The payload of the record at `place`.
    pub fn read_payload(&self, tag: Tag, place: Extent) -> Result<Vec<u8>, FormatError> {
        let (frame, record);
        let is_whole = match self.header.container {
            Container::Zstd => {
                frame = record::read(&self.bytes, tag, place.offset)?;
                record = record::decode(&frame, tag, place.offset)?;
                frame.len() as u64 == place.size
            }
            Container::Bzip2 => {
                let most = match tag {
                    Tag::Directory => self.bytes.size().max(MAX_SMALL_RECORD),
                    _ => MAX_SMALL_RECORD,
                };
                frame = streams::read(&self.bytes, tag.name(), place, most)?;
                record = record::decode_bare(&frame, place.offset)?;
                record.tag == tag
            }
        };
        if !is_whole || record.dump != self.header.dump() {
            return Err(FormatError::unexpected(
                tag.name(),
                place.offset,
                format!("{} bytes of this dump", place.size),
                format!("{} of dump {:016x}", record.tag.name(), record.dump),
            ));
        }
        Ok(record.payload.to_vec())
    }

    fn read_directory(&self, root: &Root) -> Result<Vec<Piece>, FormatError> {
        let payload = self.read_payload(Tag::Directory, root.directory)?;
        let entries = index::decode_directory(&payload, root.directory.offset)?;
        let piece = |entry: &DirectoryEntry| Piece {
            position: entry.position,
            chunks: Extent {
                offset: entry.first_offset,
                size: entry.offset.saturating_sub(entry.first_offset),
            },
            record: Some(Extent {
                offset: entry.offset,
                size: u64::from(entry.size),
            }),
        };
        Ok(entries.iter().map(piece).collect())
    }

    /// Goes through the whole file.
    fn scan(&mut self) {
        let all = Extent {
            offset: 0,
            size: self.bytes.size(),
        };
        let mut scan = Scan::default();
        let mut root = None;
        for step in Walk::new(&self.bytes, &self.header, all) {
            match step {
                WalkItem::Chunk(header) => scan.chunk(&header),
                WalkItem::Record {
                    tag: Tag::Index,
                    place,
                    payload,
                } => match index::decode(&self.header, &payload, place.offset) {
                    Ok(chunks) => scan.index(place, &chunks),
                    Err(error) => scan.damage = scan.damage.take().or(Some(error)),
                },
                WalkItem::Record {
                    tag: Tag::Root,
                    place,
                    payload,
                } => root = Root::decode(&payload, place.offset).ok(),
                WalkItem::Record { .. } | WalkItem::SeekTable(_) => {}
                WalkItem::Damaged { error, .. } => scan.damage = scan.damage.take().or(Some(error)),
            }
        }
        scan.close(None);
        let behind = scan.covered;
        scan.gap(behind, self.header.core_size);
        // Behind the end of a dump on a device may be anything.
        self.root = root.filter(|root| root.header == self.header);
        self.pieces = scan.pieces;
        self.gaps = scan.gaps;
        self.damage = scan.damage;
    }
}

/// The header at the front of the file.
fn read_header(bytes: &dyn ReadAt) -> Result<VmdumpHeader, FormatError> {
    let frame = record::read(bytes, Tag::Header, 0)?;
    let record = record::decode(&frame, Tag::Header, 0)?;
    VmdumpHeader::decode(record.payload, 0)
}
