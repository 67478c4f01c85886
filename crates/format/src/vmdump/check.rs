//! Holds everything in a vmdump against everything else.

use super::chunk::{Chunk, ChunkHeader};
use super::codec::ChunkDecompressor;
use super::header::Container;
use super::index::{self, DirectoryEntry};
use super::record::Tag;
use super::root::{Place, Root};
use super::seek_table;
use super::walk::{Step, Walk};
use super::{ChunkKind, VmdumpFile};
use crate::error::FormatError;

/// Findings that are told; more are of the same kind.
const MAX_FINDINGS: usize = 64;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where it is in the file.
    pub offset: u64,
    /// What of the core it is about: its first byte.
    pub position: Option<u64>,
    /// What is wrong.
    pub reason: String,
}

/// Checks all of `file` but its compressed chunks, which [`check_piece`] does:
/// headers, checksums, order, and what the end of the file says of all before it.
///
/// A file that was cut is as it should be up to its end. Pages are checked by
/// who reads them.
pub fn check(file: &VmdumpFile) -> Result<Vec<Finding>, FormatError> {
    let mut check = Check {
        file,
        findings: Vec::new(),
        position: 0,
        sequence: 0,
        count: 0,
        lost: 0,
        dumped: 0,
        chunks: Vec::new(),
        directory: Vec::new(),
    };
    match file.header().container {
        Container::Zstd => check.frames()?,
        Container::Bzip2 => check.streams()?,
    }
    Ok(check.findings)
}

/// Checks the compressed bytes of all chunks of a part of the index; `packed`
/// is room for them. Parts can be checked by several threads at once.
///
/// A stream of bzip2 has no checksum but its own: who decompresses it checks it.
pub fn check_piece(
    file: &VmdumpFile,
    piece: usize,
    packed: &mut Vec<u8>,
) -> Result<Vec<Finding>, FormatError> {
    let mut findings = Vec::new();
    if file.header().container == Container::Bzip2 {
        return Ok(findings);
    }
    for chunk in file.chunks(piece)? {
        match file.read_packed(&chunk, packed) {
            Ok(_) => {}
            Err(error @ FormatError::Io { .. }) => return Err(error),
            Err(_) if findings.len() >= MAX_FINDINGS => break,
            Err(error) => findings.push(Finding {
                offset: chunk.offset,
                position: Some(chunk.position),
                reason: error.to_string(),
            }),
        }
    }
    Ok(findings)
}

struct Check<'a> {
    file: &'a VmdumpFile,
    findings: Vec<Finding>,
    /// The core was there up to here.
    position: u64,
    /// The number of the next chunk, and how many there were.
    sequence: u64,
    count: u64,
    dumped: u64,
    lost: u64,
    /// Chunks since the last index record.
    chunks: Vec<Chunk>,
    directory: Vec<DirectoryEntry>,
}

impl Check<'_> {
    fn found(&mut self, offset: u64, position: Option<u64>, reason: impl Into<String>) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(Finding {
                offset,
                position,
                reason: reason.into(),
            });
        }
    }

    /// Goes through all frames of the zstd container.
    fn frames(&mut self) -> Result<(), FormatError> {
        let file = self.file;
        let all = Place {
            offset: 0,
            size: file.bytes().size(),
        };
        let mut frames: Vec<(u32, u32)> = Vec::new();
        let (mut metadata, mut directory, mut ended) = (None, None, false);
        for step in Walk::new(file.bytes(), file.header(), all) {
            match step {
                Step::Chunk(header) => {
                    let head = ChunkHeader::size(&header.chunk) as u32;
                    if frames.len() <= seek_table::MAX_FRAMES {
                        frames.push((head, 0));
                        frames.push((header.chunk.packed, header.chunk.len as u32));
                    }
                    if ended {
                        self.found(header.chunk.offset, None, "a chunk behind the directory");
                    }
                    self.chunk(&header);
                }
                Step::Record {
                    tag,
                    place,
                    payload,
                } => {
                    if frames.len() <= seek_table::MAX_FRAMES {
                        frames.push((place.size as u32, 0));
                    }
                    match tag {
                        Tag::Header if place.offset == 0 => {}
                        Tag::Index => self.index(place, &payload),
                        Tag::Directory => {
                            ended = true;
                            directory = Some(place);
                            self.directory(place.offset, &payload);
                        }
                        Tag::Metadata => metadata = Some(place),
                        Tag::Root => {
                            self.root(place.offset, &payload, directory, metadata);
                        }
                        other => {
                            let reason = format!("{} in the wrong place", other.name());
                            self.found(place.offset, None, reason);
                        }
                    }
                }
                Step::SeekTable(place) => {
                    let found = seek_table::read(file.bytes(), place)?;
                    if found != frames {
                        let reason = "the seek table does not list the frames before it";
                        self.found(place.offset, None, reason);
                    }
                }
                Step::Damaged { place, error } => {
                    // What a cut leaves at its end is no damage.
                    let is_end = place.offset + place.size == all.size && file.root().is_none();
                    if !(is_end && matches!(error, FormatError::Truncated { .. })) {
                        let position = Some(self.position);
                        self.found(place.offset, position, error.to_string());
                    }
                }
            }
        }
        self.end();
        Ok(())
    }

    fn chunk(&mut self, header: &ChunkHeader) {
        let chunk = &header.chunk;
        // Of a striped dump this is one file: the numbers between are in others.
        let is_next = match self.file.header().is_striped() {
            true => header.sequence >= self.sequence,
            false => header.sequence == self.sequence,
        };
        self.count += 1;
        if !is_next {
            let reason = format!(
                "chunk number {}, {} was expected",
                header.sequence, self.sequence
            );
            self.found(chunk.offset, Some(chunk.position), reason);
        }
        self.sequence = header.sequence.saturating_add(1);
        self.in_order(chunk);
        self.chunks.push(chunk.clone());
        if self.chunks.len() > index::MAX_ENTRIES {
            self.chunks.clear();
            self.found(
                chunk.offset,
                Some(chunk.position),
                "no index record for long",
            );
        }
    }

    fn in_order(&mut self, chunk: &Chunk) {
        let is_next = match self.file.header().is_striped() {
            true => chunk.position >= self.position,
            false => chunk.position == self.position,
        };
        if !is_next {
            let reason = format!(
                "a chunk of the core at {:#x}, after one that ends at {:#x}",
                chunk.position, self.position
            );
            self.found(
                chunk.offset,
                Some(self.position.min(chunk.position)),
                reason,
            );
        }
        self.position = chunk.end();
        let bits = |bits: &[u8]| {
            bits.iter()
                .map(|byte| u64::from(byte.count_ones()))
                .sum::<u64>()
        };
        self.dumped += bits(&chunk.dumped);
        self.lost += bits(&chunk.lost);
    }

    fn index(&mut self, place: Place, payload: &[u8]) {
        match index::decode(self.file.header(), payload, place.offset) {
            Ok(chunks) if chunks == self.chunks => {}
            Ok(chunks) => {
                let position = chunks.first().map(|chunk| chunk.position);
                let reason = "the index record does not list the chunks before it";
                self.found(place.offset, position, reason);
            }
            Err(error) => self.found(place.offset, None, error.to_string()),
        }
        self.indexed(place);
    }

    /// Notes what the directory must say of an index record.
    fn indexed(&mut self, place: Place) {
        if let Some(first) = self.chunks.first() {
            self.directory.push(DirectoryEntry {
                offset: place.offset,
                size: place.size as u32,
                chunks: self.chunks.len() as u32,
                position: first.position,
                first_offset: first.offset,
            });
        }
        self.chunks.clear();
    }

    fn directory(&mut self, offset: u64, payload: &[u8]) {
        if payload != index::encode_directory(&self.directory) {
            let reason = "the directory does not list the index records";
            self.found(offset, None, reason);
        }
    }

    fn root(
        &mut self,
        offset: u64,
        payload: &[u8],
        directory: Option<Place>,
        metadata: Option<Place>,
    ) {
        let root = match Root::decode(payload, offset) {
            Ok(root) => root,
            Err(error) => return self.found(offset, None, error.to_string()),
        };
        let says = |holds: bool, what: &str| (!holds).then(|| what.to_owned());
        let header = self.file.header();
        let found = [
            says(
                root.header == *header,
                "another header than the first record's",
            ),
            says(
                Some(root.directory) == directory,
                "another place of the directory",
            ),
            says(
                Some(root.metadata) == metadata,
                "another place of the metadata",
            ),
            says(root.chunks == self.count, "another number of chunks"),
            says(
                root.dumped == self.dumped && root.lost == self.lost,
                "another number of pages",
            ),
            says(
                !root.complete || self.is_whole(),
                "that it is complete, but the core is not",
            ),
        ];
        for reason in found.into_iter().flatten() {
            self.found(offset, None, format!("the root says {reason}"));
        }
    }

    /// Whether the core was there up to its end; of a striped dump nobody can
    /// tell from one file.
    fn is_whole(&self) -> bool {
        let header = self.file.header();
        header.is_striped() || self.position == header.core_size
    }

    /// What was found must reach to the end of the core if the root says so.
    fn end(&mut self) {
        if let Some(root) = self.file.root()
            && root.complete
            && !self.is_whole()
        {
            let (offset, position) = (self.file.bytes().size(), Some(self.position));
            self.found(offset, position, "the core goes on, but no chunk has it");
        }
    }

    /// Goes through the index of the bzip2 container, and unpacks what nobody
    /// reads: streams of excluded pages.
    fn streams(&mut self) -> Result<(), FormatError> {
        let file = self.file;
        let mut offset = 0;
        let mut zeros: Option<(u64, Vec<u8>)> = None;
        let mut places = Vec::new();
        for piece in 0..file.pieces() {
            self.chunks = file.chunks(piece)?;
            for chunk in self.chunks.clone() {
                if chunk.offset != offset {
                    let reason = format!(
                        "a stream at {:#x} was expected at {offset:#x}",
                        chunk.offset
                    );
                    self.found(offset, Some(chunk.position), reason);
                }
                offset = chunk.offset + u64::from(chunk.packed);
                self.in_order(&chunk);
                self.count += 1;
                if chunk.kind == ChunkKind::Excluded {
                    self.zeros(&chunk, &mut zeros)?;
                }
            }
            if let Some(place) = file.index_place(piece) {
                places.push(place);
                self.indexed(place);
            }
        }
        let Some(root) = file.root() else {
            return Ok(());
        };
        for place in places.into_iter().chain([root.directory, root.metadata]) {
            if place.offset != offset {
                self.found(offset, None, "a hole between the streams at the end");
            }
            offset = place.offset + place.size;
        }
        if root.dumped != self.dumped || root.lost != self.lost || root.chunks != self.count {
            self.found(offset, None, "the root has other counts than the index");
        }
        self.end();
        let metadata = file.read_payload(Tag::Metadata, root.metadata);
        if let Err(error) = metadata {
            self.found(root.metadata.offset, None, error.to_string());
        }
        Ok(())
    }

    /// A stream of excluded pages must be one of zeros. Most are the same.
    fn zeros(
        &mut self,
        chunk: &Chunk,
        known: &mut Option<(u64, Vec<u8>)>,
    ) -> Result<(), FormatError> {
        let packed = u64::from(chunk.packed);
        let data = self
            .file
            .bytes()
            .read_vec_at("a stream", chunk.offset, packed)?;
        if known
            .as_ref()
            .is_some_and(|known| known.0 == chunk.len && known.1 == data)
        {
            return Ok(());
        }
        let mut out = vec![1; chunk.len as usize];
        let unpacked = ChunkDecompressor::Bzip2.decompress(&data, &mut out);
        if unpacked.is_err() || out.iter().any(|byte| *byte != 0) {
            let reason = "a stream of excluded pages is not one of zeros";
            self.found(chunk.offset, Some(chunk.position), reason);
        } else {
            *known = Some((chunk.len, data));
        }
        Ok(())
    }
}
