//! A vmdump that can be read at random: its header, where its chunks are, and
//! what is missing.

use super::chunk::{Chunk, ChunkHeader};
use super::extent::{ChunkGroup, Extent, GROUP_CHUNKS, Gap};
use super::find_root::find_root;
use super::header::{Container, VmdumpHeader};
use super::index::{self, DirectoryEntry};
use super::record::{self, Tag};
use super::root::Root;
use super::scan::Scan;
use super::streams;
use super::walk::{Walk, WalkItem};
use crate::bytes::ReadAt;
use crate::error::FormatError;
use crate::salvage::Salvager;

/// What an index record or the metadata unpacks to in the bzip2 container, at most.
const MAX_SMALL_RECORD: u64 = 8 << 20;

/// A vmdump.
pub struct VmdumpFile {
    bytes: Box<dyn ReadAt>,
    header: VmdumpHeader,
    root: Option<Root>,
    /// By position in the core.
    groups: Vec<ChunkGroup>,
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
        // Where its first record is damaged or unreadable, it may still be one by its root.
        Salvager::default().read(&bytes, "the signature", 0, &mut front)?;
        let container = streams::container_of(&front).unwrap_or(Container::Zstd);
        let (found, unreadable_root) = match find_root(&bytes, container) {
            Ok(found) => (found, None),
            Err(error @ FormatError::Io { .. }) if container == Container::Zstd => {
                (None, Some(error))
            }
            Err(error) => return Err(error),
        };
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
            groups: Vec::new(),
            scanned: Vec::new(),
            gaps: Vec::new(),
            damage: None,
        };
        match found.filter(|(_, root)| root.header == file.header) {
            Some((_, root)) => {
                match file.read_directory(&root) {
                    Ok(groups) => file.groups = groups,
                    Err(error) if container == Container::Bzip2 => return Err(error),
                    Err(error) => {
                        file.scan();
                        damage = Some(error);
                    }
                }
                file.root = Some(root);
            }
            None => {
                file.scan();
                damage = damage.or(unreadable_root);
            }
        }
        if damage.is_some() {
            file.damage = damage;
        }
        Ok(file)
    }

    /// A dump in bzip2 that has no root.
    fn open_cut_streams(bytes: Box<dyn ReadAt>) -> Result<Self, FormatError> {
        let scanned = streams::scan(&bytes)?;
        let group = |chunks: &[Chunk]| ChunkGroup {
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
            groups: scanned
                .chunks
                .chunks(GROUP_CHUNKS as usize)
                .map(group)
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
    pub fn chunk_groups(&self) -> usize {
        self.groups.len()
    }

    /// Where the record of a part of the index is, if it has one.
    pub fn index_record(&self, group: usize) -> Option<Extent> {
        self.groups.get(group)?.record
    }

    /// The part of the index that the byte at `position` of the core may be in.
    pub fn group_of(&self, position: u64) -> Option<usize> {
        self.groups
            .partition_point(|group| group.position <= position)
            .checked_sub(1)
    }

    /// Where the first chunk of a part of the index begins in the core.
    pub fn group_position(&self, group: usize) -> Option<u64> {
        self.groups.get(group).map(|group| group.position)
    }

    /// The chunks of a part of the index, in the order of the core.
    pub fn chunks(&self, group: usize) -> Result<Vec<Chunk>, FormatError> {
        if !self.scanned.is_empty() {
            let mut groups = self.scanned.chunks(GROUP_CHUNKS as usize);
            return Ok(groups.nth(group).map(<[Chunk]>::to_vec).unwrap_or_default());
        }
        let Some(group) = self.groups.get(group) else {
            return Ok(Vec::new());
        };
        if let Some(extent) = group.record {
            match self.read_index(extent) {
                Ok(chunks) => return Ok(chunks),
                // The headers of the chunks say the same.
                Err(
                    FormatError::Unexpected { .. }
                    | FormatError::Truncated { .. }
                    | FormatError::Io { .. },
                ) if self.header.container == Container::Zstd => {}
                Err(error) => return Err(error),
            }
        }
        let mut chunks: Vec<Chunk> = Vec::new();
        for step in Walk::new(&self.bytes, &self.header, group.chunks) {
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

    fn read_index(&self, extent: Extent) -> Result<Vec<Chunk>, FormatError> {
        let payload = self.read_payload(Tag::Index, extent)?;
        index::decode(&self.header, &payload, extent.offset)
    }

    /// The payload of the record at `extent`.
    pub fn read_payload(&self, tag: Tag, extent: Extent) -> Result<Vec<u8>, FormatError> {
        let (frame, record);
        let is_whole = match self.header.container {
            Container::Zstd => {
                frame = record::read(&self.bytes, tag, extent.offset)?;
                record = record::decode(&frame, tag, extent.offset)?;
                frame.len() as u64 == extent.size
            }
            Container::Bzip2 => {
                let most = match tag {
                    Tag::Directory => self.bytes.size().max(MAX_SMALL_RECORD),
                    _ => MAX_SMALL_RECORD,
                };
                frame = streams::read(&self.bytes, tag.name(), extent, most)?;
                record = record::decode_bare(&frame, extent.offset)?;
                record.tag == tag
            }
        };
        if !is_whole || record.dump != self.header.dump() {
            return Err(FormatError::unexpected(
                tag.name(),
                extent.offset,
                format!("{} bytes of this dump", extent.size),
                format!("{} of dump {:016x}", record.tag.name(), record.dump),
            ));
        }
        Ok(record.payload.to_vec())
    }

    fn read_directory(&self, root: &Root) -> Result<Vec<ChunkGroup>, FormatError> {
        let payload = self.read_payload(Tag::Directory, root.directory)?;
        let entries = index::decode_directory(&payload, root.directory.offset)?;
        // Chunks lie between two index records. Were a damaged directory to say otherwise, each
        // walk in place of a damaged record could take as long as one of the whole file.
        let mut before = 0;
        let group = |entry: &DirectoryEntry| {
            let start = entry.first_offset.clamp(before, entry.offset.max(before));
            before = entry.offset;
            ChunkGroup {
                position: entry.position,
                chunks: Extent {
                    offset: start,
                    size: entry.offset.saturating_sub(start),
                },
                record: Some(Extent {
                    offset: entry.offset,
                    size: u64::from(entry.size),
                }),
            }
        };
        Ok(entries.iter().map(group).collect())
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
                    extent,
                    payload,
                } => match index::decode(&self.header, &payload, extent.offset) {
                    Ok(chunks) => scan.index(extent, &chunks),
                    Err(error) => scan.damage = scan.damage.take().or(Some(error)),
                },
                WalkItem::Record {
                    tag: Tag::Root,
                    extent,
                    payload,
                } => root = Root::decode(&payload, extent.offset).ok(),
                WalkItem::Record { .. } | WalkItem::SeekTable(_) => {}
                WalkItem::Damaged { error, .. } => scan.damage = scan.damage.take().or(Some(error)),
            }
        }
        scan.close(None);
        let behind = scan.covered;
        scan.gap(behind, self.header.core_size);
        // Behind the end of a dump on a device may be anything.
        self.root = root.filter(|root| root.header == self.header);
        self.groups = scan.groups;
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
