//! Joins the parts of a striped vmdump: compressed chunks are copied, with new offsets, headers
//! and index.
//!
//! Pages that no part has, or that are damaged, become chunks of lost pages, so that everything
//! after them keeps its position in the core, also for `zstd -d`.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bigiron_format::FormatError;
use bigiron_format::codec::CodecError;
use bigiron_format::vmdump::chunk::bits_len;
use bigiron_format::vmdump::record::Tag;
use bigiron_format::vmdump::{
    Chunk, ChunkCompressor, ChunkKind, Container, CoreOrder, Stretch, VmdumpHeader, codec,
};
use bigiron_helpers::{MemoryBudget, Stop, run};
use bigiron_kernel::VmdumpSource;
use serde_json::json;

use super::in_order::InOrder;
use super::packed::{Buffers, Packed, PackedChunk, PlacedRecord};
use super::placer::Placer;
use crate::error::DumpError;
use crate::output::Output;
use crate::progress::Progress;

/// Finished chunks per helper that may wait for an earlier one.
const AHEAD: u64 = 3;
/// Maximum growth of a chunk by compression; larger ones are damaged.
const GROWTH: u64 = 64 << 10;
/// Memory of a helper besides its chunks.
const HELPER: u64 = 2 << 20;
/// Compression level of the zeros that replace lost pages; any level gives the same size.
const ZEROS_LEVEL: i32 = 1;

/// Options of a merge.
pub struct MergeOptions<'a> {
    pub threads: usize,
    pub memory: MemoryBudget,
    pub progress: &'a Progress,
    pub stop: &'a Stop,
}

/// The result of a merge.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// Size of the new dump, in bytes.
    pub bytes: u64,
    /// Pages that are lost in it and were not lost before.
    pub lost: u64,
    /// The reason for the first of them.
    pub reason: Option<String>,
    /// An error of a part's disk.
    pub unreadable: Option<String>,
}

/// Writes the parts of `dump` as one dump to `output`; `error` converts its I/O errors.
pub fn merge(
    dump: &VmdumpSource,
    output: &dyn Output,
    options: &MergeOptions,
    error: &(dyn Fn(io::Error) -> DumpError + Sync),
) -> Result<Merged, DumpError> {
    let header = VmdumpHeader {
        stripe: (0, 1),
        ..dump.header().clone()
    };
    let (placer, first) = Placer::new(&header);
    let chunks_of_helper = (AHEAD + 2) * header.chunk_bytes();
    let helpers = options
        .memory
        .helpers(options.threads, 0, HELPER + chunks_of_helper);
    let merge = Merge {
        dump,
        output,
        options,
        error,
        order: Mutex::new(Order {
            core: dump.core_order(),
            gap: None,
            number: 0,
            ended: false,
        }),
        turns: InOrder::new(AHEAD * helpers as u64),
        placer: Mutex::new(placer),
        buffers: Buffers::default(),
    };
    merge.write(first)?;
    let losses = run(helpers, options.stop, |_| merge.help())?;
    if options.stop.is_set() {
        return Err(DumpError::Interrupted { kept: None });
    }
    let mut merged = Merged::default();
    for loss in losses {
        merged.lost += loss.pages;
        merged.reason = merged.reason.or(loss.reason);
        merged.unreadable = merged.unreadable.or(loss.unreadable);
    }
    merge.end(merged)
}

struct Merge<'a> {
    dump: &'a VmdumpSource,
    output: &'a dyn Output,
    options: &'a MergeOptions<'a>,
    error: &'a (dyn Fn(io::Error) -> DumpError + Sync),
    order: Mutex<Order<'a>>,
    turns: InOrder<Packed>,
    placer: Mutex<Placer>,
    buffers: Buffers,
}

/// The next work item.
struct Order<'a> {
    core: CoreOrder<'a>,
    /// The rest of a gap: position and bytes.
    gap: Option<(u64, u64)>,
    number: u64,
    ended: bool,
}

enum Work {
    Chunk(usize, Chunk),
    /// Pages that no part has: position and bytes.
    Lost(u64, u64),
}

/// The losses of a helper.
#[derive(Default)]
struct Losses {
    pages: u64,
    reason: Option<String>,
    unreadable: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Merge<'_> {
    /// Returns the next range of the core and its number.
    fn take(&self) -> Option<(u64, Work)> {
        let mut order = lock(&self.order);
        if self.options.stop.is_set() {
            return None;
        }
        let header = self.dump.header();
        let work = loop {
            if let Some((position, left)) = order.gap.take() {
                let len = left.min(header.chunk_bytes());
                order.gap = (len < left).then_some((position + len, left - len));
                break Work::Lost(position, len);
            }
            match order.core.next() {
                Some(Stretch::Chunk(part, chunk)) => break Work::Chunk(part, chunk),
                Some(Stretch::Gap(gap)) => {
                    let start = gap.start.max(header.memory_offset);
                    order.gap = gap.end.checked_sub(start).map(|len| (start, len));
                }
                // A writer that reached its end had passed everything that no part has.
                None if !order.ended => {
                    order.ended = true;
                    let start = order.core.covered().max(header.memory_offset);
                    let left = header.core_size - start;
                    let is_lost = left > 0 && self.dump.was_ended();
                    order.gap = is_lost.then_some((start, left));
                }
                None => return None,
            }
            order.gap = order.gap.filter(|gap| gap.1 > 0);
        };
        order.number += 1;
        Some((order.number - 1, work))
    }

    /// The work of one helper.
    fn help(&self) -> Result<Losses, DumpError> {
        let mut losses = Losses::default();
        let mut zeros = Zeros::default();
        let mut records = Vec::new();
        let (progress, stop) = (self.options.progress, self.options.stop);
        while let Some((number, work)) = self.take() {
            let (packed, len) = match work {
                Work::Lost(position, len) => {
                    let pages = len >> self.dump.header().page_shift;
                    losses.add(pages, || "no part has them".into());
                    let all = all_bits(pages);
                    let lost = zeros.chunk(position, len, all)?;
                    (Packed::Chunk(lost), len)
                }
                Work::Chunk(part, chunk) => {
                    let len = chunk.len;
                    (self.chunk(part, chunk, &mut zeros, &mut losses)?, len)
                }
            };
            self.turns.put(number, packed, stop, |packed| {
                Ok::<_, DumpError>(lock(&self.placer).place(packed, &mut records)?)
            })?;
            self.write(records.drain(..))?;
            progress.add(len >> self.dump.header().page_shift);
        }
        Ok(losses)
    }

    /// Reads a compressed chunk. A damaged one is lost.
    fn chunk(
        &self,
        number: usize,
        chunk: Chunk,
        zeros: &mut Zeros,
        losses: &mut Losses,
    ) -> Result<Packed, DumpError> {
        if chunk.kind == ChunkKind::Excluded {
            let (position, len) = (chunk.position, chunk.len);
            return Ok(Packed::Excluded { position, len });
        }
        let part = &self.dump.parts()[number];
        let mut bytes = self.buffers.take();
        let read = if u64::from(chunk.packed) > 2 * chunk.len + GROWTH {
            let path = part.path.display();
            Err(format!(
                "{path}: the compressed size of a chunk is too large"
            ))
        } else {
            let read = part.file.read_packed(&chunk, &mut bytes);
            read.map_err(|error| {
                let reason = format!("{}: {error}", part.path.display());
                if matches!(error, FormatError::Io { .. }) {
                    losses.unreadable.get_or_insert_with(|| reason.clone());
                }
                reason
            })
        };
        match read {
            Ok(head) => Ok(Packed::Chunk(PackedChunk {
                checksum: codec::checksum(&bytes[head..]),
                chunk,
                bytes,
            })),
            Err(_) if chunk.kind == ChunkKind::Headers => Ok(Packed::Chunk(self.headers(&chunk)?)),
            Err(reason) => {
                let ones = chunk.dumped.iter().map(|byte| u64::from(byte.count_ones()));
                losses.add(ones.sum(), || reason);
                let lost = zeros.chunk(chunk.position, chunk.len, chunk.dumped)?;
                Ok(Packed::Chunk(lost))
            }
        }
    }

    /// Recreates a damaged chunk of headers from another part's copy.
    fn headers(&self, chunk: &Chunk) -> Result<PackedChunk, CodecError> {
        let headers = self.dump.core_headers();
        let range = chunk.position as usize..chunk.end() as usize;
        let chunk = Chunk {
            packed: 0,
            ..chunk.clone()
        };
        compress(chunk, headers.get(range).unwrap_or_default())
    }

    fn write(&self, records: impl IntoIterator<Item = PlacedRecord>) -> Result<(), DumpError> {
        for record in records {
            let written = self.output.write_at(record.offset, &record.bytes);
            written.map_err(self.error)?;
            self.options.progress.add_written(record.bytes.len() as u64);
            self.buffers.give(record.bytes);
        }
        Ok(())
    }

    /// Writes the index and the root.
    fn end(self, mut merged: Merged) -> Result<Merged, DumpError> {
        let header = self.dump.header();
        let (whole, damage) = {
            let order = lock(&self.order);
            let damage = order.core.damage().map(|(number, error)| {
                let path = self.dump.parts()[*number].path.display();
                format!("{path}: an index record cannot be read: {error}")
            });
            let whole = order.core.covered() == header.core_size;
            (whole, damage)
        };
        // Each root makes this statement about the whole dump.
        let roots = || self.dump.parts().iter().filter_map(|part| part.file.root());
        let was_complete = roots().next().is_some() && roots().all(|root| root.complete);
        let complete = was_complete && whole && merged.lost == 0;
        let records = lock(&self.placer).end_chunks()?;
        self.write(records)?;
        merged.reason = merged.reason.or(damage);
        let metadata = self.metadata(&merged);
        let (output, error, progress) = (self.output, self.error, self.options.progress);
        let placer = self.placer.into_inner();
        let placer = placer.unwrap_or_else(PoisonError::into_inner);
        let ends = placer.end(complete, &metadata)?;
        let ends_at = ends
            .iter()
            .map(|record| record.offset + record.bytes.len() as u64);
        merged.bytes = ends_at.max().unwrap_or(0);
        // Sync first: the root must not be durable before all chunks are.
        output.sync().map_err(error)?;
        for record in ends {
            output
                .write_at(record.offset, &record.bytes)
                .map_err(error)?;
            progress.add_written(record.bytes.len() as u64);
        }
        Ok(merged)
    }

    /// The metadata of the parts, which is the same in all of them.
    fn metadata(&self, merged: &Merged) -> Vec<u8> {
        let found = self.dump.parts().iter().find_map(|part| {
            let place = part.file.root()?.metadata;
            part.file.read_payload(Tag::Metadata, place).ok()
        });
        found.unwrap_or_else(|| {
            let metadata = json!({
                "program": concat!("bigiron ", env!("CARGO_PKG_VERSION")),
                "merged": true,
                "lost": merged.lost,
            });
            serde_json::to_vec(&metadata).unwrap_or_default()
        })
    }
}

impl Losses {
    fn add(&mut self, pages: u64, reason: impl FnOnce() -> String) {
        self.pages += pages;
        self.reason.get_or_insert_with(reason);
    }
}

/// A bitmap with `pages` bits set.
fn all_bits(pages: u64) -> Vec<u8> {
    let mut bits = vec![0; bits_len(pages)];
    for page in 0..pages as usize {
        bits[page / 8] |= 1 << (page % 8);
    }
    bits
}

/// Makes chunks of lost pages; the compressed zeros of the last one are reused.
#[derive(Default)]
struct Zeros(Option<PackedChunk>);

impl Zeros {
    /// Returns a chunk of zeros whose pages in `bits` are lost.
    fn chunk(&mut self, position: u64, len: u64, bits: Vec<u8>) -> Result<PackedChunk, CodecError> {
        let chunk = Chunk {
            kind: ChunkKind::Pages,
            position,
            len,
            offset: 0,
            packed: 0,
            lost: bits.clone(),
            dumped: bits,
        };
        if let Some(known) = self.0.as_ref().filter(|known| known.chunk.len == len) {
            return Ok(PackedChunk {
                chunk: Chunk {
                    packed: known.chunk.packed,
                    ..chunk
                },
                ..known.clone()
            });
        }
        let made = compress(chunk, &vec![0; len as usize])?;
        self.0 = Some(made.clone());
        Ok(made)
    }
}

fn compress(mut chunk: Chunk, bytes: &[u8]) -> Result<PackedChunk, CodecError> {
    let mut compressor = ChunkCompressor::zstd(ZEROS_LEVEL)?;
    let head = chunk.head_size(Container::Zstd);
    let mut out = vec![0; head + compressor.bound(bytes.len())];
    let len = compressor.compress(bytes, &mut out[head..])?;
    out.truncate(head + len);
    chunk.packed = len as u32;
    Ok(PackedChunk {
        checksum: codec::checksum(&out[head..]),
        chunk,
        bytes: out,
    })
}
