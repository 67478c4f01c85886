//! Slab caches, by the memory they use.

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::error::InspectError;
use crate::program::Program;
use crate::slab_cpu::{self, PerCpuSlabs};

/// Maximum number of caches: far more than in any kernel, where each memory cgroup had its own
/// before 5.9.
const MAX_CACHES: usize = 256 << 10;
/// Maximum number of slabs read from a cache's partial lists.
const MAX_PARTIAL: usize = 1 << 20;
/// Maximum number of memory nodes (MAX_NUMNODES is at most 1024).
const MAX_NODES: u64 = 1024;
/// Maximum length of a cache's name.
const MAX_NAME: usize = 256;
/// Shift of the order in kmem_cache.oo, above the number of objects (OO_SHIFT, mm/slub.c).
const OO_SHIFT: u32 = 16;
/// The option that adds the counts to `kmem_cache_node`.
const COUNTS: &str = "CONFIG_SLUB_DEBUG";

/// All slab caches.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Slabs {
    /// The caches, those with the most bytes first.
    pub caches: Vec<SlabCache>,
    /// Facts that could not be read, or that this kernel does not count.
    pub warnings: Vec<String>,
}

/// A cache of objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlabCache {
    /// Name. Caches of equal objects may share one (unless slab_nomerge is set).
    pub name: String,
    /// Size of an object, in bytes.
    pub object_size: u64,
    /// Size of an object with its metadata and padding, in bytes.
    pub size: u64,
    /// Objects in a newly allocated slab.
    pub per_slab: u64,
    /// Pages of a newly allocated slab.
    pub pages_per_slab: u64,
    /// Number of slabs. `None` if the kernel does not count them.
    pub slabs: Option<u64>,
    /// Capacity of these slabs, in objects.
    pub objects: Option<u64>,
    /// Objects in use. Objects on per-CPU freelists count as free where the kernel shows them
    /// (not in sheaves, since 6.18).
    pub in_use: Option<u64>,
    /// Size of all slabs, in bytes.
    pub bytes: Option<u64>,
}

impl Slabs {
    /// Walks the kernel's list of caches.
    pub fn of(program: &Program) -> Result<Self, InspectError> {
        let head = program.symbol("slab_caches")?;
        if !program.has("kmem_cache", "oo") {
            // CONFIG_SLAB (removed in 6.8) and CONFIG_SLOB have other structures.
            return Err(InspectError::NoMember {
                name: "kmem_cache.oo".into(),
                option: Some("CONFIG_SLUB; caches of CONFIG_SLAB are not supported"),
            });
        }
        let walk = program.list(head, "kmem_cache", "list", MAX_CACHES)?;
        let mut slabs = Self::default();
        if let Some(why) = walk.cut {
            slabs.warn(format!("the list of slab caches is incomplete: {why}"));
        }
        let nodes = program.variable("nr_node_ids", 4).unwrap_or(1);
        let nodes = nodes.clamp(1, MAX_NODES);
        let per_cpu = PerCpuSlabs::of(program).map_err(|error| error.to_string());
        for cache in walk.items {
            match SlabCache::of(program, cache, nodes, &per_cpu, &mut slabs.warnings) {
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

    /// Size of all slabs together, as far as counted.
    pub fn bytes(&self) -> u64 {
        let bytes = self.caches.iter().filter_map(|cache| cache.bytes);
        bytes.fold(0, u64::saturating_add)
    }
}

/// Adds a warning, up to a maximum: a damaged kernel could cause millions.
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
        per_cpu: &Result<PerCpuSlabs, String>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, InspectError> {
        let member = |path| program.value(cache, "kmem_cache", path);
        let name = program.pointer(cache, "kmem_cache", "name")?;
        let name = program.string(name, MAX_NAME)?;
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
        // struct slab is another view of struct page (since 5.17, commit d122019bf061).
        let slab = match program.structure("slab") {
            Ok(_) => "slab",
            Err(_) => "page",
        };
        let (mut slabs, mut objects, mut free) = (0_u64, 0_u64, 0_u64);
        let (table, stride) = nodes_of(program, cache)?;
        for node in 0..nodes {
            let offset = stride.saturating_mul(node);
            let Some(entry) = table.checked_add(offset) else {
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
            match free_in(program, slab, node) {
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
        let counted = match per_cpu {
            Ok(per_cpu) => per_cpu
                .free(program, slab, cache, found.per_slab)
                .map_err(|error| error.to_string()),
            Err(reason) => Err(reason.clone()),
        };
        match counted {
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

/// Counts the free objects in the partial slabs of a node; returns why some of those slabs were
/// not read.
fn free_in(
    program: &Program,
    slab: &str,
    node: VirtAddr,
) -> Result<(u64, Option<String>), InspectError> {
    // The list used the page's own name before 5.0.
    let link = match program.has(slab, "slab_list") {
        true => "slab_list",
        false => "lru",
    };
    let partial = program.member(node, "kmem_cache_node", "partial")?;
    let walk = program.list(partial, slab, link, MAX_PARTIAL)?;
    let mut free = 0_u64;
    for at in walk.items {
        free = free.saturating_add(slab_cpu::free_in_slab(program, slab, at)?);
    }
    Ok((free, walk.cut))
}

/// Returns the address of the pointer to a cache's first struct kmem_cache_node, and the distance
/// to the next.
fn nodes_of(program: &Program, cache: VirtAddr) -> Result<(VirtAddr, u64), InspectError> {
    // In 7.2 it is next to the node's barn of sheaves.
    let (name, pair) = ("kmem_cache", "kmem_cache_per_node_ptrs");
    if program.has(name, "per_node") {
        let first = program.member(cache, name, "per_node")?;
        let node = program.member(first, pair, "node")?;
        return Ok((node, program.size_of(pair)?));
    }
    Ok((program.member(cache, name, "node")?, 8))
}
