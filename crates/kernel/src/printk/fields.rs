//! VMCOREINFO keys and fields of the kernel's structures.

use bigiron_format::VirtAddr;

use crate::error::KernelError;
use crate::kernel_memory::KernelMemory;

const PURPOSE: &str = "read the kernel log";

/// Maximum size of a structure of the log, which bounds allocations; the largest real one,
/// printk_info, has 88 bytes.
const MAX_STRUCTURE: usize = 4096;

pub(super) fn symbol(memory: &dyn KernelMemory, name: &str) -> Result<VirtAddr, KernelError> {
    memory
        .info()
        .symbol(name)
        .ok_or_else(|| KernelError::missing(format!("SYMBOL({name})"), PURPOSE))
}

/// Reads SIZE(`name`) of a structure.
pub(super) fn size(memory: &dyn KernelMemory, name: &str) -> Result<usize, KernelError> {
    let size = memory
        .info()
        .size(name)
        .ok_or_else(|| KernelError::missing(format!("SIZE({name})"), PURPOSE))?;
    if size == 0 || size > MAX_STRUCTURE {
        return Err(KernelError::Implausible {
            what: format!("SIZE({name}) in VMCOREINFO"),
            found: size.to_string(),
            expected: "1 to 4096",
        });
    }
    Ok(size)
}

/// Reads OFFSET(`name`) of a member that ends within its structure's `size` bytes.
pub(super) fn offset(
    memory: &dyn KernelMemory,
    name: &str,
    width: usize,
    size: usize,
) -> Result<usize, KernelError> {
    optional_offset(memory, name, width, size)?
        .ok_or_else(|| KernelError::missing(format!("OFFSET({name})"), PURPOSE))
}

/// Reads the [`offset`] of a member that some kernels lack.
pub(super) fn optional_offset(
    memory: &dyn KernelMemory,
    name: &str,
    width: usize,
    size: usize,
) -> Result<Option<usize>, KernelError> {
    let Some(offset) = memory.info().offset(name) else {
        return Ok(None);
    };
    if offset.checked_add(width).is_none_or(|end| end > size) {
        return Err(KernelError::Implausible {
            what: format!("OFFSET({name}) in VMCOREINFO"),
            found: offset.to_string(),
            expected: "a place inside of its structure",
        });
    }
    Ok(Some(offset))
}

pub(super) fn read_u32(
    memory: &dyn KernelMemory,
    what: &'static str,
    address: VirtAddr,
) -> Result<u32, KernelError> {
    let mut buf = [0; 4];
    memory.read(what, address, &mut buf)?;
    Ok(memory.endian().u32(&buf, 0).unwrap_or(0))
}

pub(super) fn read_u64(
    memory: &dyn KernelMemory,
    what: &'static str,
    address: VirtAddr,
) -> Result<u64, KernelError> {
    let mut buf = [0; 8];
    memory.read(what, address, &mut buf)?;
    Ok(memory.endian().u64(&buf, 0).unwrap_or(0))
}

/// Returns `base` + `index` * `size`; with a hostile base this wraps to an unmapped address.
pub(super) fn element(base: VirtAddr, index: u64, size: usize) -> VirtAddr {
    VirtAddr(base.0.wrapping_add(index.wrapping_mul(size as u64)))
}

/// Reads log_buf and log_buf_len: address and size of a log of records or text.
pub(super) fn log_buf(memory: &dyn KernelMemory) -> Result<(VirtAddr, u32), KernelError> {
    let base = read_u64(memory, "log_buf", symbol(memory, "log_buf")?)?;
    let len = read_u32(memory, "log_buf_len", symbol(memory, "log_buf_len")?)?;
    // log_buf_len is an int in older kernels; LOG_BUF_LEN_MAX is 2 GiB in newer ones.
    if len == 0 || len > 1 << 31 {
        return Err(KernelError::Implausible {
            what: "log_buf_len".into(),
            found: len.to_string(),
            expected: "1 byte to 2 GiB",
        });
    }
    Ok((VirtAddr(base), len))
}

/// Returns level and facility from two bytes of a record: `u8 facility; u8 flags:5; u8
/// level:3;`.
pub(super) fn level_and_facility(
    memory: &dyn KernelMemory,
    record: &[u8],
    at: usize,
) -> Option<(u8, u8)> {
    use bigiron_format::bytes::Endian;
    let facility = *record.get(at)?;
    let bits = *record.get(at + 1)?;
    // Bit fields are allocated from the low end on little-endian machines.
    let level = match memory.endian() {
        Endian::Little => bits >> 5,
        Endian::Big => bits & 7,
    };
    Some((level, facility))
}
