//! The memory of a process, by its own page tables.

use bigiron_format::{PhysAddr, VirtAddr};
use bigiron_kernel::KernelError;

use crate::error::InspectError;
use crate::program::Program;

/// The address space of a process.
#[derive(Clone, Copy)]
pub struct UserMemory<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    root: PhysAddr,
}

impl<'p, 'k, 's> UserMemory<'p, 'k, 's> {
    /// The address space of the mm_struct at `memory`.
    ///
    /// # Errors
    ///
    /// The top page table is not mapped.
    pub fn of(program: &'p Program<'k, 's>, memory: VirtAddr) -> Result<Self, InspectError> {
        let top = program.pointer(memory, "mm_struct", "pgd")?;
        let leaf = program.kernel().translate(top)?;
        let leaf = leaf.ok_or(KernelError::NotMapped {
            what: "the page table of a process",
            address: top,
        })?;
        Ok(Self {
            program,
            root: leaf.physical,
        })
    }

    /// Reads memory of the process; `what` names it in messages.
    ///
    /// # Errors
    ///
    /// A page is not mapped, or not in the dump.
    pub fn read(
        &self,
        what: &'static str,
        at: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), InspectError> {
        let kernel = self.program.kernel();
        let (mut at, mut done) = (at, 0);
        while done < buf.len() {
            self.program.step(1)?;
            let not_mapped = KernelError::NotMapped { what, address: at };
            let Some(leaf) = kernel.translate_user(self.root, at)? else {
                return Err(not_mapped.into());
            };
            let left = buf.get_mut(done..).unwrap_or_default();
            let len = leaf.len.min(left.len() as u64) as usize;
            let part = left.get_mut(..len).unwrap_or_default();
            kernel.memory().read(leaf.physical, part)?;
            done += len;
            at = at.checked_add(len as u64).ok_or(not_mapped)?;
        }
        Ok(())
    }

    /// Reads a word of the process.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn word(&self, what: &'static str, at: VirtAddr) -> Result<u64, InspectError> {
        let mut bytes = [0; 8];
        self.read(what, at, &mut bytes)?;
        let endian = self.program.kernel().source().endian();
        Ok(endian.u64(&bytes, 0).unwrap_or(0))
    }
}
