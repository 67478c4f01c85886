//! Mappings of segments in this process's address space.

use std::ptr;

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::param::page_size;

use super::backing::{Backing, HUGE_SHIFT};
use super::{Huge, system};
use crate::huge::{huge_page_size, reserve};
use crate::mapping;
use crate::operation::advise;
use crate::region::Region;

/// A mapping, removed on drop.
#[derive(Debug)]
pub struct Mapped {
    region: Region,
    by: MappedBy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MappedBy {
    Attach,
    Map,
}

impl Mapped {
    /// Maps all `bytes` bytes of `backing` for reading and writing.
    pub fn new(backing: &Backing, bytes: usize, huge: Huge) -> Result<Self, Errno> {
        let mapped = match backing {
            Backing::SystemV { id, .. } => Self::attach(*id, bytes, huge, 0)?,
            Backing::Anonymous => Self::anonymous(bytes, huge)?,
            Backing::Files { files, each, .. } => {
                let protection = ProtFlags::READ | ProtFlags::WRITE;
                Self::files(files, bytes, *each, huge, protection)?
            }
        };
        if huge == Huge::Never {
            // For systems that use huge pages for all programs. Kernels without huge pages
            // refuse this.
            let _ = advise(mapped.region, Advice::LinuxNoHugepage);
        }
        Ok(mapped)
    }

    /// Attaches a System V segment.
    pub fn attach(id: i32, bytes: usize, huge: Huge, flags: i32) -> Result<Self, Errno> {
        let length = bytes
            .checked_next_multiple_of(page_size())
            .ok_or(Errno::NOMEM)?;
        let address = system::shmat(id, None, flags)?;
        let by = MappedBy::Attach;
        let region = Region::new(address, length).ok_or(Errno::NOMEM)?;
        let first = Self { region, by };
        // The kernel attaches whole pages, and does not report their size if they come from a
        // pool: the mapping would extend beyond the reserved range.
        let is_whole = mapping::at(address).is_some_and(|mapping| mapping.region == region);
        let reserved = is_whole.then(|| aligned(length, huge)).flatten();
        let Some(reserved) = reserved else {
            return Ok(first);
        };
        match system::shmat(id, Some(reserved), flags) {
            Ok(_) => Ok(Self {
                region: reserved,
                by,
            }),
            Err(_) => {
                unmap(reserved);
                Ok(first)
            }
        }
    }

    /// Maps `length` bytes of a file for reading.
    pub fn read_only(file: impl AsFd, offset: u64, length: usize) -> Result<Self, Errno> {
        // SAFETY: creates a new mapping at an address that the kernel chooses.
        let address = unsafe {
            mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                offset,
            )?
        };
        Self::of(address.addr(), length)
    }

    fn of(address: usize, length: usize) -> Result<Self, Errno> {
        let region = Region::new(address, length).ok_or(Errno::NOMEM)?;
        let by = MappedBy::Map;
        Ok(Self { region, by })
    }

    fn anonymous(bytes: usize, huge: Huge) -> Result<Self, Errno> {
        let mut flags = MapFlags::PRIVATE;
        if let Huge::Pool(size) = huge {
            let size = size.trailing_zeros() << HUGE_SHIFT;
            flags |= MapFlags::HUGETLB | MapFlags::from_bits_retain(size);
        }
        let reserved = aligned(bytes, huge);
        if reserved.is_some() {
            flags |= MapFlags::FIXED;
        }
        let at = reserved.map_or(ptr::null_mut(), Region::pointer);
        // SAFETY: the address is chosen by the kernel, or within the range reserved for this
        // mapping.
        let mapped =
            unsafe { mmap_anonymous(at, bytes, ProtFlags::READ | ProtFlags::WRITE, flags) };
        if let (Err(_), Some(reserved)) = (&mapped, reserved) {
            unmap(reserved);
        }
        Self::of(mapped?.addr(), bytes)
    }

    /// Maps files one after the other, each of `each` bytes except the last.
    pub fn files(
        files: &[impl AsFd],
        bytes: usize,
        each: usize,
        huge: Huge,
        protection: ProtFlags,
    ) -> Result<Self, Errno> {
        let reserved = match files {
            // The kernel itself aligns pages of a pool.
            [_] => aligned(bytes, huge),
            _ => Some(reserve(bytes.next_multiple_of(page_size()))?),
        };
        let guard = reserved.map(|region| Self {
            region,
            by: MappedBy::Map,
        });
        let mut first = None;
        for (number, file) in files.iter().enumerate() {
            let start = number * each;
            let length = bytes.saturating_sub(start).min(each);
            let fixed = reserved.map_or(MapFlags::empty(), |_| MapFlags::FIXED);
            let at = reserved.map_or(ptr::null_mut(), |reserved| {
                reserved.pointer().wrapping_byte_add(start)
            });
            // SAFETY: the address is chosen by the kernel, or within the range reserved for
            // this mapping.
            let mapped =
                unsafe { mmap(at, length, protection, MapFlags::SHARED | fixed, file, 0)? };
            first.get_or_insert(mapped.addr());
        }
        std::mem::forget(guard);
        Self::of(first.ok_or(Errno::INVAL)?, bytes)
    }

    pub fn region(&self) -> Region {
        self.region
    }

    /// Unmaps the memory, and returns the result.
    pub fn end(self) -> Result<(), Errno> {
        let region = self.region;
        let by = self.by;
        std::mem::forget(self);
        match by {
            MappedBy::Attach => system::shmdt(region),
            // SAFETY: the region belongs to this mapping, and is no longer in use.
            MappedBy::Map => unsafe { munmap(region.pointer(), region.length()) },
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        match self.by {
            MappedBy::Attach => drop(system::shmdt(self.region)),
            MappedBy::Map => unmap(self.region),
        }
    }
}

/// Reserves addresses where huge pages can be mapped, if huge pages are allowed and the memory
/// is large enough.
fn aligned(bytes: usize, huge: Huge) -> Option<Region> {
    let wanted = huge == Huge::Auto && bytes >= huge_page_size();
    wanted
        .then(|| reserve(bytes.checked_next_multiple_of(page_size())?).ok())
        .flatten()
}

fn unmap(region: Region) {
    // SAFETY: the caller mapped the region, and it is no longer in use.
    let _ = unsafe { munmap(region.pointer(), region.length()) };
}
