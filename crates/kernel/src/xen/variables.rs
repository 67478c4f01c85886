//! Variables and texts of the hypervisor, most of which its own table of symbols leads to.

use bigiron_format::{PhysAddr, VirtAddr};

use super::host::Host;
use crate::error::{KernelError, SourceError};

/// Maximum size of the console's ring; the hypervisor's option conring_size takes less.
const MAX_CONSOLE: u64 = 64 << 20;
/// Bytes of a text about the build.
const TEXT: usize = 128;
/// Bytes of saved_cmdline (xen/common/kernel.c).
const COMMAND_LINE: usize = 1024;

impl Host<'_> {
    /// Returns a text of the hypervisor's image, such as its changeset; empty if it cannot be
    /// read.
    pub fn text(&self, address: PhysAddr) -> String {
        let mut bytes = [0; TEXT];
        match self.memory().read(address, &mut bytes) {
            Ok(()) => text_of(&bytes),
            Err(_) => String::new(),
        }
    }

    /// Returns the hypervisor's own count of free page frames (total_avail_pages,
    /// xen/common/page_alloc.c); `None` if its table of symbols does not have it.
    ///
    /// # Errors
    /// The source fails as a whole.
    pub fn free_pages(&self) -> Result<Option<u64>, KernelError> {
        Ok(self.variable("total_avail_pages", 8)?)
    }

    /// Returns the command line that the hypervisor was started with (saved_cmdline,
    /// xen/common/kernel.c); `None` if its table of symbols does not have it.
    ///
    /// # Errors
    /// The source fails as a whole.
    pub fn command_line(&self) -> Result<Option<String>, KernelError> {
        let mut bytes = [0; COMMAND_LINE];
        let Some(address) = self.address_of("saved_cmdline")? else {
            return Ok(None);
        };
        let read = self
            .space()
            .read(self.memory(), "saved_cmdline", address, &mut bytes);
        Ok(read.ok().map(|()| text_of(&bytes)))
    }

    /// Returns what the hypervisor printed on its console last (the ring conring,
    /// xen/drivers/char/console.c).
    ///
    /// # Errors
    /// The ring is not found, or a part of it is missing.
    pub fn console(&self) -> Result<Vec<u8>, KernelError> {
        let variable = |name: &'static str, len| {
            self.variable(name, len)?
                .ok_or_else(|| KernelError::XenHost {
                    reason: format!(
                        "{name} is not found: the hypervisor's image has no table of symbols, or \
                         one without variables"
                    ),
                })
        };
        let (ring, size) = (variable("conring", 8)?, variable("conring_size", 4)?);
        let end = variable("conringp", 4)?;
        if !size.is_power_of_two() || size > MAX_CONSOLE {
            return Err(KernelError::XenHost {
                reason: format!(
                    "conring_size is {size}, expected a power of two up to {MAX_CONSOLE}"
                ),
            });
        }
        let mut bytes = vec![0; size as usize];
        let address = VirtAddr(ring);
        self.space()
            .read(self.memory(), "conring", address, &mut bytes)?;
        // Bytes that are overwritten are older than those that follow.
        bytes.rotate_left((end % size) as usize);
        let unused = bytes.iter().take_while(|byte| **byte == 0).count();
        Ok(bytes.split_off(unused))
    }

    /// Returns a pointer that each CPU has, of the CPU whose variables are `offset` behind the
    /// symbol.
    pub(super) fn per_cpu_pointer(
        &self,
        name: &str,
        offset: u64,
    ) -> Result<Option<u64>, KernelError> {
        let Some(address) = self.address_of(name)? else {
            return Ok(None);
        };
        let words = self.words(address.0.wrapping_add(offset), 1)?;
        Ok(words.and_then(|words| words.first().copied()))
    }

    /// Returns the address of a variable, if the table of symbols has it.
    fn address_of(&self, name: &str) -> Result<Option<VirtAddr>, SourceError> {
        let offset = self.symbols()?.and_then(|symbols| symbols.find(name));
        let start = self.space().image_start();
        Ok(offset.map(|offset| VirtAddr(start.0.wrapping_add(offset))))
    }

    /// Returns the value of a variable of `len` bytes, if the table of symbols has it.
    fn variable(&self, name: &'static str, len: usize) -> Result<Option<u64>, SourceError> {
        let Some(address) = self.address_of(name)? else {
            return Ok(None);
        };
        let mut bytes = [0; 8];
        let read = self
            .space()
            .read(self.memory(), name, address, &mut bytes[..len]);
        Ok(read.ok().map(|()| u64::from_le_bytes(bytes)))
    }
}

/// Returns the text before the first NUL.
fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let text = &bytes[..end.unwrap_or(bytes.len())];
    String::from_utf8_lossy(text).trim().to_owned()
}
