//! The limit of a vmdump: the bare codec on its chunks, in memory, each in a separate frame or
//! stream.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use bigiron_format::codec::CodecError;
use bigiron_format::vmdump::{ChunkCompressor, ChunkKind, Container};
use bigiron_helpers::{Stop, WorkCursor, run};
use bigiron_kernel::Source;

/// Maximum size of the sample of chunks, in bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Default level of zstd in vmdumps.
const ZSTD_LEVEL: i32 = 1;

/// The chunks of a vmdump, or an even sample of them if they are many.
pub struct BareChunks {
    chunks: Vec<Vec<u8>>,
    container: Container,
    /// Ratio of the size of all chunks to that of the sample.
    scale: f64,
}

impl BareChunks {
    /// Reads the chunks of the vmdump at `path`.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let source = Source::open(&[path.to_owned()])?;
        let vmdump = source.memory().vmdump();
        let file = vmdump
            .with_context(|| format!("{}: not a vmdump", path.display()))?
            .file();
        let mut all = Vec::new();
        for piece in 0..file.chunk_groups() {
            let chunks = file.chunks(piece)?.into_iter();
            all.extend(chunks.filter(|chunk| chunk.kind == ChunkKind::Pages));
        }
        let total: u64 = all.iter().map(|chunk| chunk.len).sum();
        let step = total.div_ceil(MAX_BYTES).max(1) as usize;
        let mut decompressor = file.decompressor()?;
        let (mut packed, mut chunks) = (Vec::new(), Vec::new());
        for chunk in all.iter().step_by(step) {
            let mut bytes = Vec::new();
            file.read_chunk(chunk, &mut decompressor, &mut packed, &mut bytes)?;
            chunks.push(bytes);
        }
        let sampled: usize = chunks.iter().map(Vec::len).sum();
        Ok(Self {
            chunks,
            container: file.header().container,
            scale: total as f64 / sampled.max(1) as f64,
        })
    }

    /// Compresses the sample on `threads`, each with a separate context. Returns the time in
    /// seconds and the compressed size in bytes, both extrapolated to all chunks.
    pub fn compress(&self, threads: usize, stop: &Stop) -> anyhow::Result<(f64, u64)> {
        let cursor = WorkCursor::new(self.chunks.len() as u64);
        let begin = Instant::now();
        let sizes = run(threads, stop, |_| -> Result<_, CodecError> {
            let mut compressor = match self.container {
                Container::Zstd => ChunkCompressor::zstd(ZSTD_LEVEL)?,
                Container::Bzip2 => ChunkCompressor::Bzip2,
            };
            let (mut room, mut size) = (Vec::new(), 0);
            while let Some(index) = cursor.take(stop) {
                let chunk = &self.chunks[index as usize];
                let bound = compressor.bound(chunk.len());
                if room.len() < bound {
                    room.resize(bound, 0);
                }
                size += compressor.compress(black_box(chunk), &mut room)?;
                black_box(&room);
            }
            Ok(size)
        })
        .context("the bare codec")?;
        anyhow::ensure!(!stop.is_set(), "interrupted");
        let size: usize = sizes.into_iter().sum();
        let seconds = begin.elapsed().as_secs_f64() * self.scale;
        Ok((seconds, (size as f64 * self.scale) as u64))
    }
}
