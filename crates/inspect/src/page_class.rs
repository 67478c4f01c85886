//! Classes of page frames, by use.

use bigiron_kernel::page::{KindBits, PageClass, PageKind};
use bigiron_kernel::types::TypeTable;

use crate::error::InspectError;
use crate::program::Program;

/// Number of classes.
pub const CLASSES: usize = 12;

/// A class: its name in JSON, and its title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Name in JSON; the same as in dump summaries.
    pub name: &'static str,
    /// Title for people.
    pub title: &'static str,
}

/// All classes, in the order of all tables of counts.
pub const ALL: [Class; CLASSES] = [
    class("user", "memory of tasks"),
    class("cache", "page cache"),
    class("cache_private", "page cache with private data"),
    class("slab", "slabs"),
    class("page_table", "page tables"),
    class("kernel", "other memory of the kernel"),
    class("reserved", "reserved: kernel image, struct pages, firmware"),
    class("free", "free"),
    class("unaccepted", "unaccepted by the guest"),
    class("hwpoison", "broken"),
    class("offline", "offline"),
    class("unknown", "without a readable struct page"),
];

/// The class of RAM without a readable struct page.
pub const UNKNOWN: usize = CLASSES - 1;

const fn class(name: &'static str, title: &'static str) -> Class {
    Class { name, title }
}

/// Index of a kind in [`ALL`].
pub fn index_of(kind: PageKind) -> usize {
    match kind {
        PageKind::Class(PageClass::User) => 0,
        PageKind::Class(PageClass::Cache) => 1,
        PageKind::Class(PageClass::CachePrivate) => 2,
        PageKind::Slab => 3,
        PageKind::PageTable => 4,
        PageKind::Kernel => 5,
        PageKind::Reserved => 6,
        PageKind::Class(PageClass::Free) => 7,
        PageKind::Class(PageClass::Unaccepted) => 8,
        PageKind::Class(PageClass::HwPoison) => 9,
        PageKind::Class(PageClass::Offline) => 10,
    }
}

/// Facts about struct pages that only types provide.
pub fn kind_bits(program: &Program) -> Result<KindBits, InspectError> {
    let types = program.types();
    let reserved = types.enumerator("PG_reserved")?;
    Ok(KindBits {
        reserved: reserved.and_then(|bit| u32::try_from(bit).ok()),
        page_table: page_table(program)?,
    })
}

/// The `_mapcount` of a page table, which VMCOREINFO lacks.
fn page_table(program: &Program) -> Result<Option<i64>, InspectError> {
    let types = program.types();
    // The type is the top byte since 6.12 (commit 4ffca5a96678).
    if let Some(kind) = types.enumerator("PGTY_table")? {
        return Ok(kind.checked_shl(24));
    }
    // In 6.11 it is a named bit (commit 8db00ad56461).
    if let Some(bit) = types.enumerator("PG_table")? {
        return Ok(Some(!bit));
    }
    // Earlier it was a macro, beside PG_buddy 0x80: 0x400 at first (commit 1d40a5ea01d5, 4.18),
    // 0x200 since PG_kmemcg was removed together with page->mem_cgroup (commit 18b2db3b0385,
    // 5.11).
    let info = program.kernel().info();
    let buddy = info.number("PAGE_BUDDY_MAPCOUNT_VALUE");
    let bit: i64 = match program.has("page", "mem_cgroup") {
        true => 0x400,
        false => 0x200,
    };
    Ok((buddy == Some(!0x80)).then_some(!bit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_names_are_distinct_and_unknown_is_last() {
        let mut names: Vec<_> = ALL.iter().map(|class| class.name).collect();
        assert_eq!(names[UNKNOWN], "unknown");
        assert_eq!(names[index_of(PageKind::Slab)], "slab");
        assert_eq!(names[index_of(PageKind::Class(PageClass::Free))], "free");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CLASSES);
    }
}
