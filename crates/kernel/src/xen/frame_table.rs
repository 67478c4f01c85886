//! The frame table: an array of struct page_info (xen/arch/x86/include/asm/mm.h).

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use super::count_info::Layout;
use super::space::Space;
use crate::error::KernelError;
use crate::memory::PhysicalMemory;

/// Starts of the frame table where VMCOREINFO has no pointer to it: since 4.3, before, and with
/// CONFIG_BIGMEM (FRAMETABLE_VIRT_START).
const FRAME_TABLES: [VirtAddr; 3] = [
    VirtAddr(0xffff_82e0_0000_0000),
    VirtAddr(0xffff_82f6_0000_0000),
    BIG_FRAME_TABLE,
];
const BIG_FRAME_TABLE: VirtAddr = VirtAddr(0xffff_8300_0000_0000);
/// Sizes of struct page_info.
const PAGE_INFO_SIZES: std::ops::RangeInclusive<usize> = 24..=128;
/// The array of struct page_info.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameTable {
    pub(super) start: VirtAddr,
    /// Bytes of an entry.
    pub(super) size: usize,
    pub(super) count_info: usize,
    pub(super) domain: usize,
    pub(super) layout: Layout,
}

impl FrameTable {
    /// Finds the table by the hypervisor's VMCOREINFO.
    pub(super) fn find(
        space: &Space,
        memory: &PhysicalMemory,
        info: &Vmcoreinfo,
    ) -> Result<Self, KernelError> {
        let unusable = |key: &str| KernelError::XenHost {
            reason: format!("the hypervisor's VMCOREINFO has no usable {key}"),
        };
        let size = info.size("page_info");
        let size = size.filter(|size| PAGE_INFO_SIZES.contains(size));
        let size = size.ok_or_else(|| unusable("SIZE(page_info)"))?;
        let offset = |name: &str, bytes: usize| {
            let offset = info.offset(name).filter(|offset| *offset <= size - bytes);
            offset.ok_or_else(|| unusable(&format!("OFFSET({name})")))
        };
        let start = match info.symbol("frame_table") {
            Some(symbol) => VirtAddr(space.read_u64(memory, "frame_table", symbol)?),
            None => {
                let mut mapped = None;
                for start in FRAME_TABLES {
                    if mapped.is_none() && space.translate(memory, start)?.is_some() {
                        mapped = Some(start);
                    }
                }
                mapped.ok_or_else(|| unusable("SYMBOL(frame_table)"))?
            }
        };
        Ok(Self {
            start,
            size,
            count_info: offset("page_info.count_info", 8)?,
            domain: offset("page_info._domain", 4)?,
            layout: Layout::usual(4, 17),
        })
    }

    /// Returns true if the hypervisor is built for more than 16 TiB (CONFIG_BIGMEM): then the
    /// direct map is elsewhere, and numbers of owners have 64 bits.
    pub(super) fn is_big(&self) -> bool {
        self.start == BIG_FRAME_TABLE
    }

    /// Returns the address of the entry of the page frame with this index.
    pub(super) fn entry(&self, index: u64) -> VirtAddr {
        let offset = index.wrapping_mul(self.size as u64);
        VirtAddr(self.start.0.wrapping_add(offset))
    }

    /// Returns count_info of an entry.
    pub(super) fn count(&self, entry: &[u8]) -> u64 {
        word(entry, self.count_info)
    }

    /// Returns true if the word behind count_info is type_info, as it is in all known versions.
    pub(super) fn has_type_info(&self) -> bool {
        self.domain == self.count_info + 16
    }

    /// Returns type_info of an entry.
    pub(super) fn type_info(&self, entry: &[u8]) -> u64 {
        word(entry, self.count_info + 8)
    }

    /// Returns the number of the owner in an entry, 0 for none.
    pub(super) fn owner(&self, entry: &[u8]) -> u64 {
        if self.is_big() {
            return word(entry, self.domain);
        }
        let number = Endian::Little.u32(entry, self.domain);
        number.map_or(0, u64::from)
    }
}

/// Returns the little-endian number at `offset`; 0 if the entry ends before.
fn word(entry: &[u8], offset: usize) -> u64 {
    Endian::Little.u64(entry, offset).unwrap_or_default()
}
