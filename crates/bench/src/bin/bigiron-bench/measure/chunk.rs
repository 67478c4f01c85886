//! The best chunk size of vmdumps: the cost and benefit of each size for dumps, compared with
//! the bare codec at the same size, and the cost of reading one page, which decompresses a
//! whole chunk.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use bigiron_dump::{ChunkCompression, DumpOptions, DumpOutput, Format, Progress, ZstdChunks, dump};
use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::codec::{Codec, Compression};
use bigiron_format::vmdump::{ChunkCompressor, ChunkKind, VmdumpFile};
use bigiron_helpers::Stop;
use bigiron_kernel::{
    DumpLevel, IoMethod, Kernel, MemorySource, PhysicalMemory, SECTION_FRAMES, Source,
};
use rustix::time::ClockId;
use serde::Serialize;

use bigiron_bench::clock::processor_time;
use bigiron_bench::results::median;

/// Chunk sizes in KiB.
const SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
/// Number of pages read individually.
const READS: usize = 400;

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct ChunkOptions {
    /// Compression level of zstd.
    pub zstd_level: i32,
    /// The dump level.
    pub level: DumpLevel,
    /// Number of runs of each. Results are medians.
    pub runs: usize,
}

/// Result for one chunk size.
#[derive(Clone, Debug, Serialize)]
pub struct ChunkRow {
    /// The codec.
    pub codec: String,
    /// Memory per chunk in bytes.
    pub chunk_bytes: u64,
    /// Size of the dump in bytes.
    pub bytes: u64,
    /// Size of the dumped pages in bytes.
    pub pages_bytes: u64,
    /// CPU time of the whole dump with one helper, in seconds.
    pub dump_seconds: f64,
    /// CPU time of the bare codec on the same chunks, in seconds.
    pub bare_seconds: f64,
    /// Average time to read a random page, in microseconds.
    pub read_microseconds: f64,
}

/// Dumps `source` to `directory` with chunks of each size.
pub fn measure(
    source: &Source,
    directory: &Path,
    options: &ChunkOptions,
) -> anyhow::Result<Vec<ChunkRow>> {
    let level = Compression::with_level(Codec::Zstd, options.zstd_level)?.level;
    let zstd = SIZES.map(|size| {
        let bytes = size << 10;
        ChunkCompression::Zstd(ZstdChunks { level, bytes })
    });
    let ways: Vec<_> = zstd.into_iter().chain([ChunkCompression::Bzip2]).collect();
    let mut rows: Vec<Vec<ChunkRow>> = vec![Vec::new(); ways.len()];
    for _ in 0..options.runs.max(1) {
        for (way, rows) in ways.iter().zip(&mut rows) {
            rows.push(once(source, directory, options, *way)?);
        }
    }
    Ok(rows.iter().filter_map(|rows| middle(rows)).collect())
}

/// Returns the medians of several runs.
fn middle(rows: &[ChunkRow]) -> Option<ChunkRow> {
    let of = |field: fn(&ChunkRow) -> f64| median(&rows.iter().map(field).collect::<Vec<_>>());
    Some(ChunkRow {
        dump_seconds: of(|row| row.dump_seconds),
        bare_seconds: of(|row| row.bare_seconds),
        read_microseconds: of(|row| row.read_microseconds),
        ..rows.first()?.clone()
    })
}

fn once(
    source: &Source,
    directory: &Path,
    options: &ChunkOptions,
    compression: ChunkCompression,
) -> anyhow::Result<ChunkRow> {
    let path = directory.join("dump");
    let cache = PhysicalMemory::DEFAULT_CACHE_PAGES;
    let kernel = Kernel::find(source, None, IoMethod::Auto, cache)?;
    let dump_options = DumpOptions {
        level: options.level,
        threads: 1,
        overwrite: true,
        ..DumpOptions::default()
    };
    let output = DumpOutput::file(Format::Vmdump(compression), path.clone());
    let before = processor_time(ClockId::ProcessCPUTime);
    let summary = dump(
        &kernel.into(),
        &output,
        &dump_options,
        &Progress::new(),
        &Stop::new(),
    )?;
    let dump_seconds = (processor_time(ClockId::ProcessCPUTime) - before).as_secs_f64();
    let dumped = Source::open(std::slice::from_ref(&path))?;
    let Some(vmdump) = dumped.memory().vmdump() else {
        anyhow::bail!("{}: not a vmdump", path.display());
    };
    let row = ChunkRow {
        codec: compression.to_string(),
        chunk_bytes: vmdump.file().header().chunk_bytes(),
        bytes: summary.bytes_out,
        pages_bytes: summary.dumped * summary.page_size,
        dump_seconds,
        bare_seconds: bare_seconds(vmdump.file(), compression)?,
        read_microseconds: read_microseconds(dumped.memory())?,
    };
    std::fs::remove_file(&path)?;
    Ok(row)
}

/// Measures the codec alone on the chunks of `file`; returns the CPU time in seconds.
fn bare_seconds(file: &VmdumpFile, compression: ChunkCompression) -> anyhow::Result<f64> {
    let mut compressor = match compression {
        ChunkCompression::Zstd(chunks) => ChunkCompressor::zstd(chunks.level)?,
        ChunkCompression::Bzip2 => ChunkCompressor::Bzip2,
    };
    let mut decompressor = file.decompressor()?;
    let (mut packed, mut pages, mut out, mut seconds) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for piece in 0..file.chunk_groups() {
        for chunk in file.chunks(piece)? {
            if chunk.kind != ChunkKind::Pages {
                continue;
            }
            file.read_chunk(&chunk, &mut decompressor, &mut packed, &mut pages)?;
            out.resize(compressor.bound(pages.len()), 0);
            let before = processor_time(ClockId::ThreadCPUTime);
            compressor.compress(&pages, &mut out)?;
            seconds += (processor_time(ClockId::ThreadCPUTime) - before).as_secs_f64();
        }
    }
    Ok(seconds)
}

/// Returns the average time to read a page, in microseconds, for pages spread over all memory.
fn read_microseconds(memory: &dyn MemorySource) -> anyhow::Result<f64> {
    let mut present = Bitmap::new(SECTION_FRAMES as usize);
    let mut frames = Vec::new();
    for first in memory.sections() {
        memory.present(first, &mut present)?;
        let bits = (0..present.len()).filter(|bit| present.get(*bit));
        frames.extend(bits.map(|bit| PageFrame(first.0 + bit as u64)));
    }
    anyhow::ensure!(!frames.is_empty(), "no page was dumped");
    let mut reader = memory.reader(IoMethod::Auto);
    let begin = Instant::now();
    for number in 0..READS {
        // Each page is far from the previous one, so that its chunk is not in the cache:
        // multiples of the golden ratio spread evenly.
        let place = (number as f64 * 0.618_033_988_75).fract();
        let frame = frames[(place * frames.len() as f64) as usize];
        reader.pages(frame, 1)?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / READS as f64)
}

/// Formats the rows as text.
pub fn table(rows: &[ChunkRow]) -> String {
    let mut out = String::from(
        "codec      chunk KiB         MB   ratio   CPU s   bare s   CPU/bare   MB/s bare   us a page\n",
    );
    for row in rows {
        let _ = writeln!(
            out,
            "{:10} {:9} {:10.1} {:7.2} {:7.2} {:8.2} {:10.2} {:11.0} {:11.0}",
            row.codec,
            row.chunk_bytes >> 10,
            row.bytes as f64 / 1e6,
            row.pages_bytes as f64 / row.bytes.max(1) as f64,
            row.dump_seconds,
            row.bare_seconds,
            row.dump_seconds / row.bare_seconds.max(1e-9),
            row.pages_bytes as f64 / 1e6 / row.bare_seconds.max(1e-9),
            row.read_microseconds,
        );
    }
    out
}
