//! `bigiron-bench cache`: measures the effect of the page cache.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use bigiron_bench::results::median_time;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, VirtAddr};
use bigiron_kernel::mem_map::MemMap;
use bigiron_kernel::{DumpLevel, Filter, IoMethod, Kernel, SECTION_FRAMES, Source};

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
    /// An ELF core or a kdump-compressed dump
    source: PathBuf,
    /// Runs of each; the median counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

/// Measures two workloads: the filter, which translates once per run of struct pages, as on
/// bare metal; and single struct pages spread over the machine, each translated and read
/// separately, as makedumpfile reads a Xen guest's.
pub fn run(arguments: &CacheArguments) -> anyhow::Result<()> {
    let (path, runs) = (&arguments.source, arguments.runs.max(1));
    let source = Source::open(&[path.to_owned()])?;
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
    for (name, work) in [
        (
            "filter (bare metal)",
            filter as fn(&Kernel) -> anyhow::Result<()>,
        ),
        ("many lookups", many_lookups),
    ] {
        for pages in CACHE_PAGES {
            let mut times = Vec::with_capacity(runs);
            let mut statistics = Default::default();
            for _ in 0..runs {
                let kernel = Kernel::find(&source, None, IoMethod::Read, pages)?;
                let begin = Instant::now();
                work(&kernel)?;
                times.push(begin.elapsed());
                statistics = kernel.memory().statistics();
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
