//! What unwinding reads of a program.

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::arch::stacks::{Function, Reason, StackReader};
use bigiron_kernel::types::MemberLocation;

use crate::error::InspectError;
use crate::program::Program;

impl StackReader for Program<'_, '_> {
    fn info(&self) -> &Vmcoreinfo {
        self.kernel().info()
    }

    fn endian(&self) -> Endian {
        self.kernel().source().endian()
    }

    fn read(&self, what: &'static str, at: u64, buf: &mut [u8]) -> Result<(), Reason> {
        Program::read(self, what, VirtAddr(at), buf).map_err(reason)
    }

    fn symbol(&self, name: &str) -> Option<VirtAddr> {
        Program::symbol(self, name).ok()
    }

    fn function_at(&self, address: u64) -> Option<Function<'_>> {
        self.symbol_at(VirtAddr(address)).map(|found| Function {
            name: found.symbol.name,
            start: found.symbol.address.0,
        })
    }

    fn module_at(&self, address: u64) -> Option<VirtAddr> {
        let found = self.modules().at(VirtAddr(address));
        found.map(|(module, _)| module.address)
    }

    fn locate(&self, structure: &str, path: &str) -> Result<Option<MemberLocation>, Reason> {
        or_none(Program::locate(self, structure, path))
    }

    fn value_at(&self, at: VirtAddr, member: &MemberLocation) -> Result<u64, Reason> {
        Program::value_at(self, at, member).map_err(reason)
    }

    fn size_of(&self, structure: &str) -> Result<Option<u64>, Reason> {
        or_none(Program::size_of(self, structure))
    }
}

fn reason(error: InspectError) -> Reason {
    Reason(error.to_string())
}

fn or_none<T>(found: Result<T, InspectError>) -> Result<Option<T>, Reason> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(InspectError::NoMember { .. }) => Ok(None),
        Err(error) => Err(reason(error)),
    }
}
