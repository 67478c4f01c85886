//! The memory of a trial: segments, memfds and anonymous memory. It is released on drop, also
//! after an error.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use bigiron_memory::{Region, huge};

use super::method::Memory;

/// Converts the status of a libc call into a result; -1 is an error.
fn check<T: PartialEq + From<i8>>(status: T) -> io::Result<T> {
    if status == T::from(-1_i8) {
        Err(io::Error::last_os_error())
    } else {
        Ok(status)
    }
}

/// A System V segment of this process.
#[derive(Debug)]
pub(super) struct Segment {
    pub id: i32,
    at: Option<Region>,
    removed: AtomicBool,
}

impl Segment {
    fn create(length: usize, hugetlb: bool) -> anyhow::Result<Self> {
        let flags = libc::IPC_CREAT | 0o600 | if hugetlb { libc::SHM_HUGETLB } else { 0 };
        // SAFETY: creates a new segment.
        let id = check(unsafe { libc::shmget(libc::IPC_PRIVATE, length, flags) })
            .with_context(|| format!("shmget of {} MiB", length >> 20))?;
        Ok(Self {
            id,
            at: None,
            removed: AtomicBool::new(false),
        })
    }

    /// Attaches the segment at an address chosen by the kernel, or over reserved addresses.
    fn attach(&mut self, length: usize, over: Option<Region>) -> anyhow::Result<Region> {
        let (address, flags) = over.map_or((ptr::null_mut(), 0), |region| {
            (region.pointer(), libc::SHM_REMAP)
        });
        // SAFETY: the addresses are free, or reserved for this segment.
        let at = unsafe { libc::shmat(self.id, address, flags) };
        check(at.addr() as isize).context("shmat")?;
        let region = Region::new(at.expose_provenance(), length)
            .context("shmat: the region exceeds the address space")?;
        self.at = Some(region);
        Ok(region)
    }

    fn shm_lock(&self) -> anyhow::Result<()> {
        // SAFETY: sets a flag of the segment.
        check(unsafe { libc::shmctl(self.id, libc::SHM_LOCK, ptr::null_mut()) })
            .context("shmctl(SHM_LOCK)")?;
        Ok(())
    }

    fn detach(&mut self) -> io::Result<()> {
        if let Some(region) = self.at.take() {
            // SAFETY: the segment is attached there and no longer used.
            check(unsafe { libc::shmdt(region.pointer()) })?;
        }
        Ok(())
    }

    /// Removes the segment. Callable from a bare thread.
    pub fn remove(&self) -> io::Result<()> {
        if !self.removed.swap(true, Ordering::Relaxed) {
            // SAFETY: the segment belongs to `self`.
            check(unsafe { libc::shmctl(self.id, libc::IPC_RMID, ptr::null_mut()) })?;
        }
        Ok(())
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let _ = self.detach();
        let _ = self.remove();
    }
}

/// The memory of a trial.
#[derive(Debug)]
pub(super) struct Held {
    pub region: Region,
    pub segments: Vec<Segment>,
    file: Option<OwnedFd>,
    /// Addresses to unmap on drop; `None` for segments, which are detached instead.
    mapped: Option<Region>,
}

impl Held {
    /// Opens memory of `size` bytes: objects and addresses, without pages. `aligned` reserves
    /// addresses aligned to huge pages instead of leaving the choice to the kernel.
    pub fn open(memory: Memory, size: usize, aligned: bool) -> anyhow::Result<Self> {
        let over = aligned.then(|| huge::reserve(size)).transpose();
        let over = over.context("no free address range")?;
        let mut held = Self {
            region: over.unwrap_or_default(),
            segments: Vec::new(),
            file: None,
            mapped: over,
        };
        match memory {
            Memory::Segment | Memory::Hugetlb => {
                let mut segment = Segment::create(size, memory == Memory::Hugetlb)?;
                held.region = segment.attach(size, over)?;
                held.segments.push(segment);
                held.mapped = None;
            }
            Memory::Striped(stripes) => held.attach_stripes(size, stripes)?,
            Memory::Memfd => {
                let file = memfd(size)?;
                held.map(size, libc::MAP_SHARED, over, Some(file.as_raw_fd()))?;
                held.file = Some(file);
            }
            Memory::Anonymous => {
                held.map(size, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, over, None)?;
            }
        }
        Ok(held)
    }

    /// Opens a memfd that `mmap` populates (MAP_POPULATE).
    pub fn populated_memfd(size: usize) -> anyhow::Result<Self> {
        let file = memfd(size)?;
        let mut held = Self {
            region: Region::default(),
            segments: Vec::new(),
            file: None,
            mapped: None,
        };
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        held.map(size, flags, None, Some(file.as_raw_fd()))?;
        held.file = Some(file);
        Ok(held)
    }

    fn attach_stripes(&mut self, size: usize, stripes: usize) -> anyhow::Result<()> {
        let region = match self.mapped {
            Some(region) => region,
            None => huge::reserve(size).context("no free address range")?,
        };
        (self.region, self.mapped) = (region, Some(region));
        let each = size / stripes;
        for stripe in 0..stripes {
            let mut segment = Segment::create(each, false)?;
            let over = Region::new(region.start() + stripe * each, each);
            segment.attach(each, over)?;
            self.segments.push(segment);
        }
        // The segments cover the whole range, and each detaches its part.
        self.mapped = None;
        Ok(())
    }

    fn map(
        &mut self,
        size: usize,
        flags: i32,
        over: Option<Region>,
        file: Option<RawFd>,
    ) -> anyhow::Result<()> {
        let (address, fixed) = over.map_or((ptr::null_mut(), 0), |region| {
            (region.pointer(), libc::MAP_FIXED)
        });
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the addresses are free, or reserved for this mapping.
        let at = unsafe { libc::mmap(address, size, access, flags | fixed, file.unwrap_or(-1), 0) };
        check(at.addr() as isize).with_context(|| format!("mmap of {} MiB", size >> 20))?;
        let region = Region::new(at.expose_provenance(), size)
            .context("mmap: the region exceeds the address space")?;
        (self.region, self.mapped) = (region, Some(region));
        Ok(())
    }

    /// Calls SHM_LOCK for all segments.
    pub fn shm_lock(&self) -> anyhow::Result<()> {
        self.segments.iter().try_for_each(Segment::shm_lock)
    }

    /// Calls `mlock` for the whole region.
    pub fn mlock(&self) -> anyhow::Result<()> {
        // SAFETY: does not change contents.
        check(unsafe { libc::mlock(self.region.pointer(), self.region.length()) })
            .context("mlock")?;
        Ok(())
    }

    /// Calls `mlock2(MLOCK_ONFAULT)` for the whole region.
    pub fn mlock_on_fault(&self) -> anyhow::Result<()> {
        let (pointer, length) = (self.region.pointer(), self.region.length());
        // SAFETY: does not change contents.
        check(unsafe { libc::mlock2(pointer, length, libc::MLOCK_ONFAULT as libc::c_uint) })
            .context("mlock2(MLOCK_ONFAULT)")?;
        Ok(())
    }

    /// Calls `munlock` for the whole region.
    pub fn munlock(&self) -> anyhow::Result<()> {
        // SAFETY: does not change contents.
        check(unsafe { libc::munlock(self.region.pointer(), self.region.length()) })
            .context("munlock")?;
        Ok(())
    }

    /// Writes a byte to each page of `page` bytes, like a program that uses its memory.
    pub fn touch(&self, page: usize) {
        let first = self.region.pointer().cast::<u8>();
        for at in (0..self.region.length()).step_by(page) {
            // SAFETY: within memory that `self` owns and no other code uses.
            unsafe { first.add(at).write_volatile(1) };
        }
    }

    /// Detaches all segments.
    pub fn detach(&mut self) -> anyhow::Result<()> {
        let mut segments = self.segments.iter_mut();
        segments.try_for_each(Segment::detach).context("shmdt")
    }

    /// Unmaps or detaches the memory, removes the segments and closes the file, one after the
    /// other.
    pub fn destroy(&mut self) -> anyhow::Result<()> {
        self.detach()?;
        for segment in &self.segments {
            segment.remove().context("shmctl(IPC_RMID)")?;
        }
        self.unmap()?;
        self.file = None;
        Ok(())
    }

    /// Returns the file descriptor, if the memory is a file.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.file.as_ref().map(AsRawFd::as_raw_fd)
    }

    fn unmap(&mut self) -> anyhow::Result<()> {
        if let Some(region) = self.mapped.take() {
            // SAFETY: mapped by `self` and no longer used.
            check(unsafe { libc::munmap(region.pointer(), region.length()) }).context("munmap")?;
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.unmap();
    }
}

/// Creates a memfd of `size` bytes.
fn memfd(size: usize) -> anyhow::Result<OwnedFd> {
    // SAFETY: the descriptor is new and not owned by anything else.
    let file = unsafe {
        let file = check(libc::memfd_create(
            c"bigiron-bench".as_ptr(),
            libc::MFD_CLOEXEC,
        ))
        .context("memfd_create")?;
        OwnedFd::from_raw_fd(file)
    };
    rustix::fs::ftruncate(&file, size as u64).context("ftruncate of a memfd")?;
    Ok(file)
}
