//! The page frames of dom0 in the machine, and the page frames of the machine in dom0.
//!
//! A paravirtual domain numbers its memory from 0 on (pseudo-physical page frames). Two tables
//! lead to the machine and back: p2m, which the domain keeps, and m2p, which the hypervisor keeps
//! for all domains. A pair counts only if both have it, so each machine frame is at most one page
//! frame of the domain, whatever damaged tables say.

use bigiron_format::{PageFrame, VirtAddr};

use super::direct_map::DirectMap;
use super::frame_table::FrameTable;
use super::host::Host;
use super::owner::Owner;
use super::p2m::{self, ENTRIES, P2m};
use super::space::Space;
use super::type_info::TypeLayout;
use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;
use crate::source::{IoMethod, MemorySource};

/// Start of m2p, of which entry n is about machine frame n, without compression of holes
/// (RO_MPT_VIRT_START, xen/arch/x86/include/asm/config.h).
const M2P: VirtAddr = VirtAddr(0xffff_8000_0000_0000);
/// Maximum number of machine frames with an entry (MACH2PHYS_VIRT_END).
const M2P_FRAMES: u64 = 1 << 35;
/// Pages of dom0 that are looked at for the layout of type_info.
const TYPE_SAMPLES: u64 = 4096;
/// Pages cached for lookups.
const CACHE_PAGES: usize = 64;
/// Bytes of a page.
const PAGE: usize = 4096;

/// A page whose type cannot be read.
const UNKNOWN: u8 = u8::MAX;

/// dom0's page frames and those of the machine, and which of them are page tables.
#[derive(Clone, Debug)]
pub struct DomainFrames {
    space: Space,
    direct_map: DirectMap,
    frame_table: FrameTable,
    p2m: P2m,
    types: TypeLayout,
}

impl DomainFrames {
    /// Finds those of dom0.
    ///
    /// # Errors
    /// dom0 is not paravirtual, or its table of frames cannot be read.
    pub fn of_dom0(host: &Host) -> Result<Self, KernelError> {
        let Some(root) = host.crash_info().dom0_frame_lists else {
            return Err(KernelError::XenHost {
                reason: "dom0 has no table of its page frames (p2m), so that it cannot be told \
                         from the machine: it is no paravirtual domain (PV) but a PVH one, whose \
                         memory is behind tables of the hypervisor that no note leads to; its \
                         pages can be dumped by owner (--xen hypervisor,dom0 -d 17)"
                    .into(),
            });
        };
        let frame_table = *host.frame_table();
        if !frame_table.has_type_info() {
            return Err(KernelError::XenHost {
                reason: "struct page_info has an unknown layout: _domain is not the second word \
                         behind count_info, so that page tables of dom0 are not recognised"
                    .into(),
            });
        }
        let mut found = Self {
            space: host.space().clone(),
            direct_map: host.direct_map().clone(),
            frame_table,
            p2m: P2m::read(root, host.memory())?,
            types: TypeLayout::of(std::iter::empty()),
        };
        if found.p2m.end() == 0 {
            return Err(KernelError::XenHost {
                reason: "dom0's table of page frames (p2m) has no page frame".into(),
            });
        }
        found.types = found.find_types(host)?;
        Ok(found)
    }

    /// The page frame behind dom0's last one.
    pub(crate) fn end(&self) -> u64 {
        self.p2m.end()
    }

    /// Returns true if some of dom0's page frames in this range may be RAM.
    pub(crate) fn has_ram(&self, frames: std::ops::Range<u64>) -> bool {
        self.p2m.has_ram(frames)
    }

    /// Finds the layout of type_info by a sample of dom0's pages.
    fn find_types(&self, host: &Host) -> Result<TypeLayout, KernelError> {
        let mut entry = vec![0; self.frame_table.size];
        let mut types = Vec::new();
        let step = (self.end() / TYPE_SAMPLES / ENTRIES).max(1);
        for index in (0..self.end().div_ceil(ENTRIES)).step_by(step as usize) {
            let frames = self.p2m.leaf(index, host.memory())?.unwrap_or_default();
            for machine in frames.iter().step_by(16).copied() {
                let run = self.direct_map.run_at(machine);
                let Some(run) = run.filter(|run| run.frame == machine) else {
                    continue;
                };
                let at = self.frame_table.entry(run.index);
                let space = &self.space;
                match space.read(host.memory(), "struct page_info", at, &mut entry) {
                    Ok(()) if host.owner(self.frame_table.owner(&entry)) == Some(Owner::Dom0) => {
                        types.push(self.frame_table.type_info(&entry));
                    }
                    Err(KernelError::Source(error)) if !error.is_one_page() => {
                        return Err(error.into());
                    }
                    _ => {}
                }
            }
            if types.len() as u64 >= TYPE_SAMPLES {
                break;
            }
        }
        Ok(TypeLayout::of(types.into_iter()))
    }
}

/// Looks page frames up, for one thread.
pub(crate) struct Lookup<'a> {
    frames: &'a DomainFrames,
    memory: PhysicalMemory<'a>,
    /// The page of p2m that was used last, by its index.
    leaf: Option<(u64, Option<Vec<u64>>)>,
    /// The same for m2p, and whether it can be read.
    m2p: Option<(u64, Vec<u64>)>,
    /// Levels of page tables of consecutive machine frames, from the first on.
    levels: (u64, Vec<u8>),
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(
        frames: &'a DomainFrames,
        source: &'a dyn MemorySource,
        io: IoMethod,
    ) -> Self {
        Self {
            frames,
            memory: PhysicalMemory::new(source, io, CACHE_PAGES),
            leaf: None,
            m2p: None,
            levels: (0, Vec::new()),
        }
    }

    /// Returns the machine frames of consecutive page frames of dom0 from `frame` on, as p2m has
    /// them: at most `most`, and at least one if `frame` is RAM.
    pub(crate) fn machine_run(&mut self, frame: u64, most: u64) -> Result<Vec<u64>, SourceError> {
        let Some(leaf) = self.leaf(frame / ENTRIES)? else {
            return Ok(Vec::new());
        };
        let rest = leaf.get((frame % ENTRIES) as usize..).unwrap_or_default();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let ram = rest.iter().take(most).take_while(|at| !p2m::is_none(**at));
        Ok(ram.copied().collect())
    }

    /// Returns dom0's page frame at a machine frame; `None` if it has none there.
    pub(crate) fn frame_of(&mut self, machine: u64) -> Result<Option<u64>, SourceError> {
        let Some(frame) = self.claimed_frame(machine)? else {
            return Ok(None);
        };
        let leaf = self.leaf(frame / ENTRIES)?;
        let back = leaf.and_then(|leaf| leaf.get((frame % ENTRIES) as usize));
        Ok((back == Some(&machine)).then_some(frame))
    }

    /// Returns dom0's page frame at a machine frame according to m2p.
    pub(crate) fn claimed_frame(&mut self, machine: u64) -> Result<Option<u64>, SourceError> {
        if machine >= M2P_FRAMES {
            return Ok(None);
        }
        let group = machine / ENTRIES;
        if self.m2p.as_ref().is_none_or(|(at, _)| *at != group) {
            self.m2p = None;
            let address = VirtAddr(M2P.0 + group * PAGE as u64);
            let leaf = self.frames.space.translate(&self.memory, address)?;
            let mut bytes = [0; PAGE];
            let mut words = Vec::new();
            if let Some(leaf) = leaf {
                self.memory.read(leaf.physical, &mut bytes)?;
                let (chunks, _) = bytes.as_chunks::<8>();
                words.extend(chunks.iter().map(|word| u64::from_le_bytes(*word)));
            }
            self.m2p = Some((group, words));
        }
        let words = self.m2p.as_ref().map(|(_, words)| words);
        let frame = words.and_then(|words| words.get((machine % ENTRIES) as usize).copied());
        Ok(frame.filter(|frame| *frame < self.frames.end()))
    }

    /// Returns true if the machine frame is RAM that the hypervisor knows.
    fn is_ram(&self, machine: u64) -> bool {
        let run = self.frames.direct_map.run_at(machine);
        run.is_some_and(|run| run.frame == machine)
    }

    /// Returns the level of page tables of a machine frame, 0 if it is none.
    ///
    /// # Errors
    /// Its entry of the frame table cannot be read.
    pub(crate) fn table_level(&mut self, machine: u64) -> Result<u8, SourceError> {
        let inside = |(start, levels): &(u64, Vec<u8>)| {
            let at = machine.checked_sub(*start)?;
            levels.get(usize::try_from(at).ok()?).copied()
        };
        let level = match inside(&self.levels) {
            Some(level) => level,
            None => {
                self.read_levels(machine)?;
                inside(&self.levels).unwrap_or(UNKNOWN)
            }
        };
        if level != UNKNOWN {
            return Ok(level);
        }
        Err(SourceError::Unknown {
            frame: PageFrame(machine),
            reason: "its entry of the hypervisor's frame table is missing, so that it may be a \
                     page table, whose entries have other page frames",
        })
    }

    /// Reads the levels of the machine frames from `machine` on that one page of the frame table
    /// describes.
    fn read_levels(&mut self, machine: u64) -> Result<(), SourceError> {
        let table = &self.frames.frame_table;
        let run = self.frames.direct_map.run_at(machine);
        let Some(run) = run.filter(|run| run.frame == machine) else {
            self.levels = (machine, vec![UNKNOWN]);
            return Ok(());
        };
        let address = table.entry(run.index);
        let rest = PAGE - (address.0 % PAGE as u64) as usize;
        let count = run.len.min((rest / table.size).max(1) as u64) as usize;
        let mut entries = vec![0; count * table.size];
        let space = &self.frames.space;
        let read = space.read(&self.memory, "struct page_info", address, &mut entries);
        let levels = match read {
            Ok(()) => {
                let entries = entries.chunks_exact(table.size);
                let level = |entry| self.frames.types.table_level(table.type_info(entry));
                entries.map(level).collect()
            }
            Err(KernelError::Source(error)) if !error.is_one_page() => return Err(error),
            Err(_) => vec![UNKNOWN; count],
        };
        self.levels = (machine, levels);
        Ok(())
    }

    /// Replaces the machine frames in a page table of `level` by dom0's, as a kernel without Xen
    /// has them. What is not dom0's is no longer mapped, except memory of devices, which has the
    /// same address for all.
    pub(crate) fn rewrite(&mut self, level: u8, table: &mut [u8]) -> Result<(), SourceError> {
        const PRESENT: u64 = 1;
        const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
        let (entries, _) = table.as_chunks_mut::<8>();
        for bytes in entries {
            let entry = u64::from_le_bytes(*bytes);
            if entry & PRESENT == 0 {
                continue;
            }
            let machine = (entry & ADDRESS) >> 12;
            let new = match self.frame_of(machine)? {
                Some(frame) => entry & !ADDRESS | frame << 12,
                None if level == 1 && !self.is_ram(machine) => entry,
                None => entry & !PRESENT,
            };
            *bytes = new.to_le_bytes();
        }
        Ok(())
    }

    fn leaf(&mut self, index: u64) -> Result<Option<&Vec<u64>>, SourceError> {
        if self.leaf.as_ref().is_none_or(|(at, _)| *at != index) {
            self.leaf = None;
            let leaf = self.frames.p2m.leaf(index, &self.memory)?;
            self.leaf = Some((index, leaf));
        }
        Ok(self.leaf.as_ref().and_then(|(_, leaf)| leaf.as_ref()))
    }
}

// Entries of dom0's page tables and of the hypervisor's are of x86-64.
const _: () = assert!(PAGE == 8 * ENTRIES as usize);
