//! Options of a segment.

use std::ffi::c_char;
use std::mem::offset_of;
use std::path::PathBuf;

use bigiron_memory::Errno;
use bigiron_memory::segment::{Huge, Kind, Numa, Request};

use crate::boundary::{ExtensibleStruct, text};
use crate::callbacks::ErrorText;
use crate::options::{ParsedOptions, bigiron_mem_options};

/// Kind: a System V segment. `key` is 0 for a private segment, or a key that no segment has.
pub const BIGIRON_MEM_SYSTEM_V: u32 = 1;
/// Kind: POSIX shared memory called `name`, with or without a leading slash.
pub const BIGIRON_MEM_POSIX: u32 = 2;
/// Kind: shared memory that lives as long as its last descriptor; `name` is only shown in
/// /proc.
pub const BIGIRON_MEM_MEMFD: u32 = 3;
/// Kind: a new file with the path `name`; on tmpfs or hugetlbfs it is shared memory.
pub const BIGIRON_MEM_FILE: u32 = 4;
/// Kind: private memory of this process.
pub const BIGIRON_MEM_ANONYMOUS: u32 = 5;

/// Flag: the segment is locked on creation, as ISM: a System V segment by SHM_LOCK as long as
/// it exists, others as long as they are attached in this process. Without this flag it is as
/// DISM: bigiron_mem_lock locks parts on demand.
pub const BIGIRON_MEM_LOCK: u32 = 1;
/// Flag: the pages are not populated; space for them is reserved if the system supports it.
pub const BIGIRON_MEM_RESERVE: u32 = 2;
/// Flag: the segment is attached read-only.
pub const BIGIRON_MEM_READ_ONLY: u32 = 4;

/// Page size: small pages, where otherwise huge ones could be used.
pub const BIGIRON_MEM_SMALL_PAGES: usize = 1;

/// NUMA placement: the caller's node, or its memory policy.
pub const BIGIRON_MEM_LOCAL: u32 = 0;
/// NUMA placement: all nodes, each helper on its own.
pub const BIGIRON_MEM_ALL_NODES: u32 = 1;
/// NUMA placement: interleaved over the nodes of `nodes`.
pub const BIGIRON_MEM_INTERLEAVE: u32 = 2;
/// NUMA placement: only the nodes of `nodes`.
pub const BIGIRON_MEM_BIND: u32 = 3;

/// Options of a segment. Set `size`, `kind` and `bytes`; other fields that are 0 select the
/// default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct bigiron_mem_segment_options {
    /// sizeof(struct bigiron_mem_segment_options).
    pub size: usize,
    /// BIGIRON_MEM_SYSTEM_V, _POSIX, _MEMFD, _FILE or _ANONYMOUS.
    pub kind: u32,
    /// BIGIRON_MEM_LOCK, _RESERVE and _READ_ONLY, combined by |.
    pub flags: u32,
    /// Size in bytes; rounded up to whole pages.
    pub bytes: usize,
    /// Page size. 0: transparent huge pages as far as available; BIGIRON_MEM_SMALL_PAGES; or
    /// the page size of one of the system's pools (hugetlb), 2 MiB or 1 GiB on x86-64. A file
    /// uses that of its hugetlbfs.
    pub page_size: usize,
    /// Permissions; 0: 0600.
    pub mode: u32,
    /// Key of a System V segment.
    pub key: i32,
    /// Number of files that form one contiguous segment, which several processors can free
    /// concurrently; 0 and 1: one file. For POSIX shared memory their names are name.0, name.1
    /// and so on.
    pub stripes: u32,
    /// BIGIRON_MEM_LOCAL, _ALL_NODES, _INTERLEAVE or _BIND.
    pub numa: u32,
    /// Nodes for _INTERLEAVE and _BIND, such as "0-3,6".
    pub nodes: *const c_char,
    /// Name; its meaning depends on the kind.
    pub name: *const c_char,
    /// Options of the operation, or NULL.
    pub how: *const bigiron_mem_options,
    /// Buffer for a text with the cause of an error and its remedy, or NULL.
    pub error_text: *mut c_char,
    /// Size of the buffer in bytes, including the terminating NUL.
    pub error_text_size: usize,
}

// SAFETY: integers and pointers, the size first, without padding.
unsafe impl ExtensibleStruct for bigiron_mem_segment_options {
    const FIRST_SIZE: usize = offset_of!(Self, error_text_size) + size_of::<usize>();
}

/// Parsed options of a segment, as far as all calls need them.
pub struct SegmentOptions {
    options: bigiron_mem_segment_options,
    pages: Huge,
    /// Options of the operation.
    pub how: ParsedOptions,
    /// Buffer for error texts.
    pub told: ErrorText,
}

impl SegmentOptions {
    /// Parses the options; EINVAL, with a text, for unknown flags.
    ///
    /// # Safety
    /// `options` must be NULL or point to the program's struct, whose pointers must be valid as
    /// long as the result is used.
    pub unsafe fn parse(options: *const bigiron_mem_segment_options) -> Result<Self, Errno> {
        // SAFETY: by the caller's contract.
        let options = unsafe { bigiron_mem_segment_options::copied(options) }?;
        // SAFETY: by the caller's contract.
        let how = unsafe { ParsedOptions::parse(options.how) }?;
        // SAFETY: by the caller's contract.
        let told = unsafe { ErrorText::to(options.error_text, options.error_text_size) };
        let known = BIGIRON_MEM_LOCK | BIGIRON_MEM_RESERVE | BIGIRON_MEM_READ_ONLY;
        if options.flags & !known != 0 {
            return told.wrong("flags: expected BIGIRON_MEM_LOCK, _RESERVE or _READ_ONLY");
        }
        let pages = match options.page_size {
            0 => Huge::Auto,
            BIGIRON_MEM_SMALL_PAGES => Huge::Never,
            size => Huge::Pool(size),
        };
        Ok(Self {
            options,
            pages,
            how,
            told,
        })
    }

    /// Returns the kind of pages to use.
    pub fn pages(&self) -> Huge {
        self.pages
    }

    /// True if the segment is locked at once.
    pub fn locks(&self) -> bool {
        self.options.flags & BIGIRON_MEM_LOCK != 0
    }

    /// True if its pages are not populated.
    pub fn reserves(&self) -> bool {
        self.options.flags & BIGIRON_MEM_RESERVE != 0
    }

    /// True if it is attached read-only.
    pub fn reads_only(&self) -> bool {
        self.options.flags & BIGIRON_MEM_READ_ONLY != 0
    }

    /// Returns the request to create a segment.
    ///
    /// # Safety
    /// As for [`SegmentOptions::parse`].
    pub unsafe fn request(&self) -> Result<Request, Errno> {
        let options = &self.options;
        if self.reads_only() {
            return self
                .told
                .wrong("flags: BIGIRON_MEM_READ_ONLY is only for existing memory");
        }
        let name = || {
            // SAFETY: by the caller's contract.
            let name = unsafe { text(options.name) };
            name.or_else(|_| self.told.wrong("name: expected a string"))
        };
        let kind = match options.kind {
            BIGIRON_MEM_SYSTEM_V => Kind::SystemV {
                key: Some(options.key).filter(|key| *key != 0),
            },
            BIGIRON_MEM_POSIX => Kind::Posix {
                name: name()?.into(),
            },
            BIGIRON_MEM_MEMFD => Kind::Memfd {
                name: name()?.into(),
            },
            BIGIRON_MEM_FILE => Kind::File {
                path: PathBuf::from(name()?),
            },
            BIGIRON_MEM_ANONYMOUS => Kind::Anonymous,
            _ => {
                return self
                    .told
                    .wrong("kind: expected a constant such as BIGIRON_MEM_SYSTEM_V");
            }
        };
        let mut request = Request::new(kind, options.bytes);
        if options.mode != 0 {
            if options.mode & !0o777 != 0 {
                return self
                    .told
                    .wrong("mode: expected permissions of at most 0777");
            }
            request.mode = options.mode;
        }
        request.huge = self.pages;
        request.populate = !self.reserves();
        request.lock = self.locks();
        request.stripes = (options.stripes as usize).max(1);
        request.settings = self.how.settings;
        // SAFETY: by the caller's contract.
        request.numa = unsafe { self.numa() }?;
        Ok(request)
    }

    /// # Safety
    /// As for [`SegmentOptions::parse`].
    unsafe fn numa(&self) -> Result<Numa, Errno> {
        let way = match self.options.numa {
            BIGIRON_MEM_LOCAL => return Ok(Numa::Local),
            BIGIRON_MEM_ALL_NODES => return Ok(Numa::Spread),
            BIGIRON_MEM_INTERLEAVE => "interleave",
            BIGIRON_MEM_BIND => "bind",
            _ => {
                return self
                    .told
                    .wrong("numa: expected a constant such as BIGIRON_MEM_LOCAL");
            }
        };
        // SAFETY: by the caller's contract.
        let nodes = unsafe { text(self.options.nodes) };
        let nodes = nodes.or_else(|_| self.told.wrong("nodes: expected a list such as 0-3,6"))?;
        Numa::parse(&format!("{way}={nodes}")).map_err(|error| self.told.error(&error))
    }
}
