//! Pages by what their struct pages point to: slab cache, file system, memory cgroup.

use std::collections::HashMap;

use bigiron_format::PageFrame;
use bigiron_format::bytes::Endian;

use super::rule::{Pattern, Selector};
use crate::erase::Walker;
use crate::frame_set::FrameSet;
use crate::kernel::Kernel;
use crate::mem_map::MemMap;
use crate::page::{KindBits, PageClass, PageKind, PageLayout};
use crate::source::IoMethod;
use crate::struct_pages::StructPages;

/// Maximum number of owners that are remembered; a damaged dump may have any number.
const MAX_KNOWN: usize = 1 << 20;
/// Maximum length of a name.
const NAME: usize = 256;
/// Flags in the lowest bits of memcg_data (MEMCG_DATA_FLAGS_MASK, include/linux/memcontrol.h): what
/// it points to is then no mem_cgroup.
const MEMCG_FLAGS: u64 = 7;

/// A rule that selects pages by their owner.
pub(super) struct Owner<'a> {
    pub(super) selector: &'a Selector,
    /// Number of the rule.
    pub(super) index: usize,
    /// Offset of the pointer to the owner in struct page.
    offset: usize,
    known: HashMap<u64, bool>,
    problem: Option<String>,
    pub(super) frames: FrameSet,
}

impl<'a> Owner<'a> {
    /// Finds the pointer to the owner in struct page; `None` for other rules.
    pub(super) fn of(
        walker: &Walker,
        index: usize,
        selector: &'a Selector,
    ) -> Option<Result<Self, String>> {
        let offset = match selector {
            // struct slab is another view of struct page (since 5.17, commit d122019bf061).
            Selector::SlabCache(_) => walker
                .offset("slab", "slab_cache")
                .or_else(|_| walker.offset("page", "slab_cache")),
            Selector::FileSystem(_) => walker.offset("address_space", "host").map(|_| 0),
            Selector::Cgroup(_) => walker
                .offset("page", "memcg_data")
                .or_else(|_| walker.offset("page", "mem_cgroup")),
            _ => return None,
        };
        Some(offset.map(|offset| Self {
            selector,
            index,
            offset: offset as usize,
            known: HashMap::new(),
            problem: None,
            frames: FrameSet::large(),
        }))
    }

    /// Returns what was not read, if anything.
    pub(super) fn problem(&mut self) -> Option<String> {
        self.problem.take()
    }

    /// Returns true if the rule selects a page of a use.
    fn selects(&mut self, walker: &Walker, kind: PageKind, page: &Page) -> bool {
        let is_cache = matches!(
            kind,
            PageKind::Class(PageClass::Cache | PageClass::CachePrivate)
        );
        let pointer = match self.selector {
            Selector::SlabCache(_) if kind == PageKind::Slab => page.word(self.offset),
            Selector::FileSystem(_) if is_cache => page.mapping.unwrap_or(0),
            Selector::Cgroup(_) if kind != PageKind::Slab => page.word(self.offset),
            _ => 0,
        };
        if pointer == 0 || pointer & MEMCG_FLAGS != 0 {
            return false;
        }
        if let Some(known) = self.known.get(&pointer) {
            return *known;
        }
        let found = matches(walker, self.selector, pointer).unwrap_or_else(|error| {
            self.problem.get_or_insert(error);
            false
        });
        if self.known.len() < MAX_KNOWN {
            self.known.insert(pointer, found);
        }
        found
    }
}

/// Returns true if the owner at `address` is the one that `selector` names.
fn matches(walker: &Walker, selector: &Selector, address: u64) -> Result<bool, String> {
    let named = |pattern: &Pattern, outer: &str, path: &str| -> Result<bool, String> {
        let item = walker.item(outer, address)?;
        Ok(pattern.matches(&walker.text(item, path, NAME)?))
    };
    match selector {
        Selector::SlabCache(pattern) => named(pattern, "kmem_cache", "name"),
        Selector::FileSystem(pattern) => {
            Ok(named(pattern, "address_space", "host.i_sb.s_type.name")?
                || named(pattern, "address_space", "host.i_sb.s_id")?)
        }
        Selector::Cgroup(pattern) => named(pattern, "mem_cgroup", "css.cgroup.kn.name"),
        _ => Ok(false),
    }
}

/// A struct page.
struct Page<'b> {
    bytes: &'b [u8],
    endian: Endian,
    mapping: Option<u64>,
}

impl Page<'_> {
    fn word(&self, offset: usize) -> u64 {
        self.endian.u64(self.bytes, offset).unwrap_or(0)
    }
}

/// Adds the page frames of all `owners`, by one pass over the struct pages.
pub(super) fn scan(kernel: &Kernel, walker: &Walker, owners: &mut [Owner]) -> Result<(), String> {
    let text = |error: crate::KernelError| error.to_string();
    let endian = kernel.source().endian();
    let map = MemMap::find(kernel).map_err(text)?;
    let layout = PageLayout::new(kernel.info(), endian).map_err(text)?;
    let mut pages = StructPages::new(kernel, &map, &layout, KindBits::default());
    let kinds = pages.kinds().clone();
    let mut reader = kernel.source().reader(IoMethod::Auto);
    // Whether each rule selects the compound page whose tails follow.
    let mut heads = vec![false; owners.len()];
    for first in kernel.source().sections() {
        let mut see = |frame: PageFrame, count: u64, kind: PageKind, bytes: &[u8]| {
            let is_tail = layout.is_tail(bytes);
            let page = Page {
                bytes,
                endian,
                mapping: kinds.mapping(bytes),
            };
            for (owner, head) in owners.iter_mut().zip(&mut heads) {
                if !is_tail {
                    *head = owner.selects(walker, kind, &page);
                }
                if *head {
                    owner
                        .frames
                        .add(frame, PageFrame(frame.0.saturating_add(count)));
                }
            }
        };
        let visited = pages.visit_section(reader.as_mut(), first, &mut see);
        visited.map_err(text)?;
    }
    Ok(())
}
