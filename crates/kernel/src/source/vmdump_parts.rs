//! The files of a vmdump: one, or all parts of a striped one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bigiron_format::vmdump::{Chunk, ChunkKind, Container, CoreOrder, VmdumpFile, VmdumpHeader};
use bigiron_format::{FormatError, ReadAt};

use crate::error::SourceError;

/// Maximum number of index records kept in memory per file, of about 40 KiB each.
const CACHED_RECORDS: usize = 16;
/// Key of a cached index record: index of the file, and of the record in it.
type RecordKey = (usize, usize);

/// The chunks of one index record.
pub(super) type Chunks = Arc<Vec<Chunk>>;

/// A file.
pub struct VmdumpPart {
    /// The file.
    pub file: VmdumpFile,
    /// Its name in messages.
    pub path: PathBuf,
}

impl VmdumpPart {
    /// Part number and number of parts, for messages.
    pub fn name(&self) -> String {
        let (index, count) = self.file.header().stripe;
        format!("part {} of {count}", index + 1)
    }

    pub(super) fn error(&self, cause: FormatError) -> SourceError {
        SourceError::Format {
            path: self.path.clone(),
            cause,
        }
    }

    fn refused(&self, reason: String) -> SourceError {
        SourceError::Unsupported {
            path: self.path.clone(),
            reason,
        }
    }
}

/// A chunk and its file.
pub(super) struct Found {
    pub(super) part: usize,
    pub(super) chunks: Chunks,
    pub(super) index: usize,
}

impl Found {
    pub(super) fn chunk(&self) -> &Chunk {
        &self.chunks[self.index]
    }
}

/// The given files of one dump.
pub(super) struct VmdumpParts {
    /// In order of their part numbers.
    parts: Vec<VmdumpPart>,
    /// Index of the file from which the core's headers were read.
    headers_from: usize,
    /// Cached index records, most recently used first.
    records: Mutex<Vec<(RecordKey, Chunks)>>,
}

impl VmdumpParts {
    /// Opens parts of one dump, in any order; parts may be missing. Returns the headers of the
    /// core as well.
    pub(super) fn open(
        files: Vec<(Box<dyn ReadAt>, PathBuf)>,
    ) -> Result<(Self, Vec<u8>), SourceError> {
        let several = files.len() > 1;
        let mut parts = Vec::with_capacity(files.len());
        for (bytes, path) in files {
            match VmdumpFile::open(bytes) {
                Ok(file) => parts.push(VmdumpPart { file, path }),
                Err(cause) => return Err(SourceError::Format { path, cause }),
            }
        }
        parts.sort_by_key(|part| part.file.header().stripe.0);
        let Some(first) = parts.first() else {
            return Err(SourceError::Unsupported {
                path: PathBuf::new(),
                reason: "no file was given".into(),
            });
        };
        for part in &parts {
            check_part(part, several)?;
        }
        for pair in parts.windows(2) {
            check_pair(first, &pair[0], &pair[1])?;
        }
        let mut error = None;
        for (number, part) in parts.iter().enumerate() {
            match part.file.core_headers() {
                Ok(headers) => {
                    let parts = Self {
                        parts,
                        headers_from: number,
                        records: Mutex::new(Vec::new()),
                    };
                    return Ok((parts, headers));
                }
                Err(source) => error = error.or(Some(part.error(source))),
            }
        }
        Err(error.unwrap_or_else(|| first.refused("has no file".into())))
    }

    pub(super) fn all(&self) -> &[VmdumpPart] {
        &self.parts
    }

    /// The header of the first part; the others differ only in the part number.
    pub(super) fn header(&self) -> &VmdumpHeader {
        self.parts[0].file.header()
    }

    /// Iterates over the core.
    pub(super) fn core_order(&self) -> CoreOrder<'_> {
        CoreOrder::new(self.parts.iter().map(|part| &part.file), self.headers_from)
    }

    /// Numbers of the missing parts.
    pub(super) fn missing(&self) -> impl Iterator<Item = u16> + '_ {
        let there = |index: &u16| {
            let mut parts = self.parts.iter();
            parts.any(|part| part.file.header().stripe.0 == *index)
        };
        (0..self.header().stripe.1).filter(move |index| !there(index))
    }

    /// Returns true if any part shows that the writer reached the end of the core.
    pub(super) fn was_ended(&self) -> bool {
        self.parts.iter().any(|part| part.file.root().is_some())
    }

    /// Returns the chunks of an index record.
    fn index_record(&self, key: RecordKey) -> Result<Chunks, SourceError> {
        let lock = || {
            self.records
                .lock()
                .unwrap_or_else(|poison| poison.into_inner())
        };
        {
            let mut pieces = lock();
            if let Some(at) = pieces.iter().position(|piece| piece.0 == key) {
                pieces[..=at].rotate_right(1);
                return Ok(Arc::clone(&pieces[0].1));
            }
        }
        let part = &self.parts[key.0];
        let found = part.file.chunks(key.1).map_err(|error| part.error(error))?;
        let found = Arc::new(found);
        let mut pieces = lock();
        pieces.truncate(CACHED_RECORDS * self.parts.len() - 1);
        pieces.insert(0, (key, Arc::clone(&found)));
        Ok(found)
    }

    /// Returns the chunk with the byte at `position` of the core.
    pub(super) fn chunk_at(&self, position: u64) -> Result<Option<Found>, SourceError> {
        let mut error = None;
        for part in 0..self.parts.len() {
            match self.chunk_in(part, position) {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                // Another file may have it.
                Err(found) => error = error.or(Some(found)),
            }
        }
        error.map_or(Ok(None), Err)
    }

    fn chunk_in(&self, part: usize, position: u64) -> Result<Option<Found>, SourceError> {
        let Some(piece) = self.parts[part].file.group_of(position) else {
            return Ok(None);
        };
        let chunks = self.index_record((part, piece))?;
        let behind = chunks.partition_point(|chunk| chunk.position <= position);
        let found = behind.checked_sub(1).filter(|index| {
            let chunk = &chunks[*index];
            position < chunk.end() && chunk.kind != ChunkKind::Headers
        });
        Ok(found.map(|index| Found {
            part,
            chunks,
            index,
        }))
    }

    /// Returns the start of the next chunk of any file behind `position`, which is in no chunk;
    /// a position far behind the core's end if there is none.
    pub(super) fn next_position(&self, position: u64) -> Result<u64, SourceError> {
        let mut nearest = u64::MAX;
        for part in 0..self.parts.len() {
            nearest = nearest.min(self.next_in(part, position)?);
        }
        Ok(nearest)
    }

    fn next_in(&self, part: usize, position: u64) -> Result<u64, SourceError> {
        let file = &self.parts[part].file;
        let piece = file.group_of(position);
        if let Some(piece) = piece {
            let chunks = self.index_record((part, piece))?;
            let behind = chunks.partition_point(|chunk| chunk.position <= position);
            if let Some(chunk) = chunks.get(behind) {
                return Ok(chunk.position);
            }
        }
        let next = piece.map_or(0, |piece| piece + 1);
        let next = file.group_position(next).unwrap_or(u64::MAX);
        Ok(next.max(position.saturating_add(file.header().page_size())))
    }

    /// Returns the end of the lost pages from `position` on, which is in no chunk; `None` if
    /// the writer never got there. It has passed what is before a later chunk. For the rest, the
    /// root of another part of a striped dump is a sign; a file's own root may be a repair's.
    pub(super) fn lost_up_to(&self, position: u64) -> Result<Option<u64>, SourceError> {
        let next = self.next_position(position)?;
        let core_size = self.header().core_size;
        let was_passed = self.header().is_striped() && self.was_ended();
        Ok((next < core_size || was_passed).then_some(next.min(core_size)))
    }
}

/// Checks that a file is whole, or a part with positions in its chunks.
fn check_part(part: &VmdumpPart, several: bool) -> Result<(), SourceError> {
    let header = part.file.header();
    if several && !header.is_striped() {
        let reason = "is a whole vmdump, and no part of a striped one; give it alone";
        return Err(part.refused(reason.into()));
    }
    if header.is_striped() && header.container != Container::Zstd {
        let reason = format!(
            "says that it is {} of a striped vmdump in bzip2; there are none",
            part.name()
        );
        return Err(part.refused(reason));
    }
    Ok(())
}

/// Checks that two parts belong to the same dump and differ in their numbers.
fn check_pair(
    first: &VmdumpPart,
    before: &VmdumpPart,
    part: &VmdumpPart,
) -> Result<(), SourceError> {
    let (ours, theirs) = (part.file.header(), first.file.header());
    let with = first.path.display();
    if ours.id != theirs.id {
        let (ours, theirs) = (hexadecimal(&ours.id), hexadecimal(&theirs.id));
        return Err(part.refused(format!(
            "is {} of another dump (its id is {ours}) than {with} ({theirs})",
            part.name()
        )));
    }
    let same = VmdumpHeader {
        stripe: theirs.stripe,
        ..ours.clone()
    };
    if same != *theirs || ours.stripe.1 != theirs.stripe.1 {
        let reason = format!("its header does not go with that of {with}, of the same dump");
        return Err(part.refused(reason));
    }
    if ours.stripe.0 == before.file.header().stripe.0 {
        return Err(part.refused(format!(
            "is {}, and {} is too; give each part once",
            part.name(),
            before.path.display()
        )));
    }
    Ok(())
}

fn hexadecimal(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
