//! What programs say about a segment.

use std::ffi::c_char;
use std::mem::offset_of;
use std::path::PathBuf;

use bigiron_memory::Errno;
use bigiron_memory::segment::{Huge, Kind, Numa, Request};

use crate::boundary::{ExtensibleStruct, text};
use crate::callbacks::ErrorText;
use crate::options::{ParsedOptions, bigiron_mem_options};

/// Kind: a System V segment; `key`, 0 for none, is one that no segment has yet.
pub const BIGIRON_MEM_SYSTEM_V: u32 = 1;
/// Kind: POSIX shared memory of the `name`, with or without the slash before it.
pub const BIGIRON_MEM_POSIX: u32 = 2;
/// Kind: shared memory that goes with its last descriptor; `name` is for /proc.
pub const BIGIRON_MEM_MEMFD: u32 = 3;
/// Kind: a new file, `name` is its path: on tmpfs or hugetlbfs it is shared memory.
pub const BIGIRON_MEM_FILE: u32 = 4;
/// Kind: private memory of this process.
pub const BIGIRON_MEM_ANONYMOUS: u32 = 5;

/// Flag: it is locked when it is made, as ISM: a System V segment by SHM_LOCK, for as long as it exists, others for
/// as long as they are attached here. Without it, it is as DISM: bigiron_mem_lock locks parts on demand.
pub const BIGIRON_MEM_LOCK: u32 = 1;
/// Flag: its pages are not made; room for them is taken where the system can.
pub const BIGIRON_MEM_RESERVE: u32 = 2;
/// Flag: it is attached for reading alone.
pub const BIGIRON_MEM_READ_ONLY: u32 = 4;

/// Page size: small pages, where otherwise there might be huge ones.
pub const BIGIRON_MEM_SMALL_PAGES: usize = 1;

/// Where pages come from: the node of the caller, or its memory policy.
pub const BIGIRON_MEM_LOCAL: u32 = 0;
/// Where pages come from: all nodes, each helper's own.
pub const BIGIRON_MEM_ALL_NODES: u32 = 1;
/// Where pages come from: the `nodes`, page by page.
pub const BIGIRON_MEM_INTERLEAVE: u32 = 2;
/// Where pages come from: the `nodes` and no others.
pub const BIGIRON_MEM_BIND: u32 = 3;

/// What a segment is to be. Set `size`, `kind` and `bytes`, and leave at 0 what is to be as usual.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct bigiron_mem_segment_options {
    /// sizeof(struct bigiron_mem_segment_options).
    pub size: usize,
    /// BIGIRON_MEM_SYSTEM_V, _POSIX, _MEMFD, _FILE or _ANONYMOUS.
    pub kind: u32,
    /// BIGIRON_MEM_LOCK, _RESERVE, _READ_ONLY, with | between them.
    pub flags: u32,
    /// Size in bytes; rounded up to whole pages.
    pub bytes: usize,
    /// 0: transparent huge pages as far as the system has some; BIGIRON_MEM_SMALL_PAGES; or the size of pages
    /// in one of the system's pools (hugetlb), 2 MiB or 1 GiB on x86-64. A file has those of its hugetlbfs.
    pub page_size: usize,
    /// Permissions; 0: 0600.
    pub mode: u32,
    /// Of a System V segment.
    pub key: i32,
    /// Files that lie side by side as one, which several processors give back at once; 0 and 1: one. Of POSIX
    /// shared memory they are called name.0, name.1 and so on.
    pub stripes: u32,
    /// BIGIRON_MEM_LOCAL, _ALL_NODES, _INTERLEAVE or _BIND.
    pub numa: u32,
    /// For _INTERLEAVE and _BIND, as "0-3,6".
    pub nodes: *const c_char,
    /// As the kind says.
    pub name: *const c_char,
    /// Options, or NULL.
    pub how: *const bigiron_mem_options,
    /// Where to write what an error was about and what to do, or NULL.
    pub error_text: *mut c_char,
    /// Bytes there, of which a NUL takes one.
    pub error_text_size: usize,
}

// SAFETY: numbers and pointers, the size first, without padding.
unsafe impl ExtensibleStruct for bigiron_mem_segment_options {
    const FIRST_SIZE: usize = offset_of!(Self, error_text_size) + size_of::<usize>();
}

/// Options of a segment, understood as far as all calls need them.
pub struct SegmentOptions {
    options: bigiron_mem_segment_options,
    pages: Huge,
    /// Options.
    pub how: ParsedOptions,
    /// Where errors are told.
    pub told: ErrorText,
}

impl SegmentOptions {
    /// The options; EINVAL, told, for flags that there are not.
    ///
    /// # Safety
    /// `options` is NULL or the program's struct, and what it points to is there for as long as the result.
    pub unsafe fn parse(options: *const bigiron_mem_segment_options) -> Result<Self, Errno> {
        // SAFETY: as the caller promises.
        let options = unsafe { bigiron_mem_segment_options::copied(options) }?;
        // SAFETY: as the caller promises.
        let how = unsafe { ParsedOptions::parse(options.how) }?;
        // SAFETY: as the caller promises.
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

    /// In which pages.
    pub fn pages(&self) -> Huge {
        self.pages
    }

    /// Whether it is locked at once.
    pub fn locks(&self) -> bool {
        self.options.flags & BIGIRON_MEM_LOCK != 0
    }

    /// Whether its pages are left for later.
    pub fn reserves(&self) -> bool {
        self.options.flags & BIGIRON_MEM_RESERVE != 0
    }

    /// Whether it is attached for reading alone.
    pub fn reads_only(&self) -> bool {
        self.options.flags & BIGIRON_MEM_READ_ONLY != 0
    }

    /// What is to be made.
    ///
    /// # Safety
    /// As for [`SegmentOptions::parse`].
    pub unsafe fn request(&self) -> Result<Request, Errno> {
        let options = &self.options;
        if self.reads_only() {
            return self
                .told
                .wrong("flags: BIGIRON_MEM_READ_ONLY is for what exists");
        }
        let name = || {
            // SAFETY: as the caller promises.
            let name = unsafe { text(options.name) };
            name.or_else(|_| self.told.wrong("name: expected a text"))
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
                    .wrong("kind: expected one such as BIGIRON_MEM_SYSTEM_V");
            }
        };
        let mut request = Request::new(kind, options.bytes);
        if options.mode != 0 {
            if options.mode & !0o777 != 0 {
                return self.told.wrong("mode: expected permissions, up to 0777");
            }
            request.mode = options.mode;
        }
        request.huge = self.pages;
        request.populate = !self.reserves();
        request.lock = self.locks();
        request.stripes = (options.stripes as usize).max(1);
        request.settings = self.how.settings;
        // SAFETY: as the caller promises.
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
                    .wrong("numa: expected one such as BIGIRON_MEM_LOCAL");
            }
        };
        // SAFETY: as the caller promises.
        let nodes = unsafe { text(self.options.nodes) };
        let nodes = nodes.or_else(|_| self.told.wrong("nodes: expected a text such as 0-3,6"))?;
        Numa::parse(&format!("{way}={nodes}")).map_err(|error| self.told.error(&error))
    }
}
