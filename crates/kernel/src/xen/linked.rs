//! The hypervisor's VMCOREINFO out of xen-syms, its linked image with debug information, for dumps
//! without it.

use std::fmt::Write;

use crate::error::KernelError;
use crate::linked_vmcoreinfo::size;
use crate::types::dwarf::Dwarf;
use crate::types::{find_nested_member, structure};
use crate::vmlinux::Vmlinux;

/// Symbols, by their names in VMCOREINFO and in the image. All but frame_table, which has a fixed
/// address in most versions, are needed.
const SYMBOLS: [(&str, &str, bool); 6] = [
    ("domain_list", "domain_list", true),
    ("frame_table", "frame_table", false),
    ("max_page", "max_page", true),
    ("dom_xen", "dom_xen", true),
    ("dom_io", "dom_io", true),
    ("pgd_l4", "idle_pg_table", true),
];
const SIZES: [&str; 2] = ["page_info", "domain"];
const OFFSETS: [&str; 4] = [
    "page_info.count_info",
    "page_info._domain",
    "domain.domain_id",
    "domain.next_in_list",
];

/// Creates the text.
///
/// # Errors
/// `xen_syms` cannot be read, or has no debug information or not what the hypervisor has.
pub fn linked_vmcoreinfo(xen_syms: &Vmlinux) -> Result<String, KernelError> {
    let symbols = xen_syms.symbols()?;
    let lacks = |what: &str| xen_syms.unusable(&format!("has no {what}; give xen-syms"));
    let mut text = "PAGESIZE=4096\n".to_owned();
    for (key, name, is_needed) in SYMBOLS {
        match symbols.find(name) {
            Some(symbol) => {
                let _ = writeln!(text, "SYMBOL({key})={:x}", symbol.address.0);
            }
            None if is_needed => return Err(lacks(&format!("symbol {name}"))),
            None => {}
        }
    }
    let dwarf = Dwarf::open(xen_syms)?.ok_or_else(|| {
        xen_syms.unusable(
            "has no .debug_info, which the package of a distribution may lack; give xen-syms of a \
             build with debug information, or the text that another host of the same build has in \
             its note VMCOREINFO_XEN (--xen-vmcoreinfo)",
        )
    })?;
    for name in SIZES {
        let size = size(&dwarf, name)?.ok_or_else(|| lacks(&format!("struct {name}")))?;
        let _ = writeln!(text, "SIZE({name})={size}");
    }
    for name in OFFSETS {
        let (outer, member) = name.split_once('.').unwrap_or_default();
        let outer = structure(&dwarf, outer)?.ok_or_else(|| lacks(name))?;
        // _domain is in a union of what a page frame is used for.
        let place = find_nested_member(&dwarf, outer, member)?.ok_or_else(|| lacks(name))?;
        let _ = writeln!(text, "OFFSET({name})={}", place.offset);
    }
    Ok(text)
}
