//! Random reads of a dump through the cache that all its readers share: compared with the bare
//! codec and with a reader that has its own cache, warm and cold, with several threads, and
//! after a pass over the whole dump, to measure how much of the working set stays cached.

mod pages;
mod rows;

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bigiron_format::vmdump::ChunkKind;
use bigiron_format::{PageFrame, PhysAddr};
use bigiron_kernel::{IoMethod, MemorySource, PhysicalMemory, Source};

use pages::{Numbers, Pages};
pub use rows::{ReadResults, Row, table};
use rows::{compare, middle, row};

/// Number of timed random reads of warm pages.
const WARM_READS: usize = 400_000;
/// Size in bytes of a cache that fills quickly and then only reuses its memory.
const SMALL_CACHE: u64 = 8 << 20;

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// All files of the dump.
    pub dump: Vec<PathBuf>,
    /// Size of the cache in bytes.
    pub cache: u64,
    /// Number of runs of each. Results are medians.
    pub runs: usize,
}

/// Measures all rows in turns.
pub fn measure(options: &ReadOptions) -> anyhow::Result<ReadResults> {
    let plain = Source::open(&options.dump)?;
    let pages = Pages::of(plain.memory(), options.cache)?;
    let mut results = ReadResults {
        kind: plain.kind(),
        pages: pages.all.len() as u64,
        cache_bytes: options.cache,
        peak_bytes: 0,
        rows: Vec::new(),
    };
    let mut rows: Vec<Vec<Row>> = Vec::new();
    for _ in 0..options.runs.max(1) {
        let mut run = Vec::new();
        bare(&plain, &mut run)?;
        run.push(sequential(
            plain.memory(),
            &pages,
            "front to back, own cache",
            1,
        )?);
        for threads in [1, 2] {
            let source = open(options)?;
            let what = "front to back, shared cache";
            run.push(sequential(source.memory(), &pages, what, threads)?);
        }
        // With a larger cache, all its memory would at first be newly allocated by the system.
        let mut source = Source::open(&options.dump)?;
        source.set_cache(options.cache.min(SMALL_CACHE));
        let what = "front to back, small shared cache";
        run.push(sequential(source.memory(), &pages, what, 1)?);
        let source = open(options)?;
        let what = "front to back, one page a call";
        run.push(each(source.memory(), &pages.all, pages.shift, what)?);
        let frames = pages.cold();
        let mut cold = |memory, what| -> anyhow::Result<()> {
            run.push(each(memory, &frames, pages.shift, what)?);
            Ok(())
        };
        cold(plain.memory(), "cold pages, own cache")?;
        let source = open(options)?;
        cold(source.memory(), "cold pages, shared cache")?;
        warm(&source, &pages, &mut run)?;
        results.peak_bytes = results.peak_bytes.max(usage(&source).1);
        rows.push(run);
    }
    let count = rows.first().map_or(0, Vec::len);
    for index in 0..count {
        let same: Vec<&Row> = rows.iter().filter_map(|run| run.get(index)).collect();
        results.rows.extend(middle(&same));
    }
    compare(&mut results.rows);
    Ok(results)
}

/// Physical addresses, with which other programs can read the same pages.
pub struct Addresses {
    /// All pages in ascending order.
    pub all: Vec<u64>,
    /// The working set.
    pub hot: Vec<u64>,
    /// The pages read cold.
    pub cold: Vec<u64>,
}

/// Returns the addresses of the pages that [`measure`] reads.
pub fn addresses(options: &ReadOptions) -> anyhow::Result<Addresses> {
    let source = Source::open(&options.dump)?;
    let pages = Pages::of(source.memory(), options.cache)?;
    let of = |frames: &[PageFrame]| frames.iter().map(|frame| frame.0 << pages.shift).collect();
    Ok(Addresses {
        all: of(&pages.all),
        hot: of(&pages.hot),
        cold: of(&pages.cold()),
    })
}

fn open(options: &ReadOptions) -> anyhow::Result<Source> {
    let mut source = Source::open(&options.dump)?;
    source.set_cache(options.cache);
    Ok(source)
}

/// Returns the number of decompressions, and the peak size of the cache in bytes.
fn usage(source: &Source) -> (u64, u64) {
    let usage = source.memory().cache_usage().unwrap_or_default();
    (usage.unpacked, usage.peak_bytes)
}

/// Returns the fraction of `reads` that decompressed nothing; `before` is the number of
/// decompressions before them.
fn hits(source: &Source, before: u64, reads: u64) -> Option<f64> {
    let usage = source.memory().cache_usage()?;
    let misses = usage.unpacked.saturating_sub(before);
    Some(1.0 - misses as f64 / reads.max(1) as f64)
}

/// Measures the codec alone on the chunks of a vmdump, and the complete read of a chunk.
fn bare(source: &Source, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let Some(vmdump) = source.memory().vmdump() else {
        return Ok(());
    };
    let (mut packed, mut out) = (Vec::new(), Vec::new());
    let (mut codec, mut all, mut bytes, mut chunks) = (Duration::ZERO, Duration::ZERO, 0, 0);
    for part in vmdump.parts() {
        let mut decompressor = part.file.decompressor()?;
        for piece in 0..part.file.chunk_groups() {
            for chunk in part.file.chunks(piece)? {
                if chunk.kind != ChunkKind::Pages {
                    continue;
                }
                let begin = Instant::now();
                let head = part.file.read_packed(&chunk, &mut packed)?;
                out.resize(chunk.len as usize, 0);
                let unpack = Instant::now();
                decompressor.decompress(&packed[head..], &mut out)?;
                codec += unpack.elapsed();
                all += begin.elapsed();
                bytes += chunk.len;
                chunks += 1;
            }
        }
    }
    rows.push(row("bare codec, all chunks", 1, chunks, bytes, codec));
    rows.push(row("chunks read and checked", 1, chunks, bytes, all));
    Ok(())
}

/// Reads all pages in ascending order, in place. Threads take turns of 256 KiB.
fn sequential(
    memory: &dyn MemorySource,
    pages: &Pages,
    what: &str,
    threads: usize,
) -> anyhow::Result<Row> {
    let physical = PhysicalMemory::new(memory, IoMethod::Auto, 0);
    let pieces = pages.runs();
    let begin = Instant::now();
    in_threads(threads, |thread| {
        let mut reader = (threads == 1).then(|| memory.reader(IoMethod::Auto));
        for (first, count) in pieces.iter().skip(thread).step_by(threads) {
            let mut done = 0;
            while done < *count {
                let (frame, most) = (PageFrame(first.0 + done as u64), count - done);
                let len = match &mut reader {
                    Some(reader) => black_box(reader.pages(frame, most)?).len(),
                    None => black_box(physical.pages(frame, most)?).len(),
                };
                done += len >> pages.shift;
            }
        }
        Ok(())
    })?;
    let bytes = (pages.all.len() as u64) << pages.shift;
    Ok(row(
        what,
        threads,
        pieces.len() as u64,
        bytes,
        begin.elapsed(),
    ))
}

/// Copies each of `frames` by a separate call.
fn each(
    memory: &dyn MemorySource,
    frames: &[PageFrame],
    shift: u32,
    what: &str,
) -> anyhow::Result<Row> {
    let physical = PhysicalMemory::new(memory, IoMethod::Auto, 0);
    let mut page = vec![0; 1 << shift];
    let begin = Instant::now();
    for frame in frames {
        physical.read(PhysAddr(frame.0 << shift), &mut page)?;
        black_box(&page);
    }
    let reads = frames.len() as u64;
    Ok(row(what, 1, reads, reads << shift, begin.elapsed()))
}

/// Reads the working set randomly with one thread and with two, copied and in place, and again
/// after a pass over the whole dump.
fn warm(source: &Source, pages: &Pages, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let physical = PhysicalMemory::new(source.memory(), IoMethod::Auto, 0);
    for _ in 0..3 {
        random(&physical, pages, "", 1, false)?;
    }
    for threads in [1, 2] {
        rows.push(bare_copies(pages, threads)?);
        for copied in [true, false] {
            let what = match copied {
                true => "warm pages, copied",
                false => "warm pages, in place",
            };
            let before = usage(source).0;
            let mut row = random(&physical, pages, what, threads, copied)?;
            row.hits = hits(source, before, row.reads);
            rows.push(row);
        }
    }
    sequential(source.memory(), pages, "", 2)?;
    let before = usage(source).0;
    let what = "the same once more after a pass over the dump";
    let mut again = each(source.memory(), &pages.hot, pages.shift, what)?;
    again.hits = hits(source, before, again.reads);
    rows.push(again);
    Ok(())
}

fn random(
    physical: &PhysicalMemory<'_>,
    pages: &Pages,
    what: &str,
    threads: usize,
    copied: bool,
) -> anyhow::Result<Row> {
    let begin = Instant::now();
    let each = WARM_READS / threads;
    in_threads(threads, |thread| {
        let mut page = vec![0; 1 << pages.shift];
        let mut numbers = Numbers(thread as u64 + 1);
        for _ in 0..each {
            let frame = pages.hot[numbers.below(pages.hot.len())];
            match copied {
                true => {
                    physical.read(PhysAddr(frame.0 << pages.shift), &mut page)?;
                    black_box(&page);
                }
                false => {
                    black_box(physical.pages(frame, 1)?.first());
                }
            }
        }
        Ok(())
    })?;
    let reads = (each * threads) as u64;
    Ok(row(
        what,
        threads,
        reads,
        reads << pages.shift,
        begin.elapsed(),
    ))
}

/// Copies the same number of random pages from the same amount of plain memory: an upper limit
/// for any cache.
fn bare_copies(pages: &Pages, threads: usize) -> anyhow::Result<Row> {
    let size = 1_usize << pages.shift;
    let memory: Vec<u8> = (0..pages.hot.len() * size).map(|at| at as u8).collect();
    let (begin, each) = (Instant::now(), WARM_READS / threads);
    in_threads(threads, |thread| {
        let mut page = vec![0; size];
        let mut numbers = Numbers(thread as u64 + 1);
        for _ in 0..each {
            let at = numbers.below(pages.hot.len()) * size;
            page.copy_from_slice(&memory[at..at + size]);
            black_box(&page);
        }
        Ok(())
    })?;
    let reads = (each * threads) as u64;
    let what = "bare copies of pages";
    Ok(row(
        what,
        threads,
        reads,
        reads << pages.shift,
        begin.elapsed(),
    ))
}

fn in_threads(
    threads: usize,
    work: impl Fn(usize) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    if threads == 1 {
        return work(0);
    }
    std::thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        started
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })
}
