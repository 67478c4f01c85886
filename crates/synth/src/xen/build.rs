//! Lays the hypervisor's data out in memory.

use std::ops::Range;

use super::memory::Memory;
use super::spec::{Activity, Compression, Frames, Spec, XenHost, XenOwner, parse};
use crate::error::SynthError;
use crate::machine::Machine;

pub(super) const PAGE: u64 = 4096;
/// Page frames of a large page, within which the order of the frame table follows memory.
pub(super) const GROUP: u64 = 512;
/// The hypervisor never compresses the lowest bits of a frame number (MAX_ORDER).
const MAX_ORDER: u32 = 18;
/// Offsets in the image.
pub(super) const ROOT: u64 = 0x1000;
pub(super) const VARIABLES: u64 = 0x2000;
/// Frames behind the image, from which tables are allocated.
const IMAGE_FRAMES: u64 = 64;
/// Offsets in struct domain.
pub(super) const DOMAIN_ID: u64 = 0;
pub(super) const NEXT_IN_LIST: u64 = 136;
const SHUTDOWN: u64 = 528;
const HANDLE: u64 = 1928;
/// Identifiers of the hypervisor's own domains.
const DOMID_IO: u16 = 0x7ff1;
const DOMID_XEN: u16 = 0x7ff2;

impl XenHost {
    /// Builds the host described by a text.
    ///
    /// # Errors
    /// If the text is invalid, or if the host's memory is too small.
    pub fn from_text(text: &str) -> Result<Self, SynthError> {
        build(parse(text)?, None)
    }

    /// Builds the host described by a text, whose dom0 has the memory of `kernel`: a machine of
    /// x86-64 with four levels of page tables and small pages only.
    ///
    /// # Errors
    /// As [`Self::from_text`]; or if dom0 has too little memory.
    pub fn with_dom0(text: &str, kernel: &Machine) -> Result<Self, SynthError> {
        build(parse(text)?, Some(kernel.clone()))
    }

    /// The machine frame of the root of dom0's table of frames.
    pub fn p2m_root(&self) -> u64 {
        self.crash_info.last().copied().unwrap_or_default()
    }

    /// Returns the machine frame of a frame of dom0.
    pub fn machine_frame(&self, frame: u64) -> Option<u64> {
        let pairs = &self.dom0.pairs;
        let at = pairs.binary_search_by_key(&frame, |pair| pair.0).ok()?;
        Some(pairs[at].1)
    }
}

fn build(spec: Spec, machine: Option<Machine>) -> Result<XenHost, SynthError> {
    let mut builder = Builder {
        next: spec.image + IMAGE_FRAMES,
        memory: Memory::new(spec.holes),
        groups: groups(&spec),
        dom0: Frames::default(),
        dom0_domain: 0,
        machine,
        spec,
    };
    builder.image()?;
    let list = builder.domains()?;
    let registers = builder.cpus()?;
    builder.direct_map()?;
    let lists = builder.dom0()?;
    builder.frame_table(&list)?;
    let crash_info = builder.texts(lists);
    let vmcoreinfo = builder.vmcoreinfo();
    Ok(XenHost {
        spec: builder.spec,
        memory: builder.memory,
        dom0: builder.dom0,
        vmcoreinfo,
        crash_info,
        registers,
    })
}

/// Domains by their numbers in the frame table.
pub(super) struct Numbers {
    pub(super) domains: Vec<(u16, u64)>,
    pub(super) io: u64,
    pub(super) stray: u64,
}

pub(super) struct Builder {
    pub(super) spec: Spec,
    pub(super) memory: Memory,
    /// The next page frame for tables.
    next: u64,
    /// Aligned ranges of page frames that have RAM.
    pub(super) groups: Vec<Range<u64>>,
    /// The kernel in dom0.
    pub(super) machine: Option<Machine>,
    pub(super) dom0: Frames,
    /// The page frame of dom0's struct domain.
    pub(super) dom0_domain: u64,
}

impl Builder {
    pub(super) fn virt_start(&self) -> u64 {
        match self.spec.version {
            version if version >= (4, 17) => 0xffff_82d0_4000_0000,
            version if version >= (4, 4) => 0xffff_82d0_8000_0000,
            version if version >= (4, 3) => 0xffff_82c4_c000_0000,
            _ => 0xffff_82c4_8000_0000,
        }
    }

    /// The hypervisor's address of a page frame.
    pub(super) fn address(&self, frame: u64) -> u64 {
        self.direct_start() + self.pdx(frame) * PAGE
    }

    fn direct_start(&self) -> u64 {
        match self.spec.bigmem {
            true => 0xffff_8480_0000_0000,
            false => 0xffff_8300_0000_0000,
        }
    }

    pub(super) fn frame_table_start(&self) -> u64 {
        match (self.spec.bigmem, self.spec.version >= (4, 3)) {
            (true, _) => 0xffff_8300_0000_0000,
            (false, true) => 0xffff_82e0_0000_0000,
            (false, false) => 0xffff_82f6_0000_0000,
        }
    }

    pub(super) fn page_info_size(&self) -> u64 {
        if self.spec.bigmem { 48 } else { 32 }
    }

    /// Offsets of count_info and _domain.
    pub(super) fn fields(&self) -> (u64, u64) {
        if self.spec.bigmem { (16, 32) } else { (8, 24) }
    }

    pub(super) fn start(&self) -> u64 {
        self.spec.image * PAGE
    }

    /// Address of a variable.
    pub(super) fn variable(&self, index: u64) -> u64 {
        self.start() + VARIABLES + 8 * index
    }

    pub(super) fn allocate(&mut self) -> Result<u64, SynthError> {
        while self.spec.is_ram(self.next) {
            let frame = self.next;
            self.next += 1;
            if self.spec.owner(frame) == XenOwner::Hypervisor {
                self.memory.clear(frame);
                return Ok(frame);
            }
        }
        Err(SynthError::layout(
            "too little RAM behind the hypervisor's image",
        ))
    }

    /// Maps `size` bytes, which is the size of a page, at `address`.
    pub(super) fn map(&mut self, address: u64, physical: u64, size: u64) -> Result<(), SynthError> {
        let mut table = self.start() + ROOT;
        for level in (0..4).rev() {
            let shift = 12 + 9 * level;
            let entry = table + (address >> shift & 0x1ff) * 8;
            if 1_u64 << shift == size {
                let large = if level > 0 { 0x80 } else { 0 };
                self.memory.put64(entry, physical | 0x63 | large);
                return Ok(());
            }
            let next = self.memory.get64(entry);
            table = match next & 1 {
                1 => next & !0xfff,
                _ => {
                    let table = self.allocate()? * PAGE;
                    self.memory.put64(entry, table | 0x63);
                    table
                }
            };
        }
        Err(SynthError::layout("no page has this size"))
    }

    fn image(&mut self) -> Result<(), SynthError> {
        for frame in 0..IMAGE_FRAMES {
            self.memory.clear(self.spec.image + frame);
        }
        // In large pages, as the hypervisor's own.
        self.map(self.virt_start(), self.start(), GROUP * PAGE)
    }

    /// The number of a page frame in the frame table and the direct map.
    pub(super) fn pdx(&self, frame: u64) -> u64 {
        match self.spec.compression {
            Compression::None => frame,
            Compression::Mask => {
                let (bottom, hole) = hole(&self.spec.ram);
                let low = frame & ((1 << bottom) - 1);
                low | frame >> (bottom + hole) << bottom
            }
            Compression::Offset => {
                let mut before = 0;
                for group in &self.groups {
                    if group.contains(&frame) {
                        return before + frame - group.start;
                    }
                    before += group.end - group.start;
                }
                u64::MAX >> 16
            }
        }
    }

    fn direct_map(&mut self) -> Result<(), SynthError> {
        let mut mapped = Vec::new();
        for group in self.groups.clone() {
            for first in group.step_by(GROUP as usize) {
                let frames = first..first + GROUP;
                let whole = frames.clone().all(|frame| self.spec.is_ram(frame));
                if whole && first != 0 {
                    mapped.push((first, GROUP));
                } else {
                    // The hypervisor does not map the first page, nor guard pages.
                    let pages = frames.filter(|frame| self.spec.is_ram(*frame) && *frame > 1);
                    mapped.extend(pages.map(|frame| (frame, 1)));
                }
            }
        }
        for (frame, len) in mapped {
            let address = self.direct_start() + self.pdx(frame) * PAGE;
            self.map(address, frame * PAGE, len * PAGE)?;
        }
        Ok(())
    }

    fn domains(&mut self) -> Result<Numbers, SynthError> {
        let owned = self.spec.owned.iter().map(|(_, owner)| *owner);
        let mut ids: Vec<u16> = owned
            .filter_map(|owner| match owner {
                XenOwner::Domain(id) => Some(id),
                _ => None,
            })
            .chain([0])
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let mut link = self.variable(0);
        let mut domains = Vec::new();
        for id in ids {
            let frame = self.struct_domain(id)?;
            let number = self.pdx(frame);
            self.memory.put64(link, self.address(frame));
            if id == 0 {
                self.dom0_domain = frame;
            }
            link = frame * PAGE + NEXT_IN_LIST;
            domains.push((id, number));
        }
        let xen = self.struct_domain(DOMID_XEN)?;
        let io = self.struct_domain(DOMID_IO)?;
        for (index, frame) in [(2, xen), (3, io)] {
            let address = self.address(frame);
            self.memory.put64(self.variable(index), address);
        }
        let stray = self.struct_domain(9)?;
        self.memory
            .put64(self.variable(1), self.frame_table_start());
        Ok(Numbers {
            domains,
            io: self.pdx(io),
            stray: self.pdx(stray),
        })
    }

    /// Allocates a page frame of the heap.
    pub(super) fn heap(&mut self) -> Result<u64, SynthError> {
        let frame = self.allocate()?;
        self.spec.owned.push((frame..frame + 1, XenOwner::Heap));
        Ok(frame)
    }

    fn struct_domain(&mut self, id: u16) -> Result<u64, SynthError> {
        let frame = self.heap()?;
        let at = frame * PAGE;
        self.memory.put(at + DOMAIN_ID, &id.to_le_bytes());
        let activity = self.spec.activities.get(&id).unwrap_or(&Activity::Runs);
        // The flags, the code, an event channel, pauses, and references.
        let members: [u32; 5] = match activity {
            Activity::Runs => [0, u32::MAX, 0, 0, 3],
            Activity::Paused => [0, u32::MAX, 0, 1, 3],
            Activity::Crashed => [0x101, 3, 5, 0, 2],
        };
        for (index, member) in members.into_iter().enumerate() {
            let member_at = at + SHUTDOWN + 4 * index as u64;
            self.memory.put(member_at, &member.to_le_bytes());
        }
        if id != 0 && id < DOMID_IO {
            let first = u128::from(id) << 112;
            let uuid = first | 0x4abc << 64 | 0x89ab_0123_4567_89ab;
            self.memory.put(at + HANDLE, &uuid.to_be_bytes());
        }
        Ok(frame)
    }
}

/// Returns the aligned ranges of page frames with RAM.
fn groups(spec: &Spec) -> Vec<Range<u64>> {
    let mut groups: Vec<Range<u64>> = Vec::new();
    for range in &spec.ram {
        let aligned = range.start / GROUP * GROUP..range.end.next_multiple_of(GROUP);
        match groups.last_mut() {
            Some(last) if last.end >= aligned.start => last.end = last.end.max(aligned.end),
            _ => groups.push(aligned),
        }
    }
    groups
}

/// Returns the first bit of the longest run of bits that no frame of RAM has, and its length.
fn hole(ram: &[Range<u64>]) -> (u32, u32) {
    let used = ram.iter().fold(0, |mask: u64, range| {
        let last = range.end - 1;
        let varying = u64::MAX >> (range.start ^ last).leading_zeros().min(63);
        let varying = if range.start == last { 0 } else { varying };
        mask | range.start | last | varying
    });
    let mut best = (MAX_ORDER, 0);
    let mut at = MAX_ORDER;
    while used >> at != 0 {
        let len = (used >> at).trailing_zeros();
        if len > best.1 {
            best = (at, len);
        }
        at += len + 1;
    }
    best
}
