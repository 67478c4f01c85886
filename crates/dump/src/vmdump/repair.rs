//! Gives a vmdump that was cut, or whose writer was interrupted, the index and
//! the root that it lacks.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bigiron_format::vmdump::record::Tag;
use bigiron_format::vmdump::walk::{Step, Walk};
use bigiron_format::vmdump::{Chunk, Container, DirectoryEntry, Place, VmdumpFile, index};
use bigiron_kernel::{SourceError, VmdumpSource};
use serde_json::json;

use super::place::{EndCounts, Piece, Placer};
use crate::error::DumpError;

/// What became of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// Chunks that the file has.
    pub chunks: u64,
    /// Bytes that were cut off at its end, since they were no whole chunk.
    pub cut_off: u64,
    /// Bytes that were written.
    pub written: u64,
}

/// Rebuilds the end of the vmdump at `path`; `None` if it has one. Only what
/// is behind the last whole chunk is replaced, so a repair that is interrupted
/// can be done again.
pub fn repair_vmdump(path: &Path) -> Result<Option<Repair>, DumpError> {
    let source = bigiron_kernel::Source::open(&[path.to_owned()])?;
    let Some(dump) = source.memory().vmdump() else {
        return Err(refused(path, "is no vmdump; only those can be repaired"));
    };
    if dump.file().root().is_some() {
        return Ok(None);
    }
    if dump.file().header().container == Container::Bzip2 {
        let reason = "is packed in bzip2, where the index cannot be rebuilt; convert it: \
                      bigiron dump -d 0 -f vmdump";
        return Err(refused(path, reason));
    }
    let found = Found::of(dump.file());
    let file = OpenOptions::new().write(true).open(path);
    let file = file.map_err(|source| output_error(path, "open it for writing", source))?;
    let repair = write_end(&file, dump, found);
    repair
        .map(Some)
        .map_err(|source| output_error(path, "write its index", source))
}

fn refused(path: &Path, reason: &str) -> DumpError {
    DumpError::from(SourceError::Unsupported {
        path: path.to_owned(),
        reason: reason.into(),
    })
}

fn output_error(path: &Path, action: &'static str, source: std::io::Error) -> DumpError {
    DumpError::Output {
        path: path.to_owned(),
        action,
        source,
        hint: "",
    }
}

/// What is in the file, as far as an index must say it.
struct Found {
    /// Behind the last whole chunk or index record.
    end: u64,
    directory: Vec<DirectoryEntry>,
    /// Chunks that are in no index record.
    chunks: Vec<Chunk>,
    /// All frames; `None` if there is something between them.
    frames: Option<Vec<(u32, u32)>>,
    count: u64,
    dumped: u64,
    lost: u64,
}

impl Found {
    fn of(file: &VmdumpFile) -> Self {
        let all = Place {
            offset: 0,
            size: file.bytes().size(),
        };
        let mut found = Self {
            end: 0,
            directory: Vec::new(),
            chunks: Vec::new(),
            frames: Some(Vec::new()),
            count: 0,
            dumped: 0,
            lost: 0,
        };
        let mut position = 0;
        for step in Walk::new(file.bytes(), file.header(), all) {
            match step {
                Step::Chunk(header) => {
                    let chunk = header.chunk;
                    if chunk.position < position {
                        continue;
                    }
                    position = chunk.end();
                    let head = chunk.head_size(Container::Zstd) as u32;
                    found.frame(chunk.offset, &[(head, 0), (chunk.packed, chunk.len as u32)]);
                    let bits = |bits: &[u8]| -> u64 {
                        bits.iter().map(|byte| u64::from(byte.count_ones())).sum()
                    };
                    found.dumped += bits(&chunk.dumped);
                    found.lost += bits(&chunk.lost);
                    found.count += 1;
                    found.chunks.push(chunk);
                }
                Step::Record {
                    tag: Tag::Index,
                    place,
                    payload,
                } => {
                    found.frame(place.offset, &[(place.size as u32, 0)]);
                    found.index(file, place, &payload);
                }
                Step::Record {
                    tag: Tag::Header,
                    place,
                    ..
                } => found.frame(place.offset, &[(place.size as u32, 0)]),
                // A root that does not fit, and what led to it, is made anew.
                Step::Record { .. } | Step::SeekTable(_) | Step::Damaged { .. } => {}
            }
        }
        found
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

    /// An index record that lists just the chunks before it can stay in use.
    fn index(&mut self, file: &VmdumpFile, place: Place, payload: &[u8]) {
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

fn write_end(file: &File, dump: &VmdumpSource, found: Found) -> std::io::Result<Repair> {
    let size = dump.file().bytes().size();
    let end = found.end;
    let counts = EndCounts {
        complete: dump.file().gaps().is_empty() && found.lost == 0,
        dumped: found.dumped,
        lost: found.lost,
    };
    let gaps = dump.file().gaps().iter();
    let missing: Vec<String> = gaps.map(|gap| dump.describe_gap(gap)).collect();
    let metadata = json!({
        "program": concat!("bigiron ", env!("CARGO_PKG_VERSION")),
        "repaired": true,
        "missing": missing,
    });
    let metadata = serde_json::to_vec(&metadata).unwrap_or_default();
    let chunks = found.count;
    let mut placer = Placer::resume(
        dump.file().header().clone(),
        end,
        chunks,
        found.directory,
        found.frames,
    );
    let mut pieces: Vec<Piece> = Vec::new();
    for chunk in found.chunks {
        placer
            .index_again(chunk, &mut pieces)
            .map_err(std::io::Error::other)?;
    }
    pieces.extend(placer.end_chunks().map_err(std::io::Error::other)?);
    pieces.push(
        placer
            .end(counts, &metadata)
            .map_err(std::io::Error::other)?,
    );
    file.set_len(end)?;
    let mut written = 0;
    for piece in &pieces {
        file.write_all_at(&piece.bytes, piece.offset)?;
        written += piece.bytes.len() as u64;
    }
    file.sync_all()?;
    Ok(Repair {
        chunks,
        cut_off: size - end,
        written,
    })
}
