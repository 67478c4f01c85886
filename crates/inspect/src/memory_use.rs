//! Memory by user, according to the kernel's counters.

use std::collections::BTreeMap;

use bigiron_format::VirtAddr;
use bigiron_kernel::types::{Named, TypeTable};
use serde::Serialize;

use crate::error::InspectError;
use crate::program::Program;

/// Maximum number of counters in a table, and of huge page sizes; kernels have less than half.
const MAX_COUNTERS: i64 = 512;
const MAX_HUGE_SIZES: u64 = 16;
/// Prefix of enumerators that are not counters but their number.
const NUMBER_OF: &str = "NR_VM_";

/// The kernel's counters, as in /proc/meminfo: per-CPU deltas not yet folded in are missing, up
/// to some hundred pages each.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryUse {
    /// Page size, in bytes.
    pub page_size: u64,
    /// Pages managed by the page allocator (MemTotal).
    pub total: Option<u64>,
    /// Users of memory, largest first.
    pub users: Vec<User>,
    /// Pools of huge pages, by size.
    pub huge: Vec<HugePages>,
    /// Counters by the kernel's names (`enum zone_stat_item`, `node_stat_item`): pages, except
    /// for names that end in `_KB` and counters of events.
    pub counters: BTreeMap<String, i64>,
    /// Facts that could not be read, or that this kernel does not count.
    pub warnings: Vec<String>,
}

/// A use of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct User {
    /// Its name.
    pub name: &'static str,
    /// Bytes.
    pub bytes: u64,
    /// True if other rows include these bytes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub counted_elsewhere: bool,
}

/// A pool of huge pages of one size (struct hstate).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// Size of a huge page, in bytes.
    pub size: u64,
    /// Number of huge pages.
    pub total: u64,
    /// Number of free ones.
    pub free: u64,
}

/// Uses, their counters, and whether other rows include these pages.
const USERS: [(&str, &[&str], bool); 11] = [
    ("free", &["NR_FREE_PAGES"], false),
    (
        "anonymous memory of tasks",
        &["NR_ANON_MAPPED", "NR_ANON_PAGES"],
        false,
    ),
    ("page cache", &["NR_FILE_PAGES"], false),
    ("shared memory and tmpfs", &["NR_SHMEM"], true),
    ("dirty", &["NR_FILE_DIRTY"], true),
    ("swap cache", &["NR_SWAPCACHE"], true),
    (
        "slabs, reclaimable",
        &["NR_SLAB_RECLAIMABLE_B", "NR_SLAB_RECLAIMABLE"],
        false,
    ),
    (
        "slabs, not reclaimable",
        &["NR_SLAB_UNRECLAIMABLE_B", "NR_SLAB_UNRECLAIMABLE"],
        false,
    ),
    ("page tables", &["NR_PAGETABLE"], false),
    ("kernel stacks", &["NR_KERNEL_STACK_KB"], false),
    (
        "other reclaimable kernel allocations",
        &["NR_KERNEL_MISC_RECLAIMABLE"],
        false,
    ),
];

impl MemoryUse {
    /// Reads the kernel's counters.
    pub fn of(program: &Program) -> Result<Self, InspectError> {
        let page_size = 1 << program.kernel().source().page_shift();
        let mut found = Self {
            page_size,
            total: None,
            users: Vec::new(),
            huge: Vec::new(),
            counters: BTreeMap::new(),
            warnings: Vec::new(),
        };
        for (table, names) in [
            ("vm_zone_stat", "zone_stat_item"),
            ("vm_node_stat", "node_stat_item"),
        ] {
            if let Err(error) = found.read_counters(program, table, names) {
                found.warnings.push(error.to_string());
            }
        }
        if found.counters.is_empty() {
            let name = "vm_zone_stat".into();
            return Err(InspectError::NoSymbol { name, option: None });
        }
        // An atomic since 5.0 (commit ca79b0c211af), renamed.
        let total = program
            .variable("_totalram_pages", 8)
            .or_else(|_| program.variable("totalram_pages", 8));
        found.total = total.ok();
        match huge_pages(program, page_size) {
            Ok(huge) => found.huge = huge,
            // Without CONFIG_HUGETLB_PAGE there are none.
            Err(InspectError::NoSymbol { .. }) => {}
            Err(error) => found.warnings.push(format!("huge pages: {error}")),
        }
        found.find_users(program);
        Ok(found)
    }

    fn read_counters(
        &mut self,
        program: &Program,
        table: &str,
        names: &str,
    ) -> Result<(), InspectError> {
        let table = program.symbol(table)?;
        let types = program.types();
        let id = types.find(Named::Enumeration, names)?;
        let id = id.ok_or_else(|| InspectError::NoMember {
            name: format!("enum {names}"),
            option: None,
        })?;
        for (name, index) in types.enumerators(id)? {
            if name.starts_with(NUMBER_OF) || !(0..MAX_COUNTERS).contains(&index) {
                continue;
            }
            let at = table.checked_add(8 * index.cast_unsigned());
            let value = program.number(at.unwrap_or(table), 8)?;
            self.counters.insert(name, value.cast_signed());
        }
        Ok(())
    }

    /// Pages of a counter; negative values are shown as 0, as in the kernel.
    fn pages(&self, names: &[&str]) -> Option<u64> {
        let value = names.iter().find_map(|name| self.counters.get(*name))?;
        Some((*value).max(0).cast_unsigned())
    }

    fn find_users(&mut self, program: &Program) {
        let mut known = 0_u64;
        for (name, counters, counted_elsewhere) in USERS {
            let Some(count) = self.pages(counters) else {
                continue;
            };
            let unit = match counters[0].ends_with("_KB") {
                true => 1024,
                false => self.page_size,
            };
            self.user(
                name,
                count.saturating_mul(unit),
                counted_elsewhere,
                &mut known,
            );
        }
        let huge = self
            .huge
            .iter()
            .map(|pool| pool.total.saturating_mul(pool.size));
        let huge = huge.fold(0, u64::saturating_add);
        self.user("pools of huge pages", huge, false, &mut known);
        if let Ok(pages) = program.variable("nr_vmalloc_pages", 8) {
            let bytes = pages.saturating_mul(self.page_size);
            // Includes the stacks of tasks (CONFIG_VMAP_STACK).
            self.user("vmalloc, with kernel stacks", bytes, true, &mut known);
        }
        if let (Ok(populated), Ok(units)) = (
            program.variable("pcpu_nr_populated", 4),
            program.variable("pcpu_nr_units", 4),
        ) {
            let pages = populated.saturating_mul(units);
            let bytes = pages.saturating_mul(self.page_size);
            self.user("per-CPU data", bytes, false, &mut known);
        }
        if let Some(total) = self.total {
            let rest = total.saturating_mul(self.page_size).saturating_sub(known);
            self.user("not broken down by the kernel", rest, false, &mut known);
        }
        // A row that is part of another stays after it.
        let mut groups: Vec<Vec<User>> = Vec::new();
        for user in self.users.drain(..) {
            match groups
                .last_mut()
                .filter(|_| user.name.starts_with("of it "))
            {
                Some(group) => group.push(user),
                None => groups.push(vec![user]),
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.first().map(|user| user.bytes)));
        self.users = groups.concat();
    }

    fn user(&mut self, name: &'static str, bytes: u64, counted_elsewhere: bool, known: &mut u64) {
        if bytes == 0 {
            return;
        }
        if !counted_elsewhere {
            *known = known.saturating_add(bytes);
        }
        self.users.push(User {
            name,
            bytes,
            counted_elsewhere,
        });
    }
}

/// The pools of huge pages.
fn huge_pages(program: &Program, page_size: u64) -> Result<Vec<HugePages>, InspectError> {
    let table = program.symbol("hstates")?;
    let count = program.variable("hugetlb_max_hstate", 4)?;
    let step = program.size_of("hstate")?;
    let mut pools = Vec::new();
    for index in 0..count.min(MAX_HUGE_SIZES) {
        let at = VirtAddr(table.0.wrapping_add(index.wrapping_mul(step)));
        let member = |path| program.value(at, "hstate", path);
        let order = member("order")?;
        let size = page_size.checked_shl(order as u32).unwrap_or(0);
        let (total, free) = (member("nr_huge_pages")?, member("free_huge_pages")?);
        if total > 0 {
            pools.push(HugePages { size, total, free });
        }
    }
    Ok(pools)
}
