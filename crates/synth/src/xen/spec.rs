//! The text of a host, and what it says about each page frame.

use std::collections::HashMap;
use std::ops::Range;

use super::memory::Memory;
use crate::error::SynthError;

/// The owner of a page frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum XenOwner {
    /// The hypervisor's image, tables and anonymous memory.
    Hypervisor,
    /// The hypervisor's heap.
    Heap,
    /// Its own domain for memory of devices.
    Io,
    /// A domain; 0 is dom0.
    Domain(u16),
    /// Free.
    Free,
    /// Free and not scrubbed.
    Unscrubbed,
    /// Taken out of use.
    Offlined,
    /// Broken memory.
    Broken,
    /// A domain that is not in the list of domains.
    Stray,
}

/// What a domain does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    Runs,
    Paused,
    Crashed,
}

/// How holes in memory are left out of the frame table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Mask,
    Offset,
}

#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) version: (u64, u64),
    pub(super) old_count_info: bool,
    pub(super) compression: Compression,
    pub(super) image: u64,
    pub(super) bigmem: bool,
    pub(super) frame_table_pointer: bool,
    pub(super) vmcoreinfo: bool,
    pub(super) avail_skew: i64,
    pub(super) symbols: bool,
    pub(super) p2m: bool,
    pub(super) cpus: usize,
    pub(super) holes: bool,
    pub(super) ram: Vec<Range<u64>>,
    pub(super) owned: Vec<(Range<u64>, XenOwner)>,
    pub(super) activities: HashMap<u16, Activity>,
}

/// dom0's frames.
#[derive(Debug, Clone, Default)]
pub(super) struct Frames {
    /// Frame of dom0 and of the machine of each page.
    pub(super) pairs: Vec<(u64, u64)>,
    /// Level of each page table, by its frame of the machine.
    pub(super) levels: HashMap<u64, u64>,
}

/// A synthetic Xen host.
#[derive(Debug, Clone)]
pub struct XenHost {
    pub(super) spec: Spec,
    pub(super) memory: Memory,
    pub(super) vmcoreinfo: String,
    pub(super) crash_info: Vec<u64>,
    pub(super) dom0: Frames,
    /// The registers of each CPU.
    pub(super) registers: Vec<Vec<(usize, u64)>>,
}

/// The owners of all page frames of RAM, in ascending order.
pub(super) struct Spans(Vec<(Range<u64>, XenOwner)>);

impl Spans {
    /// The owner of a page frame; `None` if it is no RAM.
    pub(super) fn owner(&self, frame: u64) -> Option<XenOwner> {
        let behind = self.0.partition_point(|(frames, _)| frames.end <= frame);
        let (frames, owner) = self.0.get(behind)?;
        frames.contains(&frame).then_some(*owner)
    }
}

impl XenHost {
    /// The ranges of RAM.
    pub fn ram(&self) -> &[Range<u64>] {
        &self.spec.ram
    }

    /// The owner of a page frame of RAM.
    pub fn owner(&self, frame: u64) -> XenOwner {
        self.spec.owner(frame)
    }

    /// Number of free page frames.
    pub fn free(&self) -> u64 {
        let free = [XenOwner::Free, XenOwner::Unscrubbed];
        let spans = self.spec.spans().0;
        let own = spans.iter().filter(|(_, owner)| free.contains(owner));
        own.map(|(frames, _)| frames.end - frames.start).sum()
    }

    /// The hypervisor's VMCOREINFO.
    pub fn vmcoreinfo(&self) -> &str {
        &self.vmcoreinfo
    }

    /// The contents of a page frame of RAM.
    pub fn page(&self, frame: u64) -> Vec<u8> {
        self.memory.page(frame)
    }
}

impl Spec {
    /// Returns the owners of all RAM.
    pub(super) fn spans(&self) -> Spans {
        let owned = self.owned.iter().map(|(frames, _)| frames);
        let mut edges: Vec<u64> = (self.ram.iter().chain(owned))
            .flat_map(|frames| [frames.start, frames.end])
            .collect();
        edges.sort_unstable();
        edges.dedup();
        let spans = edges.windows(2).filter(|edge| self.is_ram(edge[0]));
        Spans(
            spans
                .map(|edge| (edge[0]..edge[1], self.owner(edge[0])))
                .collect(),
        )
    }

    pub(super) fn owner(&self, frame: u64) -> XenOwner {
        let mut owned = self.owned.iter().rev();
        let found = owned.find(|(frames, _)| frames.contains(&frame));
        found.map_or(XenOwner::Hypervisor, |(_, owner)| *owner)
    }

    pub(super) fn is_ram(&self, frame: u64) -> bool {
        self.ram.iter().any(|range| range.contains(&frame))
    }
}

pub(super) fn parse(text: &str) -> Result<Spec, SynthError> {
    let mut spec: Option<Spec> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        for statement in line
            .split(';')
            .map(str::trim)
            .filter(|text| !text.is_empty())
        {
            statement_into(&mut spec, statement).ok_or_else(|| {
                SynthError::line(index + 1, format!("not understood: {statement}"))
            })?;
        }
    }
    spec.ok_or_else(|| SynthError::line(0, "no line `xen`"))
}

fn statement_into(spec: &mut Option<Spec>, statement: &str) -> Option<()> {
    let mut words = statement.split_whitespace();
    let verb = words.next()?;
    if verb == "xen" {
        *spec = Some(header(words)?);
        return Some(());
    }
    let spec = spec.as_mut()?;
    if verb == "ram" {
        for range in words {
            let (first, last) = range.split_once('-')?;
            spec.ram.push(number(first)?..number(last)? + 1);
        }
        return Some(());
    }
    let owner = match verb {
        "dom0" => XenOwner::Domain(0),
        "domain" => XenOwner::Domain(words.next()?.parse().ok()?),
        "heap" => XenOwner::Heap,
        "free" => XenOwner::Free,
        "offlined" => XenOwner::Offlined,
        "broken" => XenOwner::Broken,
        "stray" => XenOwner::Stray,
        "io" => XenOwner::Io,
        _ => return None,
    };
    let first = number(words.next()?)?;
    let count = number(words.next()?.strip_prefix("n=")?)?;
    let owner = match (words.next(), owner) {
        (None, owner) => owner,
        (Some("scrub"), XenOwner::Free) => XenOwner::Unscrubbed,
        (Some(word), XenOwner::Domain(id)) => {
            let activity = match word {
                "paused" => Activity::Paused,
                "crashed" => Activity::Crashed,
                _ => return None,
            };
            spec.activities.insert(id, activity);
            owner
        }
        _ => return None,
    };
    spec.owned.push((first..first + count, owner));
    Some(())
}

fn header<'t>(mut words: impl Iterator<Item = &'t str>) -> Option<Spec> {
    let (major, minor) = words.next()?.split_once('.')?;
    let version = (major.parse().ok()?, minor.parse().ok()?);
    let mut spec = Spec {
        version,
        old_count_info: version < (4, 17),
        compression: Compression::None,
        image: 0x400,
        bigmem: false,
        frame_table_pointer: true,
        vmcoreinfo: true,
        avail_skew: 0,
        symbols: true,
        p2m: true,
        cpus: 1,
        holes: false,
        ram: Vec::new(),
        owned: Vec::new(),
        activities: HashMap::new(),
    };
    for word in words {
        match word.split_once('=')? {
            ("count_info", value) => spec.old_count_info = one_of(value, ["new", "old"])?,
            ("pdx", "none") => spec.compression = Compression::None,
            ("pdx", "mask") => spec.compression = Compression::Mask,
            ("pdx", "offset") => spec.compression = Compression::Offset,
            ("image", value) => spec.image = number(value)?,
            ("bigmem", value) => spec.bigmem = one_of(value, ["no", "yes"])?,
            ("frame_table", value) => {
                spec.frame_table_pointer = one_of(value, ["fixed", "pointer"])?;
            }
            ("vmcoreinfo", value) => spec.vmcoreinfo = one_of(value, ["none", "note"])?,
            ("avail_skew", value) => spec.avail_skew = value.parse().ok()?,
            ("symbols", value) => spec.symbols = one_of(value, ["no", "yes"])?,
            ("p2m", value) => spec.p2m = one_of(value, ["no", "yes"])?,
            ("fill", value) => spec.holes = one_of(value, ["pattern", "zero"])?,
            ("cpus", value) => spec.cpus = value.parse().ok()?,
            _ => return None,
        }
    }
    Some(spec)
}

/// Returns true for the second of two words.
fn one_of(value: &str, words: [&str; 2]) -> Option<bool> {
    words
        .iter()
        .position(|word| *word == value)
        .map(|at| at == 1)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
