//! Mappings of this process, read from /proc/thread-self/maps without allocating.
//! /proc/self/maps is empty once the first thread has ended.

use std::ops::ControlFlow;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};

use crate::region::Region;

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Addresses of the mapping.
    pub region: Region,
    /// True if it is readable.
    pub readable: bool,
    /// True if it is writable.
    pub writable: bool,
    /// True if it is executable.
    pub executable: bool,
    /// True if writes are visible to other processes.
    pub shared: bool,
    /// True if it maps a file or shared memory.
    pub of_file: bool,
    /// Inode number of the file; for a System V segment its id.
    pub inode: u64,
    /// True if its path in the list is that of a System V segment.
    pub system_v: bool,
    /// True for memory that no disk holds: System V, POSIX or anonymous shared memory, memfd.
    /// Its contents survive unmapping.
    pub of_memory: bool,
    /// True if it may be backed by something other than memory or a file on disk.
    pub of_device: bool,
    /// True for the stack, the vdso and other mappings that the kernel names.
    pub special: bool,
}

impl Mapping {
    /// Returns the protection as PROT_… flags.
    pub fn protection(&self) -> i32 {
        let bit = |allowed: bool, bit: i32| if allowed { bit } else { 0 };
        bit(self.readable, libc::PROT_READ)
            | bit(self.writable, libc::PROT_WRITE)
            | bit(self.executable, libc::PROT_EXEC)
    }
}

/// Prefixes of the paths of shared memory (shmem_kernel_file_setup and its callers,
/// hugetlb_file_setup).
const MEMORY: [&str; 5] = [
    "/SYSV",
    "/dev/shm/",
    "/memfd:",
    "/dev/zero",
    "/anon_hugepage",
];
/// Prefixes of the paths of other files that are not on a disk.
const DEVICES: [&str; 4] = ["/dev/", "/sys/", "/proc/", "/drm"];

/// Length at which a line is cut; all relevant fields are before the path.
const LINE: usize = 128;

/// Calls `each` for the mappings that overlap `region`, in order, until it breaks. Within a
/// program's own call, signals must be blocked meanwhile: a handler that jumps out of the call
/// would leave the list open.
///
/// Errors are those of opening and reading the list, which does not exist without /proc.
pub fn for_each(
    region: Region,
    mut each: impl FnMut(Mapping) -> ControlFlow<()>,
) -> Result<(), Errno> {
    let file = open(
        c"/proc/thread-self/maps",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut lines = Lines::new(file);
    while let Some(line) = lines.next()? {
        let Some(mapping) = parse(line) else {
            continue;
        };
        if mapping.region.start() >= region.end() {
            break;
        }
        if !mapping.region.intersection(region).is_empty() && each(mapping).is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns the mapping at an address.
pub fn at(address: usize) -> Option<Mapping> {
    let mut found = None;
    for_each(
        Region::between(address, address.saturating_add(1)),
        |mapping| {
            found = Some(mapping);
            ControlFlow::Break(())
        },
    )
    .ok()?;
    found
}

/// Parses `START-END PERMS OFFSET DEVICE INODE PATH`, as show_map_vma of fs/proc/task_mmu.c
/// writes it.
fn parse(line: &[u8]) -> Option<Mapping> {
    let line = str::from_utf8(line).or_else(|error| {
        // A path may contain any bytes, and may be cut.
        str::from_utf8(line.get(..error.valid_up_to()).unwrap_or_default())
    });
    let mut fields = line.ok()?.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    let permissions = fields.next()?.as_bytes();
    let (_offset, _device) = (fields.next()?, fields.next()?);
    let inode = fields.next()?;
    let path = fields.next().unwrap_or("");
    let begins = |names: &[&str]| names.iter().any(|name| path.starts_with(name));
    let of_file = inode != "0" || path.starts_with('/');
    let of_memory = begins(&MEMORY);
    Some(Mapping {
        region: Region::between(start, end),
        readable: permissions.first() == Some(&b'r'),
        writable: permissions.get(1) == Some(&b'w'),
        executable: permissions.get(2) == Some(&b'x'),
        shared: permissions.get(3) == Some(&b's'),
        of_file,
        inode: inode.parse().unwrap_or(0),
        system_v: path.starts_with("/SYSV"),
        of_memory,
        of_device: of_file && !of_memory && (!path.starts_with('/') || begins(&DEVICES)),
        special: path.starts_with('['),
    })
}

/// The lines of a file, each up to [`LINE`] bytes.
struct Lines {
    file: OwnedFd,
    buffer: [u8; 4096],
    filled: usize,
    taken: usize,
    line: [u8; LINE],
}

impl Lines {
    fn new(file: OwnedFd) -> Self {
        Self {
            file,
            buffer: [0; 4096],
            filled: 0,
            taken: 0,
            line: [0; LINE],
        }
    }

    fn next(&mut self) -> Result<Option<&[u8]>, Errno> {
        let mut length = 0;
        loop {
            if self.taken == self.filled {
                self.filled = read_some(&self.file, &mut self.buffer)?;
                self.taken = 0;
                if self.filled == 0 {
                    break;
                }
            }
            let byte = self.buffer.get(self.taken).copied().unwrap_or(b'\n');
            self.taken += 1;
            if byte == b'\n' {
                return Ok(self.line.get(..length));
            }
            if let Some(place) = self.line.get_mut(length) {
                *place = byte;
                length += 1;
            }
        }
        Ok((length > 0).then(|| self.line.get(..length).unwrap_or_default()))
    }
}

fn read_some(file: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match read(file, &mut *buffer) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let mapping = parse(
            b"7f0000000000-7f0000200000 rw-s 00000000 00:01 32769      /SYSV00000000 (deleted)",
        )
        .unwrap();
        assert_eq!(mapping.region.length(), 2 << 20);
        assert!(mapping.system_v && mapping.shared && mapping.writable && mapping.of_file);
        assert!(mapping.of_memory && !mapping.of_device);
        assert_eq!(mapping.inode, 32769);
        let stack = parse(b"7ffe0000-7fff0000 rw-p 00000000 00:00 0    [stack]").unwrap();
        assert!(stack.special && !stack.shared && !stack.of_file);
        let device = parse(b"1000-2000 rw-s 00000000 00:05 12 /dev/dri/card0").unwrap();
        assert!(device.of_device && !device.of_memory);
        let buffer = parse(b"1000-2000 rw-s 00000000 00:0e 12 anon_inode:[perf_event]").unwrap();
        assert!(buffer.of_device && !buffer.of_memory);
        let odd = parse(b"1000-2000 r--p 00000000 00:00 12 /a\xff").unwrap();
        assert!(odd.of_file && !odd.writable);
        assert_eq!(parse(b"garbage"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn mapping_of_the_stack_is_found() {
        let local = 1_u8;
        let here = std::ptr::from_ref(&local).addr();
        let mapping = at(here).unwrap();
        assert!(mapping.readable && mapping.writable && !mapping.shared);
        assert_eq!(at(0), None);
    }

    #[test]
    fn all_lines_are_found_across_reads() {
        const PAGES: usize = 301;
        let page = rustix::param::page_size();
        // SAFETY: a new mapping; only this test makes holes in it.
        let address = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                PAGES * page,
                rustix::mm::ProtFlags::READ,
                rustix::mm::MapFlags::PRIVATE,
            )
        };
        let region = Region::new(address.unwrap().addr(), PAGES * page).unwrap();
        let pages = (region.start()..region.end()).step_by(page);
        let (kept, holes): (Vec<usize>, Vec<usize>) =
            pages.partition(|at| (at / page).is_multiple_of(2));
        for hole in holes {
            // SAFETY: a page of this test's mapping.
            unsafe { rustix::mm::munmap(std::ptr::with_exposed_provenance_mut(hole), page) }
                .unwrap();
        }
        let mut found = Vec::new();
        for_each(region, |mapping| {
            // Any others are mappings that the kernel has put into a hole meanwhile.
            found.push(mapping.region.start());
            ControlFlow::Continue(())
        })
        .unwrap();
        found.retain(|start| kept.contains(start));
        assert_eq!(found, kept);
        for page_kept in kept {
            // SAFETY: a page of this test's mapping.
            unsafe { rustix::mm::munmap(std::ptr::with_exposed_provenance_mut(page_kept), page) }
                .unwrap();
        }
    }
}
