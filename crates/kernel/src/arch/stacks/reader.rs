//! What unwinding needs of a kernel.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use super::Reason;
use crate::types::MemberLocation;

/// A function of the kernel or of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its first instruction.
    pub start: u64,
}

/// A kernel whose stacks are unwound: its memory, symbols and types.
pub trait StackReader {
    /// VMCOREINFO of the kernel.
    fn info(&self) -> &Vmcoreinfo;

    /// Byte order of the kernel's memory.
    fn endian(&self) -> Endian;

    /// Fills `buf` with kernel memory; `what` names the data in messages.
    fn read(&self, what: &'static str, at: u64, buf: &mut [u8]) -> Result<(), Reason>;

    /// Returns the address of a symbol of the kernel.
    fn symbol(&self, name: &str) -> Option<VirtAddr>;

    /// Returns the function that contains `address`; `None` for any other memory.
    fn function_at(&self, address: u64) -> Option<Function<'_>>;

    /// Returns the address of the struct module whose code contains `address`.
    fn module_at(&self, address: u64) -> Option<VirtAddr>;

    /// Locates a member; `path` may go through nested structs.
    fn locate(&self, structure: &str, path: &str) -> Result<Option<MemberLocation>, Reason>;

    /// Reads a number at a location relative to `at`.
    fn value_at(&self, at: VirtAddr, member: &MemberLocation) -> Result<u64, Reason>;

    /// Returns the size of a struct, in bytes.
    fn size_of(&self, structure: &str) -> Result<Option<u64>, Reason>;
}

impl dyn StackReader + '_ {
    /// Reads a number of 4 bytes.
    pub fn half(&self, at: u64) -> Result<u32, Reason> {
        let mut bytes = [0; 4];
        self.read("a number", at, &mut bytes)?;
        Ok(self.endian().u32(&bytes, 0).unwrap_or(0))
    }

    /// Reads a word of a stack.
    pub fn word(&self, at: u64) -> Result<u64, Reason> {
        let mut bytes = [0; 8];
        self.read("a word of a stack", at, &mut bytes)?;
        Ok(self.endian().u64(&bytes, 0).unwrap_or(0))
    }

    /// Locates a member that all kernels have.
    pub fn member(&self, structure: &str, path: &str) -> Result<MemberLocation, Reason> {
        let found = self.locate(structure, path)?;
        found.ok_or_else(|| Reason(format!("the kernel has no {structure}.{path}")))
    }

    /// Reads a number from a member.
    pub fn value(&self, at: VirtAddr, structure: &str, path: &str) -> Result<u64, Reason> {
        self.value_at(at, &self.member(structure, path)?)
    }
}
