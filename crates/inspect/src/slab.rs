//! Slab caches: which small objects the kernel's memory went into.

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::error::InspectError;
use crate::program::Program;
use crate::slab_cpu::{self, Steps};

/// Caches that are listed: far more than any kernel has, whose memory cgroups may
/// each have had caches of their own (before 5.9).
const MOST_CACHES: usize = 256 << 10;
/// Slabs of a cache's partial lists that are looked at.
const MOST_PARTIAL: usize = 1 << 20;
/// Memory nodes (MAX_NUMNODES is 1024 at most).
const MOST_NODES: u64 = 1024;
/// Bytes of a cache's name.
const MOST_NAME: usize = 256;
/// Where the order begins in kmem_cache.oo, above the objects (OO_SHIFT, mm/slub.c).
const OO_SHIFT: u32 = 16;
/// What `kmem_cache_node` has for those who debug.
const COUNTS: &str = "CONFIG_SLUB_DEBUG";

/// All slab caches.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Slabs {
    /// The caches, those with the most bytes first.
    pub caches: Vec<SlabCache>,
    /// What could not be read, or is not counted by this kernel.
    pub warnings: Vec<String>,
}

/// A cache of objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlabCache {
    /// Its name. Caches of equal objects may share one (slab_nomerge keeps them apart).
    pub name: String,
    /// Bytes of an object that are used.
    pub object_size: u64,
    /// Bytes of an object with what surrounds it.
    pub size: u64,
    /// Objects in a slab, as a new one would have.
    pub per_slab: u64,
    /// Pages of a slab, as a new one would have.
    pub pages_per_slab: u64,
    /// Slabs. `None` where the kernel does not count them.
    pub slabs: Option<u64>,
    /// Objects there is room for in these slabs.
    pub objects: Option<u64>,
    /// Of them those in use. Objects that CPUs keep for themselves are free where the
    /// kernel says how many (not in sheaves, since 6.18).
    pub in_use: Option<u64>,
    /// Bytes of all slabs.
    pub bytes: Option<u64>,
}

impl Slabs {
    /// Goes through the kernel's list of caches.
    pub fn of(program: &Program) -> Result<Self, InspectError> {
        let head = program.symbol("slab_caches")?;
        if !program.has("kmem_cache", "oo") {
            // CONFIG_SLAB (gone in 6.8) and CONFIG_SLOB keep other books.
            return Err(InspectError::NoMember {
                name: "kmem_cache.oo".into(),
                option: Some("CONFIG_SLUB; caches of CONFIG_SLAB are not supported"),
            });
        }
        let walk = program.list(head, "kmem_cache", "list", MOST_CACHES)?;
        let mut slabs = Self::default();
        if let Some(why) = walk.cut {
            slabs.warn(format!("the list of slab caches is cut: {why}"));
        }
        let nodes = program.variable("nr_node_ids", 4).unwrap_or(1);
        let nodes = nodes.clamp(1, MOST_NODES);
        let mut steps = Steps::new();
        for cache in walk.items {
            match SlabCache::of(program, cache, nodes, &mut steps, &mut slabs.warnings) {
                Ok(cache) => slabs.caches.push(cache),
                Err(error) => slabs.warn(format!("the slab cache at {cache}: {error}")),
            }
        }
        if slabs.caches.iter().any(|cache| cache.slabs.is_none()) {
            slabs.warn(format!("this kernel does not count its slabs ({COUNTS})"));
        }
        slabs
            .caches
            .sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name)));
        Ok(slabs)
    }

    fn warn(&mut self, text: String) {
        warn(&mut self.warnings, text);
    }

    /// Bytes of all slabs together, as far as they are counted.
    pub fn bytes(&self) -> u64 {
        let bytes = self.caches.iter().filter_map(|cache| cache.bytes);
        bytes.fold(0, u64::saturating_add)
    }
}

/// A damaged kernel has a few words of explanation, not millions.
fn warn(warnings: &mut Vec<String>, text: String) {
    const ENOUGH: usize = 32;
    if warnings.len() < ENOUGH && !warnings.contains(&text) {
        warnings.push(text);
    }
}

impl SlabCache {
    fn of(
        program: &Program,
        cache: VirtAddr,
        nodes: u64,
        steps: &mut Steps,
        warnings: &mut Vec<String>,
    ) -> Result<Self, InspectError> {
        let member = |path| program.value(cache, "kmem_cache", path);
        let name = program.pointer(cache, "kmem_cache", "name")?;
        let name = program.string(name, MOST_NAME)?;
        let layout = member("oo.x")?;
        let page = 1_u64 << program.kernel().source().page_shift();
        let pages_per_slab = 1_u64.checked_shl((layout >> OO_SHIFT) as u32).unwrap_or(0);
        let mut found = Self {
            name,
            object_size: member("object_size")?,
            size: member("size")?,
            per_slab: layout & ((1 << OO_SHIFT) - 1),
            pages_per_slab,
            slabs: None,
            objects: None,
            in_use: None,
            bytes: None,
        };
        if !program.has("kmem_cache_node", "nr_slabs") {
            return Ok(found);
        }
        // struct slab is a struct page's other name (since 5.17, commit d122019bf061).
        let slab = match program.structure("slab") {
            Ok(_) => "slab",
            Err(_) => "page",
        };
        let (mut slabs, mut objects, mut free) = (0_u64, 0_u64, 0_u64);
        let table = program.member(cache, "kmem_cache", "node")?;
        for node in 0..nodes {
            let Some(entry) = table.checked_add(8 * node) else {
                break;
            };
            let node = VirtAddr(program.number(entry, 8)?);
            if node.0 == 0 {
                // A node without memory.
                continue;
            }
            let counted = |path| -> Result<u64, InspectError> {
                let count = program.signed(node, "kmem_cache_node", path)?;
                Ok(count.max(0).cast_unsigned())
            };
            slabs = slabs.saturating_add(counted("nr_slabs.counter")?);
            objects = objects.saturating_add(counted("total_objects.counter")?);
            match free_in(program, slab, node, steps) {
                Ok((count, None)) => free = free.saturating_add(count),
                Ok((count, Some(why))) => {
                    free = free.saturating_add(count);
                    warn(
                        warnings,
                        format!("free objects of {} are not all counted: {why}", found.name),
                    );
                }
                Err(error) => warn(
                    warnings,
                    format!("free objects of {} are not counted: {error}", found.name),
                ),
            }
        }
        match slab_cpu::free(program, slab, cache, found.per_slab, steps) {
            Ok(count) => free = free.saturating_add(count),
            Err(error) => warn(
                warnings,
                format!(
                    "free objects of {} that CPUs have are not counted: {error}",
                    found.name
                ),
            ),
        }
        found.slabs = Some(slabs);
        found.objects = Some(objects);
        found.in_use = Some(objects.saturating_sub(free));
        let pages = slabs.checked_mul(pages_per_slab);
        found.bytes = pages.and_then(|pages| pages.checked_mul(page));
        Ok(found)
    }
}

/// Objects that are free in the partial slabs of a node, and why not all of those
/// slabs were seen.
fn free_in(
    program: &Program,
    slab: &str,
    node: VirtAddr,
    steps: &mut Steps,
) -> Result<(u64, Option<String>), InspectError> {
    // The list had the page's own name before 5.0.
    let link = match program.has(slab, "slab_list") {
        true => "slab_list",
        false => "lru",
    };
    steps.take(node)?;
    let partial = program.member(node, "kmem_cache_node", "partial")?;
    let walk = program.list(partial, slab, link, MOST_PARTIAL)?;
    let mut free = 0_u64;
    // All of them before any: one that cannot be read ends it.
    walk.items.iter().try_for_each(|at| steps.take(*at))?;
    for at in walk.items {
        free = free.saturating_add(slab_cpu::free_in_slab(program, slab, at)?);
    }
    Ok((free, walk.cut))
}
