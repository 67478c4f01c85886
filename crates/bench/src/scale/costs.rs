//! What pages cost, and the passes that follow from it.

use serde::Serialize;

use super::model::{Cost, Pass, Piece};

/// Page frames of a chunk of the filter.
pub const SECTION_FRAMES: u64 = bigiron_kernel::SECTION_FRAMES;
/// Page frames of a unit of the copy.
pub const UNIT_FRAMES: u64 = 256;
/// Bytes of a page.
pub const PAGE_BYTES: f64 = 4096.0;
/// Bytes of a page's descriptor in a kdump-compressed dump.
pub const DESCRIPTOR_BYTES: f64 = 24.0;
/// Pages of struct pages for a chunk, 64 bytes each.
const STRUCT_PAGES: f64 = SECTION_FRAMES as f64 * 64.0 / PAGE_BYTES;
/// Bytes of a chunk in both bitmaps.
const BITMAP_BYTES: f64 = 2.0 * SECTION_FRAMES as f64 / 8.0;
/// How far pieces differ from each other.
const SPREAD: f64 = 0.5;

/// What one codec does with a page that is neither zero nor equal to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CodecCosts {
    /// The codec with its level.
    pub name: String,
    /// Compressing a page that gets smaller.
    pub compressible: Cost,
    /// Trying one that does not, and copying it.
    pub incompressible: Cost,
    /// The part of pages that do not get smaller.
    pub incompressible_share: f64,
    /// Bytes that a page takes which gets smaller.
    pub compressed_bytes: f64,
    /// write(), for each byte, in pieces as this codec makes them.
    pub write: Cost,
}

impl CodecCosts {
    /// Bytes that a page takes on average.
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

/// What does not depend on the codec.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Where they come from.
    pub origin: String,
    /// Filtering a chunk: reading its struct pages and deciding.
    pub filter: Cost,
    /// Reading a page.
    pub read: Cost,
    /// Finding out that a page is zero.
    pub zero: Cost,
    /// Hashing a page and looking it up.
    pub hash: Cost,
    /// Reading and comparing the page that has the same hash.
    pub equal: Cost,
    /// What a contended write takes longer.
    pub hand_over: f64,
    /// Opening, starting helpers and making their buffers.
    pub start: f64,
    /// What a disk writes, in bytes per second; infinite for memory.
    #[serde(serialize_with = "finite_or_null")]
    pub disk_rate: f64,
    /// What the codecs do.
    pub codecs: Vec<CodecCosts>,
}

fn finite_or_null<S: serde::Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(*value).serialize(serializer)
}

/// Which pages a dump has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// Page frames of RAM.
    pub frames: u64,
    /// Page frames kept.
    pub pages: u64,
    /// The part of them that is zero.
    pub zero: f64,
    /// The part of them that equals a page before.
    pub equal: f64,
}

impl Kept {
    /// Pages that are compressed and stored.
    pub fn stored(&self) -> f64 {
        self.pages as f64 * (1.0 - self.zero - self.equal)
    }
}

impl Costs {
    /// The costs of a codec by name.
    pub fn codec(&self, name: &str) -> Option<&CodecCosts> {
        self.codecs.iter().find(|codec| codec.name == name)
    }

    /// The two passes of a dump of these pages.
    pub fn passes(&self, kept: &Kept, codec: &CodecCosts) -> Vec<Pass> {
        let reading = self.read.times(STRUCT_PAGES);
        let source = Cost {
            alone: reading.alone.min(self.filter.alone),
            beside: reading.beside.min(self.filter.beside),
        };
        let filter = Piece {
            source,
            cpu: self.filter.plus(source.times(-1.0)),
            write: codec.write.times(BITMAP_BYTES),
            bytes: BITMAP_BYTES,
            flushes: 0.0,
        };
        let units = kept.frames.div_ceil(UNIT_FRAMES);
        let pages = kept.pages as f64 / units.max(1) as f64;
        let stored = kept.stored() / units.max(1) as f64;
        let bytes = stored * codec.bytes() + pages * DESCRIPTOR_BYTES;
        let cpu = self.zero.times(pages * kept.zero);
        let cpu = cpu.plus(self.hash.times(pages * (1.0 - kept.zero)));
        let cpu = cpu.plus(self.equal.times(pages * kept.equal));
        let copy = Piece {
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
                pieces: units,
                piece: copy,
                spread: SPREAD,
            },
        ]
    }

    /// Stated costs, for use without a source: round numbers for one core of a
    /// server of about 3 GHz and pages of a kernel's own memory.
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
