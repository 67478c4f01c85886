//! `bigiron-bench cache`: measures the effect of the page cache.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bigiron_bench::results::median_time;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, VirtAddr};
use bigiron_kernel::mem_map::MemMap;
use bigiron_kernel::xen::{self, Given, Host};
use bigiron_kernel::{
    CacheStatistics, DumpLevel, Filter, IoMethod, Kernel, SECTION_FRAMES, Source,
};

use clap::Args;

use bigiron_bench::output::print;

/// Cache sizes in the table, in pages: none, as in makedumpfile's patch of 2012, and the
/// default.
const CACHE_PAGES: [usize; 3] = [0, 8, bigiron_kernel::PhysicalMemory::DEFAULT_CACHE_PAGES];
/// Number of virtual addresses looked up individually in the second workload.
const LOOKUPS: u64 = 200_000;

/// `bigiron-bench cache`.
#[derive(Debug, Args)]
pub struct CacheArguments {
    /// An ELF core or a kdump-compressed dump; of a Xen host, the kernel is dom0's
    source: PathBuf,
    /// Runs of each; the median counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

/// A workload: its name, and what it does with a cache of some pages.
type Workload = (
    &'static str,
    fn(&Arc<Source>, usize) -> anyhow::Result<Measured>,
);

/// The time of a workload, and how the cache served it.
type Measured = (Duration, CacheStatistics);

/// Of a kernel: the filter, which translates once per run of struct pages, and single struct pages
/// spread over the machine, each translated and read separately, as makedumpfile reads a Xen
/// guest's.
const OF_KERNEL: [Workload; 2] = [
    ("filter", |source, pages| of_kernel(source, pages, filter)),
    ("many lookups", |source, pages| {
        of_kernel(source, pages, many_lookups)
    }),
];
/// Of a Xen host: the owners of all page frames, and the same two of dom0, each of whose page
/// tables is behind its table of frames.
const OF_HOST: [Workload; 3] = [
    ("owners of page frames", owners),
    ("filter of dom0", |source, pages| {
        of_dom0(source, pages, filter)
    }),
    ("many lookups in dom0", |source, pages| {
        of_dom0(source, pages, many_lookups)
    }),
];

/// Measures the workloads.
pub fn run(arguments: &CacheArguments) -> anyhow::Result<()> {
    let (path, runs) = (&arguments.source, arguments.runs.max(1));
    let source = Arc::new(Source::open(&[path.to_owned()])?);
    let workloads: &[Workload] = match xen::is_host(source.memory()) {
        true => &OF_HOST,
        false => &OF_KERNEL,
    };
    let mut table = format!(
        "{}, {} runs each, medians\n{:22} {:>6} {:>10} {:>12} {:>10}",
        path.display(),
        runs,
        "workload",
        "pages",
        "time",
        "hits",
        "misses"
    );
    for (name, work) in workloads {
        for pages in CACHE_PAGES {
            let mut times = Vec::with_capacity(runs);
            let mut statistics = Default::default();
            for _ in 0..runs {
                let (time, served) = work(&source, pages)?;
                times.push(time);
                statistics = served;
            }
            let median = median_time(&times);
            table.push_str(&format!(
                "\n{name:22} {pages:>6} {:>8.2}ms {:>12} {:>10}",
                median.as_secs_f64() * 1e3,
                statistics.hits,
                statistics.misses
            ));
        }
    }
    Ok(print(&table)?)
}

fn of_kernel(
    source: &Source,
    pages: usize,
    work: fn(&Kernel) -> anyhow::Result<()>,
) -> anyhow::Result<Measured> {
    let kernel = Kernel::find(source, None, IoMethod::Read, pages)?;
    let begin = Instant::now();
    work(&kernel)?;
    Ok((begin.elapsed(), kernel.memory().statistics()))
}

fn of_dom0(
    host: &Arc<Source>,
    pages: usize,
    work: fn(&Kernel) -> anyhow::Result<()>,
) -> anyhow::Result<Measured> {
    let dom0 = xen::open_dom0(host, Given::default(), IoMethod::Read, pages)?;
    of_kernel(&dom0, pages, work)
}

fn owners(source: &Arc<Source>, pages: usize) -> anyhow::Result<Measured> {
    let host = Host::find(source.memory(), Given::default(), IoMethod::Read, pages)?;
    let host = host.context("not a Xen host")?;
    let begin = Instant::now();
    host.census()?;
    Ok((begin.elapsed(), host.memory().statistics()))
}

fn filter(kernel: &Kernel) -> anyhow::Result<()> {
    let filter = Filter::new(kernel, DumpLevel::MAX)?;
    let mut reader = kernel.source().reader(IoMethod::Read);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut kept = Bitmap::new(SECTION_FRAMES as usize);
    for first in kernel.source().sections() {
        filter.scan_section(reader.as_mut(), first, &mut ram, &mut kept)?;
    }
    Ok(())
}

fn many_lookups(kernel: &Kernel) -> anyhow::Result<()> {
    let map = MemMap::find(kernel)?;
    let end = kernel.source().end_frame().0;
    let mut addresses: Vec<VirtAddr> = Vec::new();
    for section in 0..end.div_ceil(1 << map.frames_shift()) {
        if let Some(base) = map.section(kernel, section)? {
            let first = section << map.frames_shift();
            addresses.push(map.page_struct(base, PageFrame(first)));
        }
    }
    anyhow::ensure!(!addresses.is_empty(), "no section has struct pages");
    let per_section = 1_u64 << map.frames_shift();
    let mut flags = [0; 8];
    for lookup in 0..LOOKUPS {
        // A stride that is not a power of two visits all of the machine.
        let section = addresses[(lookup % addresses.len() as u64) as usize];
        let index = lookup.wrapping_mul(4099) % per_section;
        let address = section
            .checked_add(index * map.page_struct_size())
            .context("the memory map wraps around the address space")?;
        if kernel.translate(address)?.is_some() {
            kernel.read("a struct page", address, &mut flags)?;
        }
    }
    Ok(())
}
