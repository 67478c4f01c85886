//! Estimates of dumps of a machine's memory, and the memory that a dump device in memory needs.

use std::path::Path;

use anyhow::Context;
use bigiron_dump::{ChunkCompression, DumpOptions, Format, Subject, ZstdChunks};
use bigiron_helpers::{Stop, processor_count};
use bigiron_kernel::{DumpLevel, IoMethod, Kernel, PhysicalMemory, RUNNING_KERNEL, Source};

use super::estimate::{Conditions, Estimates, estimate};
use super::{Root, page_frames};
use crate::commands::live;
use crate::signals;

/// The capture kernel that the dumps are estimated for.
#[derive(Clone, Copy, Debug)]
pub struct CaptureKernel {
    /// Its CPUs.
    pub cpus: usize,
    /// Bytes per second that the target takes; `None` if it was not measured.
    pub write_speed: Option<f64>,
}

/// Estimates each of the dumps `wanted` of the memory in a file, which may be /proc/kcore.
///
/// # Errors
/// The memory cannot be read or has no kernel, or a signal came.
pub fn estimate_memory(
    root: &Root,
    memory: &Path,
    threads: usize,
    capture: CaptureKernel,
    wanted: &[(DumpLevel, Format)],
) -> anyhow::Result<Estimates> {
    let is_live = memory == Path::new(RUNNING_KERNEL);
    if is_live {
        live::check_is_shown()?;
    }
    let source = Source::open(&[memory.to_owned()])?;
    let cache_pages = PhysicalMemory::DEFAULT_CACHE_PAGES;
    let kernel = Kernel::find(&source, None, IoMethod::Auto, cache_pages)?;
    let subject = Subject::from(kernel);
    let conditions = Conditions {
        capture_cpus: capture.cpus,
        write_speed: capture.write_speed,
        capture_memory: match is_live {
            true => page_frames(root, subject.source().page_shift()),
            false => [None; 2],
        },
    };
    let options = DumpOptions {
        threads,
        ..DumpOptions::default()
    };
    let stop = Stop::new();
    signals::watch(&stop)?;
    estimate(&subject, &options, wanted, conditions, &stop)
}

/// Returns the bytes that a vmdump of the machine at dump level 31 is expected to have.
///
/// # Errors
/// As [`estimate_memory`].
pub fn expected_bytes(root: &Root) -> anyhow::Result<u64> {
    let capture = CaptureKernel {
        cpus: 1,
        write_speed: None,
    };
    let vmdump = Format::Vmdump(ChunkCompression::Zstd(ZstdChunks::default()));
    let memory = root.path(RUNNING_KERNEL);
    let wanted = [(DumpLevel::MAX, vmdump)];
    let estimates = estimate_memory(root, &memory, processor_count(), capture, &wanted)?;
    let dump = estimates.dumps.first().context("no dump was estimated")?;
    Ok(dump.bytes)
}
