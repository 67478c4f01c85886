//! Throughput of the filter over struct pages, compared with that of bare memory.

mod struct_pages;

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_helpers::processor_count;
use bigiron_kernel::mem_map::MemMap;
use bigiron_kernel::{
    DumpLevel, Filter, IoMethod, Kernel, PageReader, SECTION_FRAMES, Source, guard,
};
use serde::Serialize;

use bigiron_bench::results::median_time;
use struct_pages::{Copies, CountingReader, Section};

/// Size in bytes of the struct pages held in memory: larger than the cache of any processor.
const IN_MEMORY: usize = 256 << 20;

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct FilterOptions {
    /// The dump.
    pub source: PathBuf,
    /// Access method for the source.
    pub io: IoMethod,
    /// The dump level.
    pub level: DumpLevel,
    /// Number of runs of each. Results are medians.
    pub runs: usize,
}

/// The complete results.
#[derive(Clone, Debug, Serialize)]
pub struct FilterResults {
    /// The dump.
    pub source: String,
    /// Release of the crashed kernel.
    pub kernel: String,
    /// The dump level.
    pub level: u8,
    /// Number of struct pages classified by the filter.
    pub struct_pages: u64,
    /// Size of these struct pages in bytes.
    pub bytes: u64,
    /// Number of bytes of them that were read. The rest was skipped, as in free blocks and
    /// compound pages.
    pub bytes_read: u64,
    /// Time to open the dump, find its kernel, and create the filter, in seconds.
    pub open_seconds: f64,
    /// Time to find the page frames that no level excludes, in seconds; the median of all runs.
    pub guard_seconds: f64,
    /// Number of those page frames.
    pub guarded: u64,
    /// Duration of the first filter run in seconds, including one-time work.
    pub first_seconds: f64,
    /// The measurements.
    pub rows: Vec<Row>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the measurement.
    pub name: String,
    /// Number of threads.
    pub helpers: usize,
    /// Number of struct pages per run.
    pub struct_pages: u64,
    /// Size of the struct pages per run in bytes.
    pub bytes: u64,
    /// Duration of each run in seconds.
    pub seconds: Vec<f64>,
    /// Median duration in seconds.
    pub median_seconds: f64,
    /// Struct pages per second and helper.
    pub struct_pages_per_second: f64,
    /// Bytes of struct pages per second, for all helpers together.
    pub bytes_per_second: f64,
    /// True for the row with the throughput of the bytes alone.
    pub bare: bool,
}

/// Measures everything, in turns, so that other load on the machine affects all rows alike.
pub fn measure(options: &FilterOptions) -> anyhow::Result<FilterResults> {
    let begin = Instant::now();
    let source = Source::open(std::slice::from_ref(&options.source))?;
    let kernel = Kernel::find(&source, None, options.io, 64)?;
    let filter = Filter::new(&kernel, options.level)?;
    let open_seconds = begin.elapsed().as_secs_f64();

    let bench = Bench::new(&kernel, options.io)?;
    let mut counting = CountingReader {
        reader: kernel.source().reader(options.io),
        bytes: 0,
    };
    let begin = Instant::now();
    let struct_pages = run_filter(&filter, &mut counting, &bench.sections)?;
    let first_seconds = begin.elapsed().as_secs_f64();
    anyhow::ensure!(
        struct_pages > 0 && bench.copied > 0,
        "{}: no struct pages found",
        options.source.display()
    );

    let mut one_by_one = Filter::new(&kernel, options.level)?;
    one_by_one.exact_only();
    // Page cache is rarely in large blocks, so almost nothing is skipped.
    let cache_only = DumpLevel::new(2).unwrap_or_default();
    let cache_only = Filter::new(&kernel, cache_only)?;
    let filters = [
        (format!("level {}", options.level.number()), &filter),
        ("level 2".into(), &cache_only),
        (
            format!("level {}, one by one", options.level.number()),
            &one_by_one,
        ),
    ];
    let map = MemMap::find(&kernel)?;
    let (mut rows, mut guard_times) = (Vec::new(), Vec::new());
    for _ in 0..options.runs.max(1) {
        let begin = Instant::now();
        black_box(guard::find(&kernel, &map, None));
        guard_times.push(begin.elapsed());
        let mut add = |name: String, helpers, work: Work| add_run(&mut rows, name, helpers, work);
        for (name, filter) in &filters {
            let work = bench.filter_source(filter)?;
            add(format!("filter, source, {name}"), 1, work);
        }
        add("bare read, source".into(), 1, bench.bare_source()?);
        let helpers = processor_count();
        let work = bench.filter_with_helpers(&filter, helpers)?;
        add(format!("filter, source, {}", filters[0].0), helpers, work);
        for (name, filter) in &filters {
            let work = bench.filter_copy(filter)?;
            add(format!("filter, memory, {name}"), 1, work);
        }
        add("bare sum, memory".into(), 1, bench.bare_copy());
    }
    Ok(FilterResults {
        source: options.source.display().to_string(),
        kernel: kernel.info().release().unwrap_or_default().to_owned(),
        level: options.level.number(),
        struct_pages,
        bytes: bench.bytes(&bench.sections),
        bytes_read: counting.bytes,
        open_seconds,
        guard_seconds: median_time(&guard_times).as_secs_f64(),
        guarded: guard::find(&kernel, &map, None).len(),
        first_seconds,
        rows,
    })
}

/// The amount of work done by one run.
struct Work {
    struct_pages: u64,
    bytes: u64,
    time: Duration,
    bare: bool,
}

fn add_run(rows: &mut Vec<Row>, name: String, helpers: usize, work: Work) {
    let known = rows
        .iter_mut()
        .position(|row: &mut Row| row.name == name && row.helpers == helpers);
    let index = known.unwrap_or(rows.len());
    if known.is_none() {
        rows.push(Row {
            name,
            helpers,
            struct_pages: work.struct_pages,
            bytes: work.bytes,
            seconds: Vec::new(),
            median_seconds: 0.0,
            struct_pages_per_second: 0.0,
            bytes_per_second: 0.0,
            bare: work.bare,
        });
    }
    let row = &mut rows[index];
    row.seconds.push(work.time.as_secs_f64());
    let times: Vec<_> = row
        .seconds
        .iter()
        .map(|seconds| Duration::from_secs_f64(*seconds))
        .collect();
    row.median_seconds = median_time(&times).as_secs_f64().max(1e-9);
    row.struct_pages_per_second = row.struct_pages as f64 / row.median_seconds / helpers as f64;
    row.bytes_per_second = row.bytes as f64 / row.median_seconds;
}

/// A source, its sections, and copies of the struct pages of the first ones.
struct Bench<'a, 's> {
    kernel: &'a Kernel<'s>,
    io: IoMethod,
    sections: Vec<Section>,
    copied: usize,
    copies: Copies,
    struct_bytes: u64,
}

impl<'a, 's> Bench<'a, 's> {
    fn new(kernel: &'a Kernel<'s>, io: IoMethod) -> anyhow::Result<Self> {
        let page_shift = kernel.source().page_shift();
        let sections = struct_pages::sections(kernel)?;
        let (mut copied, mut pages) = (0, 0);
        for section in &sections {
            pages += section.pages();
            if pages << page_shift > IN_MEMORY as u64 {
                break;
            }
            copied += 1;
        }
        let mut reader = kernel.source().reader(io);
        let copies = Copies::new(reader.as_mut(), &sections[..copied], page_shift, IN_MEMORY)?;
        Ok(Self {
            kernel,
            io,
            sections,
            copied,
            copies,
            struct_bytes: kernel.info().size("page").unwrap_or(64) as u64,
        })
    }

    fn page_shift(&self) -> u32 {
        self.kernel.source().page_shift()
    }

    fn bytes(&self, sections: &[Section]) -> u64 {
        let pages: u64 = sections.iter().map(Section::pages).sum();
        pages << self.page_shift()
    }

    fn reader(&self) -> Box<dyn PageReader + '_> {
        self.kernel.source().reader(self.io)
    }

    fn work(&self, struct_pages: u64, begin: Instant) -> Work {
        Work {
            struct_pages,
            bytes: struct_pages * self.struct_bytes,
            time: begin.elapsed(),
            bare: false,
        }
    }

    fn bare_work(&self, bytes: u64, begin: Instant) -> Work {
        Work {
            struct_pages: bytes / self.struct_bytes,
            bytes,
            time: begin.elapsed(),
            bare: true,
        }
    }

    fn filter_source(&self, filter: &Filter) -> anyhow::Result<Work> {
        let mut reader = self.reader();
        let begin = Instant::now();
        let struct_pages = run_filter(filter, reader.as_mut(), &self.sections)?;
        Ok(self.work(struct_pages, begin))
    }

    fn filter_with_helpers(&self, filter: &Filter, helpers: usize) -> anyhow::Result<Work> {
        let next = AtomicUsize::new(0);
        let helper = || -> anyhow::Result<u64> {
            let mut reader = self.reader();
            let mut struct_pages = 0;
            while let Some(section) = self.sections.get(next.fetch_add(1, Ordering::Relaxed)) {
                let section = std::slice::from_ref(section);
                struct_pages += run_filter(filter, reader.as_mut(), section)?;
            }
            Ok(struct_pages)
        };
        let begin = Instant::now();
        let struct_pages = thread::scope(|scope| -> anyhow::Result<u64> {
            let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(helper)).collect();
            helpers.into_iter().try_fold(0, |sum, helper| {
                let part = helper
                    .join()
                    .map_err(|_| anyhow::anyhow!("a helper panicked"))?;
                Ok(sum + part?)
            })
        })?;
        Ok(self.work(struct_pages, begin))
    }

    fn bare_source(&self) -> anyhow::Result<Work> {
        let mut reader = self.reader();
        let begin = Instant::now();
        let bytes = struct_pages::bare_read(reader.as_mut(), &self.sections, self.page_shift())?;
        Ok(self.bare_work(bytes, begin))
    }

    /// Filters the least recently used copy.
    fn filter_copy(&self, filter: &Filter) -> anyhow::Result<Work> {
        let mut reader = self.copies.reader();
        let begin = Instant::now();
        let struct_pages = run_filter(filter, &mut reader, &self.sections[..self.copied])?;
        Ok(self.work(struct_pages, begin))
    }

    fn bare_copy(&self) -> Work {
        let copy = self.copies.next();
        let begin = Instant::now();
        black_box(struct_pages::sum(copy));
        self.bare_work(copy.len() as u64, begin)
    }
}

/// Filters `sections`; returns the amount of work done.
fn run_filter(
    filter: &Filter,
    reader: &mut dyn PageReader,
    sections: &[Section],
) -> anyhow::Result<u64> {
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut kept = Bitmap::new(SECTION_FRAMES as usize);
    let mut struct_pages = 0;
    for section in sections {
        let first: PageFrame = section.first;
        let result = filter.scan_section(reader, first, &mut ram, &mut kept)?;
        black_box(kept.as_bytes());
        struct_pages += result.scanned;
    }
    Ok(struct_pages)
}

/// Formats the results as a table.
pub fn table(results: &FilterResults) -> String {
    let mega = |value: f64| value / 1e6;
    let mut table = format!(
        "{}, kernel {}\n{} struct pages, {:.1} MB; level {} reads {:.1} MB of them\n\
         open {:.2} ms, of which {:.2} ms for {} guarded page frames; first filtering {:.2} ms\n{:34} {:>7} {:>10} {:>13} {:>9} {:>8}",
        results.source,
        results.kernel,
        results.struct_pages,
        mega(results.bytes as f64),
        results.level,
        mega(results.bytes_read as f64),
        results.open_seconds * 1e3,
        results.guard_seconds * 1e3,
        results.guarded,
        results.first_seconds * 1e3,
        "median",
        "helpers",
        "time",
        "M/s a helper",
        "GB/s",
        "of bare"
    );
    let bare = |row: &Row| {
        let place = row.name.split(", ").nth(1).unwrap_or_default();
        let mut rows = results.rows.iter();
        let bare = rows.find(|bare| bare.bare && bare.name.ends_with(place));
        bare.map_or(f64::NAN, |bare| bare.bytes_per_second)
    };
    for row in &results.rows {
        table.push_str(&format!(
            "\n{:34} {:>7} {:>7.2} ms {:>13.1} {:>9.2} {:>7.0}%",
            row.name,
            row.helpers,
            row.median_seconds * 1e3,
            mega(row.struct_pages_per_second),
            row.bytes_per_second / 1e9,
            100.0 * row.bytes_per_second / bare(row)
        ));
    }
    table
}
