//! Writes the missing index and root of a vmdump that was truncated or whose writer was
//! interrupted.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bigiron_format::kdump::Utsname;
use bigiron_format::vmdump::record::Tag;
use bigiron_format::vmdump::walk::{Walk, WalkItem};
use bigiron_format::vmdump::{
    Chunk, ChunkKind, Container, DirectoryEntry, Extent, VmdumpFile, VmdumpHeader, index, streams,
};
use bigiron_kernel::{IoMethod, Kernel, PhysicalMemory, Source, SourceError, VmdumpSource};
use serde_json::json;

use super::packed::PlacedRecord;
use super::part_placer::{Counts, PartPlacer};
use crate::dump_id::new_dump_id;
use crate::error::DumpError;

/// The result of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// Chunks in the file.
    pub chunks: u64,
    /// Bytes cut off at the end, because they were not a complete chunk.
    pub cut_off: u64,
    /// Bytes written.
    pub written: u64,
}

/// Rebuilds the end of the vmdump at `path`; returns `None` if it has one. Only what follows
/// the last complete chunk is replaced, so an interrupted repair can be repeated.
pub fn repair_vmdump(path: &Path) -> Result<Option<Repair>, DumpError> {
    let source = Source::open(&[path.to_owned()])?;
    let Some(dump) = source.memory().vmdump() else {
        return Err(refused(
            path,
            "is not a vmdump; only vmdumps can be repaired",
        ));
    };
    if dump.header().is_striped() {
        let reason = "is one part of a striped vmdump; `bigiron save` of all parts makes one \
                      vmdump with an index of what is there";
        return Err(refused(path, reason));
    }
    if dump.file().root().is_some() {
        return Ok(None);
    }
    let (found, header) = match dump.file().header().container {
        Container::Zstd => (Found::of(path, dump.file())?, dump.file().header().clone()),
        Container::Bzip2 => {
            let found = Found::of_streams(dump.file())?;
            let header = header_of_streams(&source, dump.file().header(), &found);
            (found, header)
        }
    };
    let file = OpenOptions::new().write(true).open(path);
    let file = file.map_err(DumpError::output(path, "open it for writing", ""))?;
    let repair = write_end(&file, dump, header, found);
    repair
        .map(Some)
        .map_err(DumpError::output(path, "write its index", ""))
}

fn refused(path: &Path, reason: &str) -> DumpError {
    DumpError::from(SourceError::Unsupported {
        path: path.to_owned(),
        reason: reason.into(),
    })
}

/// The contents of the file, as needed for an index.
struct Found {
    /// End of the last complete chunk or index record.
    end: u64,
    directory: Vec<DirectoryEntry>,
    /// Chunks that no index record lists.
    chunks: Vec<Chunk>,
    /// All frames; `None` if there is something between them.
    frames: Option<Vec<(u32, u32)>>,
    counts: Counts,
}

impl Found {
    /// Scans the file at `path`. It is refused if readable chunks may be in what a repair would
    /// cut off.
    fn of(path: &Path, file: &VmdumpFile) -> Result<Self, DumpError> {
        let all = Extent {
            offset: 0,
            size: file.bytes().size(),
        };
        let mut found = Self {
            end: 0,
            directory: Vec::new(),
            chunks: Vec::new(),
            frames: Some(Vec::new()),
            counts: Counts::default(),
        };
        let mut position = 0;
        let mut doubt = None;
        for step in Walk::new(file.bytes(), file.header(), all) {
            match step {
                WalkItem::Chunk(header) => {
                    doubt = None;
                    let chunk = header.chunk;
                    if chunk.position < position {
                        continue;
                    }
                    position = chunk.end();
                    let head = chunk.head_size(Container::Zstd) as u32;
                    found.frame(chunk.offset, &[(head, 0), (chunk.packed, chunk.len as u32)]);
                    found.counts.add(&chunk);
                    found.chunks.push(chunk);
                }
                WalkItem::Record {
                    tag: Tag::Index,
                    extent: place,
                    payload,
                } => {
                    doubt = None;
                    found.frame(place.offset, &[(place.size as u32, 0)]);
                    found.index(file, place, &payload);
                }
                WalkItem::Record {
                    tag: Tag::Header,
                    extent: place,
                    ..
                } => found.frame(place.offset, &[(place.size as u32, 0)]),
                WalkItem::Damaged {
                    error,
                    may_hold_records: true,
                    ..
                } => doubt = doubt.or(Some(error)),
                // A root that does not match is rebuilt, with everything that led to it.
                WalkItem::Record { .. } | WalkItem::SeekTable(_) | WalkItem::Damaged { .. } => {}
            }
        }
        match doubt {
            None => Ok(found),
            Some(error) => {
                let lost = all.size - found.end;
                let reason = format!(
                    "was not changed: {error}; a repair would cut off {lost} bytes, in which there \
                     may be chunks. `bigiron save` copies what can be read; repair the copy"
                );
                Err(refused(path, &reason))
            }
        }
    }

    /// Scans a bzip2 dump without an index, which requires unpacking all of it.
    fn of_streams(file: &VmdumpFile) -> Result<Self, DumpError> {
        let mut found = Self {
            end: 0,
            directory: Vec::new(),
            chunks: Vec::new(),
            frames: None,
            counts: Counts::default(),
        };
        for group in 0..file.chunk_groups() {
            let chunks = file.chunks(group);
            found
                .chunks
                .extend(chunks.map_err(|error| DumpError::Layout(error.to_string()))?);
        }
        for chunk in &found.chunks {
            found.end = chunk.offset + u64::from(chunk.packed);
            found.counts.add(chunk);
        }
        Ok(found)
    }

    fn frame(&mut self, offset: u64, frames: &[(u32, u32)]) {
        if offset != self.end {
            self.frames = None;
        }
        if let Some(all) = &mut self.frames {
            all.extend_from_slice(frames);
        }
        let size: u64 = frames.iter().map(|frame| u64::from(frame.0)).sum();
        self.end = offset + size;
    }

    /// Keeps an index record in use if it lists exactly the chunks before it.
    fn index(&mut self, file: &VmdumpFile, place: Extent, payload: &[u8]) {
        let Ok(chunks) = index::decode(file.header(), payload, place.offset) else {
            return;
        };
        if chunks != self.chunks {
            return;
        }
        if let Some(first) = chunks.first() {
            self.directory.push(DirectoryEntry {
                offset: place.offset,
                size: place.size as u32,
                chunks: chunks.len() as u32,
                position: first.position,
                first_offset: first.offset,
            });
        }
        self.chunks.clear();
    }
}

/// Creates the header of a truncated bzip2 dump, whose own is lost: from the contents of
/// `found`, with a new id and no time.
fn header_of_streams(source: &Source, scanned: &VmdumpHeader, found: &Found) -> VmdumpHeader {
    let pages = |bytes: u64| u32::try_from(bytes >> scanned.page_shift).unwrap_or(u32::MAX);
    let of_pages = |chunk: &&Chunk| chunk.kind == ChunkKind::Pages;
    let longest = found.chunks.iter().filter(of_pages).map(|chunk| chunk.len);
    let kernel = Kernel::find(
        source,
        None,
        IoMethod::Read,
        PhysicalMemory::DEFAULT_CACHE_PAGES,
    );
    VmdumpHeader {
        id: new_dump_id().0,
        chunk_pages: pages(u64::from(streams::BLOCK).max(longest.max().unwrap_or(0))),
        utsname: kernel.map_or_else(|_| Utsname::default(), |kernel| kernel.utsname().clone()),
        ..scanned.clone()
    }
}

fn write_end(
    file: &File,
    dump: &VmdumpSource,
    header: VmdumpHeader,
    found: Found,
) -> std::io::Result<Repair> {
    let size = dump.file().bytes().size();
    let end = found.end;
    let is_bzip2 = header.container == Container::Bzip2;
    // bzip2 does not record which pages were lost.
    let complete = dump.file().gaps().is_empty() && found.counts.lost == 0 && !is_bzip2;
    let gaps = dump.file().gaps().iter();
    let missing: Vec<String> = gaps.map(|gap| dump.describe_gap(gap)).collect();
    let unknown: &[&str] = if is_bzip2 {
        &[
            "dump_level",
            "begin",
            "zero and lost pages, which count as excluded",
        ]
    } else {
        &[]
    };
    let metadata = json!({
        "program": concat!("bigiron ", env!("CARGO_PKG_VERSION")),
        "repaired": true,
        "missing": missing,
        "unknown": unknown,
    });
    let metadata = serde_json::to_vec(&metadata).unwrap_or_default();
    let chunks = found.counts.chunks;
    let mut placer = PartPlacer::resume(header, end, found.counts, found.directory, found.frames);
    let mut records: Vec<PlacedRecord> = Vec::new();
    for chunk in found.chunks {
        placer
            .index_again(chunk, &mut records)
            .map_err(std::io::Error::other)?;
    }
    placer
        .end_chunks(&mut records)
        .map_err(std::io::Error::other)?;
    records.push(
        placer
            .end(complete, &metadata)
            .map_err(std::io::Error::other)?,
    );
    file.set_len(end)?;
    let mut written = 0;
    for record in &records {
        file.write_all_at(&record.bytes, record.offset)?;
        written += record.bytes.len() as u64;
    }
    file.sync_all()?;
    Ok(Repair {
        chunks,
        cut_off: size - end,
        written,
    })
}
