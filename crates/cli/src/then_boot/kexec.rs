//! The system calls that load the next kernel and start it.

use std::borrow::Cow;
use std::io;

use anyhow::{Context, bail};

/// A part of the next kernel.
pub struct Segment<'a> {
    /// Physical address, a multiple of the page size.
    pub address: u64,
    /// Its bytes; zeros follow them.
    pub bytes: Cow<'a, [u8]>,
    /// Bytes of memory from `address` on, a multiple of the page size.
    pub size: u64,
}

impl<'a> Segment<'a> {
    /// `bytes` and zeros in `size` bytes of memory at `address`.
    pub fn new(address: u64, bytes: Cow<'a, [u8]>, size: u64) -> Self {
        Self {
            address,
            bytes,
            size,
        }
    }
}

/// struct kexec_segment (include/uapi/linux/kexec.h).
#[repr(C)]
struct RawSegment {
    buf: *const libc::c_void,
    bufsz: libc::size_t,
    mem: libc::c_ulong,
    memsz: libc::size_t,
}

/// Loads a kernel and starts it: the devices are shut down first, as for a reboot. Returns only
/// if that fails.
///
/// # Errors
/// The kernel refuses: with the reason, if it is a rule and not a lack of memory.
pub fn start(entry: u64, segments: &[Segment]) -> anyhow::Result<()> {
    let raw: Vec<_> = segments
        .iter()
        .map(|segment| RawSegment {
            buf: segment.bytes.as_ptr().cast(),
            bufsz: segment.bytes.len(),
            mem: segment.address as libc::c_ulong,
            memsz: segment.size as libc::size_t,
        })
        .collect();
    // SAFETY: `raw` has `raw.len()` segments, each of which points to that many bytes, and the
    // kernel only reads them. KEXEC_ARCH_DEFAULT is 0.
    let loaded = unsafe { libc::syscall(libc::SYS_kexec_load, entry, raw.len(), raw.as_ptr(), 0) };
    if loaded != 0 {
        let error = io::Error::last_os_error();
        let is_rule = error.raw_os_error() == Some(libc::EPERM);
        return Err(error).context(match is_rule {
            true => {
                "kexec_load is not allowed: Secure Boot or lockdown (/sys/kernel/security/lockdown), \
                 kernel.kexec_load_disabled, or no CAP_SYS_BOOT"
            }
            false => "kexec_load",
        });
    }
    rustix::fs::sync();
    // SAFETY: the call has no pointers; it does not return unless it fails.
    unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_KEXEC) };
    let error = io::Error::last_os_error();
    bail!("the kernel is loaded but does not start: {error}")
}
