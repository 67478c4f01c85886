//! The hypervisor's addresses: the image is found by the address that it was loaded for, all
//! others by the hypervisor's page tables (idle_pg_table, xen/arch/x86/boot/x86_64.S).

use std::fmt;

use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::{PhysAddr, VirtAddr};

use crate::arch::{Entries, Leaf, Translator, x86_64_tables};
use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;

/// The hypervisor's image lies in an aligned range of this size (XEN_VIRT_START,
/// xen/arch/x86/include/asm/config.h). Only its position depends on the version.
const IMAGE_RANGE: u64 = 1 << 30;
/// Bytes of it that are searched for the image, which has less than half.
const MAX_IMAGE: u64 = 16 << 20;

const PAGE: u64 = 4096;

/// The hypervisor's address space.
pub(super) struct Space {
    root: PhysAddr,
    tables: Box<dyn Translator>,
    /// Start of the image's range.
    image: VirtAddr,
}

impl Clone for Space {
    fn clone(&self) -> Self {
        Self {
            root: self.root,
            tables: x86_64_tables(self.root),
            image: self.image,
        }
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Space({:#x})", self.root.0)
    }
}

impl Space {
    /// Finds the page tables by SYMBOL(pgd_l4) of `info`. `start` is the physical address that
    /// the image was loaded for.
    ///
    /// # Errors
    /// The symbol is missing, or the tables do not map the image where it is.
    pub(super) fn find(
        info: &Vmcoreinfo,
        start: PhysAddr,
        memory: &PhysicalMemory,
    ) -> Result<Self, KernelError> {
        let symbol = |name: &str| {
            info.symbol(name).ok_or_else(|| KernelError::XenHost {
                reason: format!("the hypervisor's VMCOREINFO has no SYMBOL({name})"),
            })
        };
        let (root, list) = (symbol("pgd_l4")?, symbol("domain_list")?);
        let in_image = |address: VirtAddr| PhysAddr(start.0.wrapping_add(address.0 % IMAGE_RANGE));
        let space = Self {
            root: in_image(root),
            tables: x86_64_tables(in_image(root)),
            image: VirtAddr(list.0 / IMAGE_RANGE * IMAGE_RANGE),
        };
        let found = space.translate(memory, list)?.map(|leaf| leaf.physical);
        if found == Some(in_image(list)) {
            return Ok(space);
        }
        let found = found.map_or_else(|| "no memory".into(), |at| format!("{:#x}", at.0));
        Err(KernelError::XenHost {
            reason: format!(
                "the hypervisor's page tables at machine address {:#x} map {list} (domain_list) \
                 to {found}, expected {:#x}, which is xen_phys_start ({:#x}) and the offset in \
                 the image",
                in_image(root).0,
                in_image(list).0,
                start.0
            ),
        })
    }

    /// Start of the address range of the hypervisor's image.
    pub(super) fn image_start(&self) -> VirtAddr {
        self.image
    }

    /// Returns the hypervisor's image: the first bytes of its range, zeros where they are not
    /// mapped or missing, up to the last page that is there.
    pub(super) fn image(&self, memory: &PhysicalMemory) -> Result<Vec<u8>, SourceError> {
        let mut bytes = Vec::new();
        let mut at = 0;
        while at < MAX_IMAGE {
            let address = VirtAddr(self.image.0.wrapping_add(at));
            // A gap is skipped by pages: its start need not be aligned like the table's entry.
            let leaf = self.translate(memory, address)?;
            let len = leaf.map_or(PAGE, |leaf| leaf.len.min(MAX_IMAGE - at));
            if let Some(leaf) = leaf {
                for page in (0..len).step_by(PAGE as usize) {
                    let start = (at + page) as usize;
                    bytes.resize(start + PAGE as usize, 0);
                    let physical = PhysAddr(leaf.physical.0.wrapping_add(page));
                    match memory.read(physical, &mut bytes[start..]) {
                        Err(error) if !error.is_one_page() => return Err(error),
                        _ => {}
                    }
                }
            }
            at += len;
        }
        Ok(bytes)
    }

    /// Translates a hypervisor address; returns `None` if it is not mapped.
    pub(super) fn translate(
        &self,
        memory: &PhysicalMemory,
        address: VirtAddr,
    ) -> Result<Option<Leaf>, SourceError> {
        self.tables.walk(&mut Entries::new(memory), address)
    }

    /// Translates an address that is aligned like the tables' entries; returns where it is
    /// mapped, and the bytes from there on that are mapped, or not mapped, by the same entry.
    pub(super) fn leaf_or_gap(
        &self,
        memory: &PhysicalMemory,
        address: VirtAddr,
    ) -> Result<(Option<PhysAddr>, u64), SourceError> {
        let mut levels = 0;
        let mut count = |_| levels += 1;
        let mut entries = Entries::seen_by(memory, &mut count);
        let leaf = self.tables.walk(&mut entries, address)?;
        Ok(match leaf {
            Some(leaf) => (Some(leaf.physical), leaf.len),
            // The first entry covers 512 GiB, and each further one a 512th part of that.
            None => (None, 1 << (48 - 9 * levels)),
        })
    }

    /// Fills `buf` from `address`; `what` names the data in messages.
    pub(super) fn read(
        &self,
        memory: &PhysicalMemory,
        what: &str,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError> {
        let (mut at, mut done) = (address, 0);
        while done < buf.len() {
            let not_mapped = || KernelError::XenHost {
                reason: format!("hypervisor address {at} ({what}) is not mapped"),
            };
            let leaf = self.translate(memory, at)?.ok_or_else(not_mapped)?;
            let len = leaf.len.min((buf.len() - done) as u64) as usize;
            memory.read(leaf.physical, &mut buf[done..done + len])?;
            done += len;
            at = at.checked_add(len as u64).ok_or_else(not_mapped)?;
        }
        Ok(())
    }

    /// Reads a 64-bit word.
    pub(super) fn read_u64(
        &self,
        memory: &PhysicalMemory,
        what: &str,
        address: VirtAddr,
    ) -> Result<u64, KernelError> {
        let mut bytes = [0; 8];
        self.read(memory, what, address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}
