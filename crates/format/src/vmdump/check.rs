//! Cross-checks all structures of a vmdump.

use super::chunk::{Chunk, ChunkHeader};
use super::codec::ChunkDecompressor;
use super::extent::Extent;
use super::header::Container;
use super::index::{self, DirectoryEntry};
use super::record::Tag;
use super::root::Root;
use super::seek_table;
use super::walk::{Walk, WalkItem};
use super::{ChunkKind, VmdumpFile};
use crate::error::FormatError;

/// Maximum number of findings reported; more are of the same kind.
const MAX_FINDINGS: usize = 64;

/// A defect of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Offset in the file.
    pub offset: u64,
    /// Position in the core of the data concerned.
    pub position: Option<u64>,
    /// Description.
    pub reason: String,
}

/// Checks all of `file` except its compressed chunks, which [`check_group`] does: headers,
/// checksums, order, and the counts at the end of the file.
///
/// A truncated file is valid up to its end. Pages are checked by their readers.
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

/// Checks the compressed bytes of all chunks of an index record; `packed` is a buffer for them.
/// Several threads can check different records.
///
/// A bzip2 stream has only its own checksum, which is checked when it is decompressed.
pub fn check_group(
    file: &VmdumpFile,
    group: usize,
    packed: &mut Vec<u8>,
) -> Result<Vec<Finding>, FormatError> {
    let mut findings = Vec::new();
    if file.header().container == Container::Bzip2 {
        return Ok(findings);
    }
    for chunk in file.chunks(group)? {
        match file.read_packed(&chunk, packed) {
            Ok(_) => {}
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
    /// The core is complete up to here.
    position: u64,
    /// Number of the next chunk, and number of chunks so far.
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

    /// Checks all frames of the zstd container.
    fn frames(&mut self) -> Result<(), FormatError> {
        let file = self.file;
        let all = Extent {
            offset: 0,
            size: file.bytes().size(),
        };
        let mut frames: Vec<(u32, u32)> = Vec::new();
        let (mut metadata, mut directory, mut ended) = (None, None, false);
        for step in Walk::new(file.bytes(), file.header(), all) {
            match step {
                WalkItem::Chunk(header) => {
                    let head = ChunkHeader::size(&header.chunk) as u32;
                    if frames.len() <= seek_table::MAX_FRAMES {
                        frames.push((head, 0));
                        frames.push((header.chunk.packed, header.chunk.len as u32));
                    }
                    if ended {
                        self.found(header.chunk.offset, None, "a chunk after the directory");
                    }
                    self.chunk(&header);
                }
                WalkItem::Record {
                    tag,
                    extent,
                    payload,
                } => {
                    if frames.len() <= seek_table::MAX_FRAMES {
                        frames.push((extent.size as u32, 0));
                    }
                    match tag {
                        Tag::Header if extent.offset == 0 => {}
                        Tag::Index => self.index(extent, &payload),
                        Tag::Directory => {
                            ended = true;
                            directory = Some(extent);
                            self.directory(extent.offset, &payload);
                        }
                        Tag::Metadata => metadata = Some(extent),
                        Tag::Root => {
                            self.root(extent.offset, &payload, directory, metadata);
                        }
                        other => {
                            let reason = format!("{} at the wrong position", other.name());
                            self.found(extent.offset, None, reason);
                        }
                    }
                }
                WalkItem::SeekTable(extent) => match seek_table::read(file.bytes(), extent) {
                    Ok(found) if found == frames => {}
                    Ok(_) => {
                        let reason = "the seek table does not list the frames before it";
                        self.found(extent.offset, None, reason);
                    }
                    Err(error) => self.found(extent.offset, None, error.to_string()),
                },
                WalkItem::Damaged { extent, error, .. } => {
                    // An incomplete frame at the end of a truncated file is not damage.
                    let is_end = extent.offset + extent.size == all.size && file.root().is_none();
                    if !(is_end && matches!(error, FormatError::Truncated { .. })) {
                        let position = Some(self.position);
                        self.found(extent.offset, position, error.to_string());
                    }
                }
            }
        }
        self.end();
        Ok(())
    }

    fn chunk(&mut self, header: &ChunkHeader) {
        let chunk = &header.chunk;
        // In a part of a striped dump, the numbers in between are in other parts.
        let is_next = match self.file.header().is_striped() {
            true => header.sequence >= self.sequence,
            false => header.sequence == self.sequence,
        };
        self.count += 1;
        if !is_next {
            let reason = format!(
                "chunk number {}, expected {}",
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
                "an index record is missing",
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

    fn index(&mut self, extent: Extent, payload: &[u8]) {
        match index::decode(self.file.header(), payload, extent.offset) {
            Ok(chunks) if chunks == self.chunks => {}
            Ok(chunks) => {
                let position = chunks.first().map(|chunk| chunk.position);
                let reason = "the index record does not list the chunks before it";
                self.found(extent.offset, position, reason);
            }
            Err(error) => self.found(extent.offset, None, error.to_string()),
        }
        self.indexed(extent);
    }

    /// Records what the directory must say about an index record.
    fn indexed(&mut self, extent: Extent) {
        if let Some(first) = self.chunks.first() {
            self.directory.push(DirectoryEntry {
                offset: extent.offset,
                size: extent.size as u32,
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
        directory: Option<Extent>,
        metadata: Option<Extent>,
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
                "a header that differs from the first record",
            ),
            says(
                Some(root.directory) == directory,
                "a different location of the directory",
            ),
            says(
                Some(root.metadata) == metadata,
                "a different location of the metadata",
            ),
            says(root.chunks == self.count, "a different number of chunks"),
            says(
                root.dumped == self.dumped && root.lost == self.lost,
                "a different number of pages",
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

    /// Returns true if the core is complete; for a part of a striped dump that is unknown.
    fn is_whole(&self) -> bool {
        let header = self.file.header();
        header.is_striped() || self.position == header.core_size
    }

    /// If the root claims completeness, the chunks must cover the core.
    fn end(&mut self) {
        if let Some(root) = self.file.root()
            && root.complete
            && !self.is_whole()
        {
            let (offset, position) = (self.file.bytes().size(), Some(self.position));
            self.found(offset, position, "the core goes on, but no chunk has it");
        }
    }

    /// Checks the index of the bzip2 container, and unpacks streams of excluded pages, which no
    /// reader does.
    fn streams(&mut self) -> Result<(), FormatError> {
        let file = self.file;
        let mut offset = 0;
        let mut zeros: Option<(u64, Vec<u8>)> = None;
        let mut extents = Vec::new();
        for group in 0..file.chunk_groups() {
            self.chunks = file.chunks(group)?;
            for chunk in self.chunks.clone() {
                if chunk.offset != offset {
                    let reason =
                        format!("a stream at {:#x}, expected at {offset:#x}", chunk.offset);
                    self.found(offset, Some(chunk.position), reason);
                }
                offset = chunk.offset + u64::from(chunk.packed);
                self.in_order(&chunk);
                self.count += 1;
                if chunk.kind == ChunkKind::Excluded {
                    self.zeros(&chunk, &mut zeros)?;
                }
            }
            if let Some(extent) = file.index_record(group) {
                extents.push(extent);
                self.indexed(extent);
            }
        }
        let Some(root) = file.root() else {
            return Ok(());
        };
        for extent in extents.into_iter().chain([root.directory, root.metadata]) {
            if extent.offset != offset {
                self.found(offset, None, "a hole between the streams at the end");
            }
            offset = extent.offset + extent.size;
        }
        if root.dumped != self.dumped || root.lost != self.lost || root.chunks != self.count {
            self.found(offset, None, "the root and the index have different counts");
        }
        self.end();
        let metadata = file.read_payload(Tag::Metadata, root.metadata);
        if let Err(error) = metadata {
            self.found(root.metadata.offset, None, error.to_string());
        }
        Ok(())
    }

    /// A stream of excluded pages must contain zeros. Most are equal.
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
            let reason = "a stream of excluded pages is not zero";
            self.found(chunk.offset, Some(chunk.position), reason);
        } else {
            *known = Some((chunk.len, data));
        }
        Ok(())
    }
}
