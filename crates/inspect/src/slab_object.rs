//! The slab object that an address is in (mm/slub.c).
//!
//! Relies on SYMBOL(mem_section) of VMCOREINFO, `page.compound_head`, `slab.slab_cache` (of
//! struct page before 5.17) and `kmem_cache` (`size`, `object_size`, `red_left_pad`, `name`).

use std::collections::HashSet;

use bigiron_format::{PageFrame, VirtAddr};
use bigiron_kernel::mem_map::MemMap;

use crate::error::InspectError;
use crate::program::Program;

/// Maximum number of caches.
const MAX_CACHES: usize = 64 << 10;
/// Maximum length of a cache's name.
const MAX_NAME: usize = 128;
/// PGTY_slab in the upper byte of `page_type`, if the kernel's types do not name it.
const PAGE_TYPE_SHIFT: u32 = 24;

/// Slab objects of a kernel.
pub struct SlabObjects<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    map: MemMap,
    caches: HashSet<VirtAddr>,
    /// The struct of a slab.
    slab: &'static str,
}

/// A slab object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabObject {
    /// Name of its cache.
    pub cache: String,
    /// Its first byte.
    pub start: VirtAddr,
    /// Its size in bytes, without metadata.
    pub size: u64,
    /// Bytes from its start to the address; negative in a red zone before it.
    pub offset: i64,
}

/// Formats as `object 0xffff888003a51980 of the cache dentry (192 bytes)`.
impl std::fmt::Display for SlabObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            cache, start, size, ..
        } = self;
        write!(f, "object {start} of the slab cache {cache} ({size} bytes)")
    }
}

impl<'p, 'k, 's> SlabObjects<'p, 'k, 's> {
    /// Reads the list of caches.
    pub fn of(program: &'p Program<'k, 's>) -> Result<Self, InspectError> {
        let head = program.symbol("slab_caches")?;
        let caches = program.list(head, "kmem_cache", "list", MAX_CACHES)?;
        let slab = match program.has("slab", "slab_cache") {
            true => "slab",
            false => "page",
        };
        program.locate(slab, "slab_cache")?;
        Ok(Self {
            program,
            map: MemMap::find(program.kernel())?,
            caches: caches.items.into_iter().collect(),
            slab,
        })
    }

    /// Returns the object that an address is in; `None` if it is in no slab.
    pub fn at(&self, address: VirtAddr) -> Option<SlabObject> {
        self.read(address).ok().flatten()
    }

    fn read(&self, address: VirtAddr) -> Result<Option<SlabObject>, InspectError> {
        let (program, kernel) = (self.program, self.program.kernel());
        let shift = kernel.source().page_shift();
        let Some(leaf) = kernel.translate(address)? else {
            return Ok(None);
        };
        let frame = PageFrame(leaf.physical.0 >> shift);
        let section = frame.0 >> self.map.frames_shift();
        let Some(map) = self.map.section(kernel, section)? else {
            return Ok(None);
        };
        let page = self.map.page_struct(map, frame);
        let compound = program.value(page, "page", "compound_head")?;
        let head = match compound & 1 {
            1 => VirtAddr(compound - 1),
            _ => page,
        };
        if !self.is_slab(head) {
            return Ok(None);
        }
        let cache = program.pointer(head, self.slab, "slab_cache")?;
        if !self.caches.contains(&cache) {
            return Ok(None);
        }
        let pages = page.0.saturating_sub(head.0) / self.map.page_struct_size().max(1);
        let base = (address.0 >> shift).saturating_sub(pages) << shift;
        let member = |path| program.value(cache, "kmem_cache", path);
        let each = member("size")?.max(1);
        let pad = member("red_left_pad").unwrap_or(0);
        let index = address.0.saturating_sub(base) / each;
        let start = VirtAddr(
            base.wrapping_add(index.wrapping_mul(each))
                .wrapping_add(pad),
        );
        let name = program.pointer(cache, "kmem_cache", "name")?;
        Ok(Some(SlabObject {
            cache: program.string(name, MAX_NAME)?,
            start,
            size: member("object_size")?,
            offset: address.0.wrapping_sub(start.0).cast_signed(),
        }))
    }

    /// PG_slab until 6.10, a page type since (commit 46df8e73a4a3).
    fn is_slab(&self, page: VirtAddr) -> bool {
        let program = self.program;
        let number = |name: &str| {
            let value = program.enumerator(name).ok().flatten()?;
            u32::try_from(value).ok()
        };
        if let Some(bit) = number("PG_slab").filter(|bit| *bit < 64) {
            let flags = program.value(page, "page", "flags");
            return flags.is_ok_and(|flags| flags >> bit & 1 != 0);
        }
        match number("PGTY_slab") {
            Some(wanted) => program
                .value(page, "page", "page_type")
                .is_ok_and(|found| found as u32 >> PAGE_TYPE_SHIFT == wanted),
            // The cache tells it.
            None => true,
        }
    }
}
