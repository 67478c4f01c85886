//! The owner of each page frame, by the hypervisor's frame table.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::{PageFrame, PageFrameRange, VirtAddr};

use super::count_info::{self, State};
use super::host::Host;
use super::owner::{Census, Owner};
use crate::error::KernelError;
use crate::source::{IoMethod, PageReader, SECTION_FRAMES};

/// Bytes of the frame table read at once.
const RUN: usize = 256 << 10;
/// Bytes read at once where a part of the frame table is missing.
const PAGE: usize = 4096;

/// Receives consecutive page frames of one owner.
pub type SeeOwner<'v> = dyn FnMut(PageFrameRange, Owner) + 'v;

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
            let len = count as usize * size;
            let address = self.frame_table().entry(run.index);
            at = run.frame + count;
            let read = if PAGE.is_multiple_of(size) {
                self.run(reader, address, len)
            } else {
                let entries = &mut entries[..len];
                self.fill(reader, address, entries).map(|()| &*entries)
            };
            match read {
                Ok(bytes) => {
                    at = run.frame + (bytes.len() / size) as u64;
                    self.see_entries(run.frame, bytes, see);
                }
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
        let table = self.frame_table();
        let mut run: Option<(u64, Owner)> = None;
        let mut at = frame;
        // Most entries have the owner of the one before.
        let mut known = None;
        for entry in entries.chunks_exact(table.size) {
            let says = (count_info::flags(table.count(entry)), table.owner(entry));
            let owner = match known {
                Some((before, owner)) if before == says => owner,
                _ => self.owner_of(says.0, says.1),
            };
            known = Some((says, owner));
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

    /// Returns the owner by the flags in count_info, and the number in _domain.
    fn owner_of(&self, flags: u64, number: u64) -> Owner {
        match self.frame_table().layout.state(flags) {
            State::Broken => Owner::Broken,
            State::Free => Owner::Free,
            State::Offlined => Owner::Offlined,
            State::Hypervisor => Owner::Hypervisor,
            State::Allocated => match number {
                0 => Owner::Hypervisor,
                number => self.owner(number).unwrap_or(Owner::Unknown),
            },
        }
    }

    /// Returns the whole entries, at least one, of the `len` bytes of the frame table at an address
    /// that are mapped in one piece. Page tables come from the page cache, the rest from `reader`,
    /// so that helpers do not wait for each other.
    fn run<'r>(
        &self,
        reader: &'r mut dyn PageReader,
        address: VirtAddr,
        len: usize,
    ) -> Result<&'r [u8], KernelError> {
        let size = self.frame_table().size;
        let leaf = self.translate(address)?;
        let leaf = leaf.ok_or_else(|| not_mapped(address))?;
        let offset = (leaf.physical.0 % PAGE as u64) as usize;
        let wanted = leaf.len.min(len as u64) as usize;
        let frame = leaf.physical.page_frame(12);
        let pages = reader.pages(frame, (offset + wanted).div_ceil(PAGE))?;
        let bytes = pages.get(offset..).unwrap_or_default();
        match bytes.len().min(wanted) / size {
            0 => Err(not_mapped(address)),
            whole => Ok(&bytes[..whole * size]),
        }
    }

    /// Fills `buf` from an address of the frame table, whose entries may lie across pages.
    fn fill(
        &self,
        reader: &mut dyn PageReader,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError> {
        let mut done = 0;
        while done < buf.len() {
            let at = VirtAddr(address.0.wrapping_add(done as u64));
            let leaf = self.translate(at)?.ok_or_else(|| not_mapped(at))?;
            let offset = (leaf.physical.0 % PAGE as u64) as usize;
            let wanted = leaf.len.min((buf.len() - done) as u64) as usize;
            let frame = leaf.physical.page_frame(12);
            let pages = reader.pages(frame, (offset + wanted).div_ceil(PAGE))?;
            let bytes = pages.get(offset..).unwrap_or_default();
            let len = bytes.len().min(wanted);
            if len == 0 {
                return Err(not_mapped(at));
            }
            buf[done..done + len].copy_from_slice(&bytes[..len]);
            done += len;
        }
        Ok(())
    }
}

fn not_mapped(address: VirtAddr) -> KernelError {
    KernelError::XenHost {
        reason: format!("hypervisor address {address} (the frame table) is not mapped"),
    }
}

// The page size of x86-64, the only architecture of Xen hosts with kexec.
const _: () = assert!(PAGE == 1 << 12);
