//! The map of memory for the page.

use bigiron_inspect::page_map::Bin;
use bigiron_inspect::{PageMap, page_class};
use serde::Serialize;

/// The map.
#[derive(Debug, Serialize)]
pub(crate) struct Map {
    page_size: u64,
    /// Page frames per bin.
    bin_frames: u64,
    classes: Vec<ClassName>,
    /// For each bin with RAM: its index by address, page frames of RAM, those in the dump,
    /// their stored size, then pairs of class and page frames.
    bins: Vec<Vec<u64>>,
    total: Vec<u64>,
    ram: u64,
    present: u64,
    stored: Option<u64>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ClassName {
    name: &'static str,
    title: &'static str,
}

impl Map {
    pub(crate) fn of(map: &PageMap) -> Self {
        let width = map.bin_frames.saturating_mul(map.page_size).max(1);
        let classes = page_class::ALL.iter().map(|class| ClassName {
            name: class.name,
            title: class.title,
        });
        Self {
            page_size: map.page_size,
            bin_frames: map.bin_frames,
            classes: classes.collect(),
            bins: map.bins.iter().map(|bin| row(bin, width)).collect(),
            total: map.total.counts.to_vec(),
            ram: map.total.ram,
            present: map.total.present,
            stored: map.has_stored.then_some(map.total.stored),
            warnings: map.warnings.clone(),
        }
    }
}

fn row(bin: &Bin, width: u64) -> Vec<u64> {
    let mut row = vec![bin.address / width, bin.ram, bin.present, bin.stored];
    let counts = (0..).zip(bin.counts).filter(|(_, count)| *count > 0);
    row.extend(counts.flat_map(|(class, count)| [class, count]));
    row
}
