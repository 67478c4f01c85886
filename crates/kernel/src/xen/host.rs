//! A Xen host found in a memory source.

use std::fmt;
use std::sync::OnceLock;

use bigiron_format::elf::xen::{self, CrashInfo};
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::{FormatError, PhysAddr, VirtAddr};

use super::count_info::Layout;
use super::direct_map::DirectMap;
use super::domains::{self, Domain};
use super::frame_table::FrameTable;
use super::owner::Owner;
use super::space::Space;
use super::symbols::Symbols;
use crate::arch::Leaf;
use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;
use crate::source::{IoMethod, MemorySource};

/// Start of the direct map, and entries of the highest page table that are its own
/// (DIRECTMAP_VIRT_START and _END, xen/arch/x86/include/asm/config.h).
const DIRECT_MAP: (VirtAddr, u64) = (VirtAddr(0xffff_8300_0000_0000), 10);
/// The same where the hypervisor is built for more than 16 TiB (CONFIG_BIGMEM).
const BIG_DIRECT_MAP: (VirtAddr, u64) = (VirtAddr(0xffff_8480_0000_0000), 247);
/// Size of struct domain, which fits into a page (alloc_domain_struct, xen/arch/x86/domain.c).
const MAX_DOMAIN: usize = 4096;
/// Entries of the frame table that are looked at for a free page, at most.
const SAMPLES: u64 = 1 << 20;
/// Entries looked at in one place.
const SAMPLE: u64 = 128;

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
    /// Addresses of the hypervisor's own domains, dom_xen and dom_io.
    system_domains: Vec<VirtAddr>,
    /// Size of struct domain; 0 if it is not known.
    domain_size: usize,
    /// The owners of page frames, by the number in _domain of struct page_info.
    owners: Vec<(u64, Owner)>,
    frame_table: FrameTable,
    /// Its own table of symbols, once it was looked for.
    symbols: OnceLock<Option<Symbols>>,
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
        let frame_table = FrameTable::find(&space, &memory, &info)?;
        let (start, slots) = if frame_table.is_big() {
            BIG_DIRECT_MAP
        } else {
            DIRECT_MAP
        };
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
        let mut system_domains = Vec::new();
        for name in ["dom_xen", "dom_io"] {
            let Some(symbol) = info.symbol(name) else {
                continue;
            };
            let address = VirtAddr(space.read_u64(&memory, name, symbol)?);
            system_domains.push(address);
            owners.extend(number(address).map(|number| (number, Owner::Hypervisor)));
        }
        owners.sort_unstable_by_key(|(number, _)| *number);
        let mut host = Self {
            memory,
            crash,
            space,
            direct_map,
            domains,
            system_domains,
            domain_size: info.size("domain").map_or(0, |size| size.min(MAX_DOMAIN)),
            owners,
            frame_table,
            symbols: OnceLock::new(),
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

    /// Addresses of the hypervisor's own domains.
    pub(super) fn system_domains(&self) -> &[VirtAddr] {
        &self.system_domains
    }

    /// Size of struct domain; 0 if it is not known.
    pub(super) fn domain_size(&self) -> usize {
        self.domain_size
    }

    /// Machine memory.
    pub fn memory(&self) -> &PhysicalMemory<'a> {
        &self.memory
    }

    pub(super) fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the hypervisor's own symbols; `None` if its image has no table of them.
    pub(super) fn symbols(&self) -> Result<Option<&Symbols>, SourceError> {
        if self.symbols.get().is_none() {
            let image = self.space.image(&self.memory)?;
            let _ = self.symbols.set(Symbols::read(&image));
        }
        Ok(self.symbols.get().and_then(Option::as_ref))
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
