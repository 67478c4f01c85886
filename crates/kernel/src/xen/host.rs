//! A Xen host found in a memory source.

use std::fmt;

use bigiron_format::elf::xen::{self, CrashInfo};
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::{FormatError, PhysAddr, VirtAddr};

use super::count_info::Layout;
use super::direct_map::DirectMap;
use super::domains::{self, Domain};
use super::owners::Owner;
use super::space::Space;
use super::symbols;
use crate::arch::Leaf;
use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;
use crate::source::{IoMethod, MemorySource};

/// Start of the direct map, and entries of the highest page table that are its own
/// (DIRECTMAP_VIRT_START and _END, xen/arch/x86/include/asm/config.h).
const DIRECT_MAP: (VirtAddr, u64) = (VirtAddr(0xffff_8300_0000_0000), 10);
/// The same where the hypervisor is built for more than 16 TiB (CONFIG_BIGMEM).
const BIG_DIRECT_MAP: (VirtAddr, u64) = (VirtAddr(0xffff_8480_0000_0000), 247);
/// Starts of the frame table where VMCOREINFO has no pointer to it: since 4.3, before, and with
/// CONFIG_BIGMEM (FRAMETABLE_VIRT_START).
const FRAME_TABLES: [VirtAddr; 3] = [
    VirtAddr(0xffff_82e0_0000_0000),
    VirtAddr(0xffff_82f6_0000_0000),
    BIG_FRAME_TABLE,
];
const BIG_FRAME_TABLE: VirtAddr = DIRECT_MAP.0;
/// Sizes of struct page_info.
const PAGE_INFO_SIZES: std::ops::RangeInclusive<usize> = 24..=128;
/// Entries of the frame table that are looked at for a free page, at most.
const SAMPLES: u64 = 1 << 20;
/// Entries looked at in one place.
const SAMPLE: u64 = 128;
/// Bytes of a text about the build.
const TEXT: usize = 128;

/// The version of a hypervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major number.
    pub major: u64,
    /// Minor number.
    pub minor: u64,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Returns true if the notes of `source` say that it is of a Xen host.
pub fn is_host(source: &dyn MemorySource) -> bool {
    !matches!(xen::crash_info(source.notes()), Ok(None))
}

/// Returns the version of the hypervisor, if `source` is of a Xen host.
pub fn version(source: &dyn MemorySource) -> Option<Version> {
    let crash = xen::crash_info(source.notes()).ok()??;
    let (major, minor) = (crash.major, crash.minor);
    Some(Version { major, minor })
}

/// What the user says about the hypervisor in place of the notes.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The hypervisor's VMCOREINFO.
    pub vmcoreinfo: Option<Vmcoreinfo>,
    /// The address that its image was loaded for.
    pub phys_start: Option<PhysAddr>,
}

/// A Xen host: the hypervisor, its domains, and its descriptions of page frames.
pub struct Host<'a> {
    memory: PhysicalMemory<'a>,
    crash: CrashInfo,
    space: Space,
    direct_map: DirectMap,
    domains: Vec<Domain>,
    /// The owners of page frames, by the number in _domain of struct page_info.
    owners: Vec<(u64, Owner)>,
    frame_table: FrameTable,
}

/// The array of struct page_info.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameTable {
    pub(super) start: VirtAddr,
    /// Bytes of an entry.
    pub(super) size: usize,
    pub(super) count_info: usize,
    pub(super) domain: usize,
    /// The field is a number of 32 bits, or of 64.
    pub(super) has_wide_domain: bool,
    pub(super) layout: Layout,
}

impl<'a> Host<'a> {
    /// Finds the hypervisor in `source`; `Ok(None)` if the source is not of a Xen host.
    ///
    /// # Errors
    /// The source is of a Xen host, but what describes its page frames is missing or damaged.
    pub fn find(
        source: &'a dyn MemorySource,
        given: Given,
        io: IoMethod,
        cache_pages: usize,
    ) -> Result<Option<Self>, KernelError> {
        let damaged = |cause: FormatError| KernelError::XenHost {
            reason: cause.to_string(),
        };
        let Some(crash) = xen::crash_info(source.notes()).map_err(damaged)? else {
            return Ok(None);
        };
        let info = match given.vmcoreinfo {
            Some(info) => info,
            None => {
                let note = xen::vmcoreinfo(source.notes());
                let note = note.ok_or_else(|| KernelError::XenHost {
                    reason: "no note named VMCOREINFO_XEN says where its data is; the hypervisor \
                             writes it when a capture kernel is first loaded"
                        .into(),
                })?;
                let start = source.notes().file_offset();
                let offset = start.saturating_add(note.desc_offset as u64);
                Vmcoreinfo::parse(note.desc, offset).map_err(damaged)?
            }
        };
        let start = given.phys_start.or(crash.xen_phys_start);
        let start = start.ok_or_else(|| KernelError::XenHost {
            reason: "its notes do not have the address that the hypervisor was loaded for \
                     (xen_phys_start)"
                .into(),
        })?;
        let memory = PhysicalMemory::new(source, io, cache_pages);
        let space = Space::find(&info, start, &memory)?;
        let mut frame_table = FrameTable::find(&space, &memory, &info)?;
        let is_big = frame_table.start == BIG_FRAME_TABLE;
        frame_table.has_wide_domain = is_big;
        let (start, slots) = if is_big { BIG_DIRECT_MAP } else { DIRECT_MAP };
        let direct_map = DirectMap::read(&space, &memory, start, slots)?;
        let domains = domains::read(&space, &memory, &info)?;
        let number = |address: VirtAddr| address.0.checked_sub(start.0).map(|at| at >> 12);
        let mut owners: Vec<_> = domains
            .iter()
            .filter_map(|domain| {
                let owner = match domain.id {
                    0 => Owner::Dom0,
                    id => Owner::Domain(id),
                };
                Some((number(domain.address)?, owner))
            })
            .collect();
        for name in ["dom_xen", "dom_io"] {
            let Some(symbol) = info.symbol(name) else {
                continue;
            };
            let address = VirtAddr(space.read_u64(&memory, name, symbol)?);
            owners.extend(number(address).map(|number| (number, Owner::Hypervisor)));
        }
        owners.sort_unstable_by_key(|(number, _)| *number);
        let mut host = Self {
            memory,
            crash,
            space,
            direct_map,
            domains,
            owners,
            frame_table,
        };
        host.frame_table.layout = host.find_layout()?;
        Ok(Some(host))
    }

    /// The version of the hypervisor.
    pub fn version(&self) -> Version {
        Version {
            major: self.crash.major,
            minor: self.crash.minor,
        }
    }

    /// The note about the hypervisor.
    pub fn crash_info(&self) -> &CrashInfo {
        &self.crash
    }

    /// The domains, in the order of their identifiers.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// Machine memory.
    pub fn memory(&self) -> &PhysicalMemory<'a> {
        &self.memory
    }

    /// Returns a text of the hypervisor's image, such as its changeset; empty if it cannot be
    /// read.
    pub fn text(&self, address: PhysAddr) -> String {
        let mut bytes = [0; TEXT];
        if self.memory.read(address, &mut bytes).is_err() {
            return String::new();
        }
        let end = bytes.iter().position(|byte| *byte == 0);
        let text = &bytes[..end.unwrap_or(TEXT)];
        String::from_utf8_lossy(text).trim().to_owned()
    }

    /// Returns the hypervisor's own count of free page frames (total_avail_pages,
    /// xen/common/page_alloc.c); `None` if its table of symbols does not have it.
    ///
    /// # Errors
    /// The source fails as a whole.
    pub fn free_pages(&self) -> Result<Option<u64>, KernelError> {
        let image = self.space.image(&self.memory)?;
        let Some(offset) = symbols::find(&image, "total_avail_pages") else {
            return Ok(None);
        };
        let address = VirtAddr(self.space.image_start().0.wrapping_add(offset));
        let count = self
            .space
            .read_u64(&self.memory, "total_avail_pages", address);
        Ok(count.ok())
    }

    pub(super) fn frame_table(&self) -> &FrameTable {
        &self.frame_table
    }

    pub(super) fn direct_map(&self) -> &DirectMap {
        &self.direct_map
    }

    /// Translates a hypervisor address.
    pub(super) fn translate(&self, address: VirtAddr) -> Result<Option<Leaf>, SourceError> {
        self.space.translate(&self.memory, address)
    }

    /// Returns the owner with this number in _domain.
    pub(super) fn owner(&self, number: u64) -> Option<Owner> {
        let at = self.owners.binary_search_by_key(&number, |(at, _)| *at);
        at.ok().map(|at| self.owners[at].1)
    }

    /// Determines the layout of count_info by the first free page in a sample of all page
    /// frames. Without one, the usual layout of the version is right about all other pages that
    /// matter.
    fn find_layout(&self) -> Result<Layout, KernelError> {
        let usual = Layout::usual(self.crash.major, self.crash.minor);
        let table = &self.frame_table;
        let extents = self.direct_map.extents();
        let frames: u64 = extents.iter().map(|extent| extent.len).sum();
        let step = (frames / SAMPLES).max(1).saturating_mul(SAMPLE);
        let mut entries = vec![0; SAMPLE as usize * table.size];
        for extent in extents {
            let mut done = 0;
            while done < extent.len {
                let len = SAMPLE.min(extent.len - done) as usize * table.size;
                let at = table.entry(extent.index + done);
                let bytes = &mut entries[..len];
                // Entries of memory that the dump lacks say nothing.
                if self
                    .space
                    .read(&self.memory, "struct page_info", at, bytes)
                    .is_ok()
                {
                    let counts = bytes.chunks_exact(table.size);
                    let mut found = counts.filter_map(|entry| Layout::of_free(table.count(entry)));
                    if let Some(layout) = found.next() {
                        return Ok(layout);
                    }
                }
                done = done.saturating_add(step);
            }
        }
        Ok(usual)
    }
}

impl FrameTable {
    fn find(
        space: &Space,
        memory: &PhysicalMemory,
        info: &Vmcoreinfo,
    ) -> Result<Self, KernelError> {
        let unusable = |key: &str| KernelError::XenHost {
            reason: format!("the hypervisor's VMCOREINFO has no usable {key}"),
        };
        let size = info.size("page_info");
        let size = size.filter(|size| PAGE_INFO_SIZES.contains(size));
        let size = size.ok_or_else(|| unusable("SIZE(page_info)"))?;
        let offset = |name: &str, bytes: usize| {
            let offset = info.offset(name).filter(|offset| offset + bytes <= size);
            offset.ok_or_else(|| unusable(&format!("OFFSET({name})")))
        };
        let start = match info.symbol("frame_table") {
            Some(symbol) => VirtAddr(space.read_u64(memory, "frame_table", symbol)?),
            None => {
                let mut mapped = None;
                for start in FRAME_TABLES {
                    if mapped.is_none() && space.translate(memory, start)?.is_some() {
                        mapped = Some(start);
                    }
                }
                mapped.ok_or_else(|| unusable("SYMBOL(frame_table)"))?
            }
        };
        Ok(Self {
            start,
            size,
            count_info: offset("page_info.count_info", 8)?,
            domain: offset("page_info._domain", 4)?,
            has_wide_domain: false,
            layout: Layout::usual(4, 17),
        })
    }

    /// Returns the address of the entry of the page frame with this index.
    pub(super) fn entry(&self, index: u64) -> VirtAddr {
        let offset = index.wrapping_mul(self.size as u64);
        VirtAddr(self.start.0.wrapping_add(offset))
    }

    /// Returns count_info of an entry.
    pub(super) fn count(&self, entry: &[u8]) -> u64 {
        word(entry, self.count_info, 8)
    }

    /// Returns the number of the owner in an entry, 0 for none.
    pub(super) fn owner(&self, entry: &[u8]) -> u64 {
        word(entry, self.domain, if self.has_wide_domain { 8 } else { 4 })
    }
}

/// Returns the little-endian number of `len` bytes at `offset`.
fn word(entry: &[u8], offset: usize, len: usize) -> u64 {
    let bytes = entry.get(offset..offset + len).unwrap_or_default();
    bytes
        .iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}
