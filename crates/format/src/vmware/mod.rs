//! VMware's saved state of a virtual machine (.vmss, .vmsn). The memory is in it, or in a file of
//! its own (.vmem); the state says where the memory's parts are (crash's vmware_vmss.c and
//! vmware_vmss.h).
//!
//! docs/formats/vmware.md has the layout.

mod registers;
mod tags;

use crate::address::PhysAddr;
use crate::bytes::{Endian, ReadAt};
use crate::error::FormatError;
use crate::image::{ADDRESS_LIMIT, ImageRange, ImageRanges, with_cut_page};
use registers::Cpus;
use tags::{Place, Tag, each_tag};

/// Magic numbers of states of 64 bits: complete, partial, restored, not to be restored.
const MAGICS: [u32; 4] = [0xbed2_bed2, 0xbed3_bed3, 0xbad1_bad1, 0xbad2_bad2];
/// Magic number of states of 32 bits.
const OLD_MAGIC: u32 = 0xbed0_bed0;
const HEADER_SIZE: u64 = 12;
/// Size of an entry of the list of groups, and of the name in it.
const GROUP_SIZE: usize = 80;
const NAME_SIZE: usize = 64;
const MAX_GROUPS: u32 = 4096;
/// Maximum number of memory regions.
const MAX_REGIONS: usize = 256;
const PAGE_SHIFT: u32 = 12;

/// Returns true if a file with these first bytes is a saved state.
pub fn is_vmware(front: &[u8]) -> bool {
    let magic = Endian::Little.u32(front, 0);
    magic.is_some_and(|magic| magic == OLD_MAGIC || MAGICS.contains(&magic))
}

/// A part of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Region {
    /// First page frame.
    frame: u64,
    /// Number of its first page in the memory.
    page: u64,
    /// Number of pages.
    pages: u64,
}

/// A saved state.
#[derive(Debug, Default)]
pub struct VmwareState {
    /// Offset and size of the memory, if it is in this file.
    memory: Option<(u64, u64)>,
    /// Number of regions as stated.
    count: usize,
    regions: Vec<Region>,
    cpus: Cpus,
    /// Bytes of the memory behind the end of the file.
    lost: u64,
}

impl VmwareState {
    /// Reads a saved state.
    pub fn read(file: &dyn ReadAt) -> Result<Self, FormatError> {
        let mut header = [0; HEADER_SIZE as usize];
        file.read_exact_at("the header of the saved state", 0, &mut header)?;
        let word = |at: usize| Endian::Little.u32(&header, at).unwrap_or(0);
        if !MAGICS.contains(&word(0)) {
            return Err(FormatError::unexpected(
                "the magic number of the saved state",
                0,
                "that of a state of 64 bits",
                format!("{:#x}", word(0)),
            ));
        }
        let count = word(8);
        if count > MAX_GROUPS {
            return Err(FormatError::unexpected(
                "the number of groups",
                8,
                format!("at most {MAX_GROUPS}"),
                count.to_string(),
            ));
        }
        let size = u64::from(count) * GROUP_SIZE as u64;
        let groups = file.read_vec_at("the groups", HEADER_SIZE, size)?;
        let mut state = Self::default();
        for group in groups.chunks_exact(GROUP_SIZE) {
            let name = group[..NAME_SIZE].split(|byte| *byte == 0).next();
            let at = Endian::Little.u64(group, NAME_SIZE).unwrap_or(0);
            match name {
                Some(b"memory") => {
                    each_tag(file, at, |tag| state.take_memory(&tag))?;
                }
                Some(b"cpu") => each_tag(file, at, |tag| state.cpus.take(file, &tag))?,
                _ => {}
            }
        }
        if let Some((offset, size)) = &mut state.memory {
            let there = file.size().saturating_sub(*offset);
            state.lost = size.saturating_sub(there);
            *size -= state.lost;
        }
        Ok(state)
    }

    /// The ranges of memory in this file, or in a file of `vmem` bytes beside it. `None` if the
    /// memory is in a file beside it, and none is given.
    pub fn ranges(&self, vmem: Option<u64>) -> Result<Option<ImageRanges>, FormatError> {
        let Some((start, size)) = self.memory.or(vmem.map(|size| (0, size))) else {
            return Ok(None);
        };
        if self.regions.is_empty() {
            let mut image = ImageRanges::from_zero(size);
            image.ranges[0].offset = start;
            image.ranges.retain(|range| range.size > 0);
            image.damage = cut(self.lost);
            return Ok(Some(image));
        }
        let mut image = ImageRanges::default();
        let mut lost = 0;
        for region in &self.regions {
            let physical = region.frame << PAGE_SHIFT;
            let whole = region.pages << PAGE_SHIFT;
            let offset = region.page << PAGE_SHIFT;
            let there = whole.min(size.saturating_sub(offset));
            lost += whole - there;
            if physical + whole > ADDRESS_LIMIT {
                return Err(FormatError::unexpected(
                    "a region of memory",
                    0,
                    format!("addresses below {ADDRESS_LIMIT:#x}"),
                    format!("{physical:#x} and {whole:#x} bytes"),
                ));
            }
            if there > 0 {
                image.ranges.push(ImageRange {
                    physical: PhysAddr(physical),
                    size: with_cut_page(there, whole),
                    offset: start + offset,
                });
            }
        }
        image.damage = cut(lost.max(self.lost));
        Ok(Some(image))
    }

    /// Returns true if the memory is in this file.
    pub fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// The registers of the CPUs, as notes.
    pub fn notes(&self) -> Vec<u8> {
        self.cpus.notes()
    }

    fn take_memory(&mut self, tag: &Tag<'_>) -> Result<(), FormatError> {
        let value = match tag.place {
            Place::Value(value) => value,
            Place::Block { offset, size } if tag.name == b"Memory" => {
                self.memory = Some((offset, size));
                return Ok(());
            }
            Place::Compressed { offset } if tag.name == b"Memory" => {
                return Err(FormatError::unexpected(
                    "the memory",
                    offset,
                    "memory that is not compressed",
                    "compressed memory, which is not read",
                ));
            }
            _ => return Ok(()),
        };
        let value = u64::from(value as u32);
        if tag.name == b"regionsCount" {
            self.count = (value as usize).min(MAX_REGIONS);
            self.regions.resize(self.count, Region::default());
            return Ok(());
        }
        let index = tag.indices[0] as usize;
        let set: fn(&mut Region) -> &mut u64 = match tag.name {
            b"regionPPN" => |region| &mut region.frame,
            b"regionPageNum" => |region| &mut region.page,
            b"regionSize" => |region| &mut region.pages,
            _ => return Ok(()),
        };
        // The count comes first.
        if let Some(region) = self.regions.get_mut(index) {
            *set(region) = value;
        }
        Ok(())
    }
}

/// Describes a memory that ends too early.
fn cut(lost: u64) -> Option<String> {
    (lost > 0).then(|| format!("{lost} bytes of the memory are behind its end: it is truncated"))
}
