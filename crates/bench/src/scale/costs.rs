//! Costs of pages, and the passes derived from them.

use serde::Serialize;

use super::model::{Cost, Pass, WorkItem};

/// Page frames per section of the filter.
pub const SECTION_FRAMES: u64 = bigiron_kernel::SECTION_FRAMES;
/// Page frames per batch of the copy.
pub const BATCH_FRAMES: u64 = 256;
/// Size of a page in bytes.
pub const PAGE_BYTES: f64 = 4096.0;
/// Size of a page descriptor in a kdump-compressed dump, in bytes.
pub const DESCRIPTOR_BYTES: f64 = 24.0;
/// Number of pages of struct pages per section, at 64 bytes per struct page.
const STRUCT_PAGES: f64 = SECTION_FRAMES as f64 * 64.0 / PAGE_BYTES;
/// Size of a section's part of both bitmaps, in bytes.
const BITMAP_BYTES: f64 = 2.0 * SECTION_FRAMES as f64 / 8.0;
/// Variation of the work per piece.
const SPREAD: f64 = 0.5;

/// Costs of one codec for a page that is neither zero nor equal to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CodecCosts {
    /// Name of the codec, with level.
    pub name: String,
    /// Compression of a page that shrinks.
    pub compressible: Cost,
    /// Attempted compression and copy of a page that does not shrink.
    pub incompressible: Cost,
    /// Fraction of pages that do not shrink.
    pub incompressible_share: f64,
    /// Average compressed size of pages that shrink, in bytes.
    pub compressed_bytes: f64,
    /// write() per byte, in pieces of this codec's size.
    pub write: Cost,
}

impl CodecCosts {
    /// Returns the average stored size of a page, in bytes.
    pub fn bytes(&self) -> f64 {
        let raw = self.incompressible_share;
        raw * PAGE_BYTES + (1.0 - raw) * self.compressed_bytes
    }

    fn time(&self) -> Cost {
        let raw = self.incompressible_share;
        let raw_time = self.incompressible.times(raw);
        raw_time.plus(self.compressible.times(1.0 - raw))
    }
}

/// Costs that do not depend on the codec.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Origin of the figures.
    pub origin: String,
    /// Filtering a section: reading and classifying its struct pages.
    pub filter: Cost,
    /// Reading a page.
    pub read: Cost,
    /// Detecting a zero page.
    pub zero: Cost,
    /// Hashing a page and looking it up.
    pub hash: Cost,
    /// Reading and comparing the page that has the same hash.
    pub equal: Cost,
    /// Additional time of a contended write, in nanoseconds.
    pub hand_over: f64,
    /// Opening the source, starting helpers and allocating their buffers, in nanoseconds.
    pub start: f64,
    /// Write rate of a disk in bytes per second; infinite for memory.
    #[serde(serialize_with = "finite_or_null")]
    pub disk_rate: f64,
    /// Costs of each codec.
    pub codecs: Vec<CodecCosts>,
}

fn finite_or_null<S: serde::Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(*value).serialize(serializer)
}

/// Shares of the page classes in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// Number of page frames of RAM.
    pub frames: u64,
    /// Number of kept page frames.
    pub pages: u64,
    /// Fraction of zero pages among them.
    pub zero: f64,
    /// Fraction of pages among them that equal an earlier page.
    pub equal: f64,
}

impl Kept {
    /// Returns the number of pages that are compressed and stored.
    pub fn stored(&self) -> f64 {
        self.pages as f64 * (1.0 - self.zero - self.equal)
    }
}

impl Costs {
    /// Returns the costs of a codec by name.
    pub fn codec(&self, name: &str) -> Option<&CodecCosts> {
        self.codecs.iter().find(|codec| codec.name == name)
    }

    /// Returns the two passes of a dump of these pages.
    pub fn passes(&self, kept: &Kept, codec: &CodecCosts) -> Vec<Pass> {
        let reading = self.read.times(STRUCT_PAGES);
        let source = Cost {
            alone: reading.alone.min(self.filter.alone),
            beside: reading.beside.min(self.filter.beside),
        };
        let filter = WorkItem {
            source,
            cpu: self.filter.plus(source.times(-1.0)),
            write: codec.write.times(BITMAP_BYTES),
            bytes: BITMAP_BYTES,
            flushes: 0.0,
        };
        let batches = kept.frames.div_ceil(BATCH_FRAMES);
        let pages = kept.pages as f64 / batches.max(1) as f64;
        let stored = kept.stored() / batches.max(1) as f64;
        let bytes = stored * codec.bytes() + pages * DESCRIPTOR_BYTES;
        let cpu = self.zero.times(pages * kept.zero);
        let cpu = cpu.plus(self.hash.times(pages * (1.0 - kept.zero)));
        let cpu = cpu.plus(self.equal.times(pages * kept.equal));
        let copy = WorkItem {
            source: self.read.times(pages),
            cpu: cpu.plus(codec.time().times(stored)),
            write: codec.write.times(bytes),
            bytes,
            flushes: 0.0,
        };
        vec![
            Pass {
                name: "filter",
                pieces: kept.frames.div_ceil(SECTION_FRAMES),
                piece: filter,
                spread: SPREAD,
            },
            Pass {
                name: "copy",
                pieces: batches,
                piece: copy,
                spread: SPREAD,
            },
        ]
    }

    /// Returns stated costs, for use without a source: round numbers for a server core of about
    /// 3 GHz and pages of kernel memory.
    pub fn stated() -> Self {
        let write = Cost::of(0.4);
        let codec = |name: &str, compressible, incompressible, compressed_bytes| CodecCosts {
            name: name.into(),
            compressible: Cost::of(compressible),
            incompressible: Cost::of(incompressible),
            incompressible_share: if name == "none" { 1.0 } else { 0.1 },
            compressed_bytes,
            write,
        };
        Self {
            origin: "stated for a core of about 3 GHz, not measured".into(),
            filter: Cost::of(600e3),
            read: Cost::of(700.0),
            zero: Cost::of(100.0),
            hash: Cost::of(300.0),
            equal: Cost::of(1000.0),
            hand_over: 5e3,
            start: 5e6,
            disk_rate: f64::INFINITY,
            codecs: vec![
                codec("none", 300.0, 300.0, PAGE_BYTES),
                codec("lzo", 6e3, 2e3, 1500.0),
                codec("zstd:1", 14e3, 5e3, 1000.0),
                codec("zstd:-3", 8e3, 2e3, 1350.0),
            ],
        }
    }
}
