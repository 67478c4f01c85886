//! The owner of each page frame, by the hypervisor's frame table.

use std::fmt;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, PageFrameRange, VirtAddr};

use super::count_info::State;
use super::host::Host;
use crate::error::KernelError;
use crate::source::{IoMethod, PageReader, SECTION_FRAMES};

/// Bytes of the frame table read at once.
const RUN: usize = 256 << 10;
/// Bytes read at once where a part of the frame table is missing.
const PAGE: usize = 4096;

/// The owner of a page frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The hypervisor: its image, its heap, and memory such as the first 640 KiB that it keeps
    /// for itself (dom_xen and dom_io).
    Hypervisor,
    /// The privileged domain.
    Dom0,
    /// Another domain.
    Domain(u16),
    /// Nobody: the hypervisor's free memory.
    Free,
    /// Nobody: taken out of use.
    Offlined,
    /// Nobody: broken memory, which must not be read.
    Broken,
    /// Not known: the frame table does not describe it, or names an owner that is not in the
    /// list of domains.
    Unknown,
}

/// The owners whose page frames a dump keeps. Those with unknown owner are always kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owners {
    /// The hypervisor.
    pub hypervisor: bool,
    /// Dom0.
    pub dom0: bool,
    /// All other domains, and memory without owner.
    pub others: bool,
}

impl Owners {
    /// Everything.
    pub const ALL: Self = Self {
        hypervisor: true,
        dom0: true,
        others: true,
    };
    /// What makedumpfile's -X keeps.
    pub const WITHOUT_GUESTS: Self = Self {
        others: false,
        ..Self::ALL
    };

    /// Returns true if a dump has the page frames of `owner`.
    pub(crate) fn keeps(self, owner: Owner) -> bool {
        match owner {
            Owner::Hypervisor => self.hypervisor,
            Owner::Dom0 => self.dom0,
            Owner::Domain(_) | Owner::Free | Owner::Offlined => self.others,
            Owner::Broken => false,
            Owner::Unknown => true,
        }
    }
}

impl Default for Owners {
    fn default() -> Self {
        Self::ALL
    }
}

/// Receives consecutive page frames of one owner.
pub type SeeOwner<'v> = dyn FnMut(PageFrameRange, Owner) + 'v;

/// Page frames of RAM by owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// The owners, in order, and the number of page frames of each.
    pub owners: Vec<(Owner, u64)>,
    /// Entries of the frame table that cannot be read.
    pub unreadable: u64,
}

impl Census {
    /// Returns the number of page frames of `owner`.
    pub fn of(&self, owner: Owner) -> u64 {
        let found = self.owners.iter().find(|(other, _)| *other == owner);
        found.map_or(0, |(_, count)| *count)
    }

    fn add(&mut self, owner: Owner, count: u64) {
        if count == 0 {
            return;
        }
        match self
            .owners
            .binary_search_by_key(&owner, |(other, _)| *other)
        {
            Ok(at) => self.owners[at].1 += count,
            Err(at) => self.owners.insert(at, (owner, count)),
        }
    }
}

impl Host<'_> {
    /// Passes the owners of the page frames of the section at `first` to `see`, in ascending
    /// order; returns the number of entries of the frame table that cannot be read, whose frames
    /// are not passed, like those that the frame table does not describe.
    ///
    /// # Errors
    /// The source fails as a whole.
    pub fn see_owners(
        &self,
        reader: &mut dyn PageReader,
        first: PageFrame,
        see: &mut SeeOwner<'_>,
    ) -> Result<u64, KernelError> {
        let size = self.frame_table().size;
        let end = first.0.saturating_add(SECTION_FRAMES);
        let (mut at, mut unreadable) = (first.0, 0);
        let mut entries = vec![0; RUN / size * size];
        // After a failure the rest of the run is read in smaller pieces.
        let mut small_until = at;
        while let Some(run) = self.direct_map().run_at(at).filter(|run| run.frame < end) {
            let wanted = run.len.min(end - run.frame);
            let most = if run.frame < small_until { PAGE } else { RUN };
            let count = wanted.min((most / size) as u64);
            let bytes = &mut entries[..count as usize * size];
            let address = self.frame_table().entry(run.index);
            at = run.frame + count;
            match self.fill(reader, address, bytes) {
                Ok(()) => self.see_entries(run.frame, bytes, see),
                Err(KernelError::Source(error)) if !error.is_one_page() => {
                    return Err(error.into());
                }
                Err(_) if most == RUN && count > (PAGE / size) as u64 => {
                    (at, small_until) = (run.frame, at);
                }
                Err(_) => unreadable += count,
            }
        }
        Ok(unreadable)
    }

    /// Counts the page frames of RAM by owner.
    ///
    /// # Errors
    /// The source fails as a whole.
    pub fn census(&self) -> Result<Census, KernelError> {
        let source = self.memory().source();
        let mut reader = source.reader(IoMethod::Auto);
        let mut ram = Bitmap::new(SECTION_FRAMES as usize);
        let mut census = Census::default();
        for first in source.sections() {
            source.ram(first, &mut ram)?;
            let mut known = 0;
            census.unreadable += {
                let mut see = |frames: PageFrameRange, owner| {
                    let bit = |frame: PageFrame| (frame.0 - first.0) as usize;
                    let before = ram.count_before(bit(frames.start));
                    let count = ram.count_before(bit(frames.end)) - before;
                    known += count;
                    census.add(owner, count);
                };
                self.see_owners(reader.as_mut(), first, &mut see)?
            };
            census.add(Owner::Unknown, ram.count() - known);
        }
        Ok(census)
    }

    /// Passes the owners that `entries` name, the first of which describes `frame`.
    fn see_entries(&self, frame: u64, entries: &[u8], see: &mut SeeOwner<'_>) {
        let mut run: Option<(u64, Owner)> = None;
        let mut at = frame;
        for entry in entries.chunks_exact(self.frame_table().size) {
            let owner = self.owner_of(entry);
            if run.is_none_or(|(_, last)| last != owner) {
                if let Some((start, last)) = run {
                    see(PageFrameRange::new(start, at), last);
                }
                run = Some((at, owner));
            }
            at += 1;
        }
        if let Some((start, last)) = run {
            see(PageFrameRange::new(start, at), last);
        }
    }

    /// Returns the owner that an entry of the frame table names.
    fn owner_of(&self, entry: &[u8]) -> Owner {
        let table = self.frame_table();
        match table.layout.state(table.count(entry)) {
            State::Broken => Owner::Broken,
            State::Free => Owner::Free,
            State::Offlined => Owner::Offlined,
            State::Hypervisor => Owner::Hypervisor,
            State::Allocated => match table.owner(entry) {
                0 => Owner::Hypervisor,
                number => self.owner(number).unwrap_or(Owner::Unknown),
            },
        }
    }

    /// Fills `buf` from a hypervisor address. Page tables come from the page cache, the rest
    /// from `reader`, so that helpers do not wait for each other.
    fn fill(
        &self,
        reader: &mut dyn PageReader,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError> {
        let mut done = 0;
        while done < buf.len() {
            let at = VirtAddr(address.0.wrapping_add(done as u64));
            let not_mapped = || KernelError::XenHost {
                reason: format!("hypervisor address {at} (the frame table) is not mapped"),
            };
            let leaf = self.translate(at)?.ok_or_else(not_mapped)?;
            let offset = (leaf.physical.0 % PAGE as u64) as usize;
            let wanted = leaf.len.min((buf.len() - done) as u64) as usize;
            let frame = leaf.physical.page_frame(12);
            let pages = reader.pages(frame, (offset + wanted).div_ceil(PAGE))?;
            let bytes = pages.get(offset..).unwrap_or_default();
            let len = bytes.len().min(wanted);
            if len == 0 {
                return Err(not_mapped());
            }
            buf[done..done + len].copy_from_slice(&bytes[..len]);
            done += len;
        }
        Ok(())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hypervisor => "hypervisor",
            Self::Dom0 => "dom0",
            Self::Domain(id) => return write!(f, "domain {id}"),
            Self::Free => "free",
            Self::Offlined => "offlined",
            Self::Broken => "broken",
            Self::Unknown => "unknown",
        })
    }
}

// The page size of x86-64, the only architecture of Xen hosts with kexec.
const _: () = assert!(PAGE == 1 << 12);
