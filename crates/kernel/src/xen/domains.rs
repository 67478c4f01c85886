//! The hypervisor's list of domains (domain_list, xen/common/domain.c).

use bigiron_format::VirtAddr;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use super::space::Space;
use crate::error::KernelError;
use crate::memory::PhysicalMemory;

/// Identifiers of domains are below this (DOMID_FIRST_RESERVED, xen/include/public/xen.h).
pub(super) const FIRST_RESERVED: u16 = 0x7ff0;
/// Maximum offset of a member, and size of a struct domain.
const MAX_SIZE: usize = 1 << 16;

/// A domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its identifier; that of dom0 is 0.
    pub id: u16,
    /// Address of its struct domain.
    pub address: VirtAddr,
}

/// Reads the list of domains.
pub(super) fn read(
    space: &Space,
    memory: &PhysicalMemory,
    info: &Vmcoreinfo,
) -> Result<Vec<Domain>, KernelError> {
    let missing = |key: String| KernelError::XenHost {
        reason: format!("the hypervisor's VMCOREINFO has no usable {key}"),
    };
    let offset = |name: &str| {
        let offset = info.offset(name).filter(|offset| *offset < MAX_SIZE);
        offset.ok_or_else(|| missing(format!("OFFSET({name})")))
    };
    let (id, next) = (offset("domain.domain_id")?, offset("domain.next_in_list")?);
    let list = info
        .symbol("domain_list")
        .ok_or_else(|| missing("SYMBOL(domain_list)".into()))?;
    let mut domains: Vec<Domain> = Vec::new();
    let mut at = space.read_u64(memory, "domain_list", list)?;
    while at != 0 {
        let member = |offset: usize| VirtAddr(at.wrapping_add(offset as u64));
        let mut bytes = [0; 2];
        space.read(memory, "domain_id of a domain", member(id), &mut bytes)?;
        let domain = Domain {
            id: u16::from_le_bytes(bytes),
            address: VirtAddr(at),
        };
        // The list is in ascending order of identifiers, so that it cannot be endless.
        let sorted = domains.last().is_none_or(|last| last.id < domain.id);
        if !sorted || domain.id >= FIRST_RESERVED {
            return Err(KernelError::XenHost {
                reason: format!(
                    "the hypervisor's list of domains (domain_list) is damaged: domain {} at \
                     {:#x} follows {} domains",
                    domain.id,
                    at,
                    domains.len()
                ),
            });
        }
        domains.push(domain);
        at = space.read_u64(memory, "next_in_list of a domain", member(next))?;
    }
    Ok(domains)
}
