//! Architectures: one folder each, chosen from a table.

mod architecture;
mod arm64;
mod entries;
mod loongarch64;
mod others;
mod ppc64;
mod riscv64;
mod s390x;
#[cfg(feature = "stacks")]
pub mod stacks;
mod table_tree;
mod translator;
pub mod x86_64;

use bigiron_format::bytes::Endian;

use crate::error::KernelError;

pub use architecture::{Architecture, DetermineByteOrder, FindVmcoreinfo, MakeTranslator};
pub use entries::{Entries, TableEntry};
pub use others::{refusal, refusal_of_elf};
pub use table_tree::{SeeTables, TableTree, Target};
pub use translator::{Leaf, Translator};
pub use x86_64::tables as x86_64_tables;

/// The supported architectures.
pub static ARCHITECTURES: &[Architecture] = &[
    x86_64::ARCHITECTURE,
    arm64::ARCHITECTURE,
    ppc64::ARCHITECTURE,
    s390x::ARCHITECTURE,
    riscv64::ARCHITECTURE,
    loongarch64::ARCHITECTURE,
];

/// Finds an architecture by a name of its machine.
pub fn find(name: &str) -> Result<&'static Architecture, KernelError> {
    let found = ARCHITECTURES.iter().find(|known| known.is_named(name));
    found.ok_or_else(|| KernelError::UnknownArchitecture {
        name: name.into(),
        known: names(),
    })
}

/// Finds an architecture by the `e_machine` of its ELF cores.
pub fn find_elf(machine: u16) -> Option<&'static Architecture> {
    ARCHITECTURES
        .iter()
        .find(|architecture| architecture.elf_machine == machine)
}

/// Finds an architecture by the byte order of a dump's headers and the size of its NT_PRSTATUS
/// notes: QEMU does not name every machine in its kdump-compressed dumps.
pub fn find_prstatus(size: usize, endian: Endian) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|architecture| {
        let mut orders = architecture.byte_orders.iter();
        architecture.prstatus_size == size && orders.any(|(order, _)| *order == endian)
    })
}

/// Names of the supported architectures, for messages.
pub fn names() -> String {
    let names: Vec<_> = ARCHITECTURES.iter().map(|known| known.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use super::*;

    #[test]
    fn every_machine_is_found_by_each_of_its_names_and_its_registers() {
        for architecture in ARCHITECTURES {
            for (endian, name) in architecture.byte_orders {
                assert_eq!(architecture.machine(*endian), *name);
                let by_registers = find_prstatus(architecture.prstatus_size, *endian).unwrap();
                for found in [find(name).unwrap(), by_registers] {
                    assert_eq!(found.name, architecture.name);
                }
            }
            for alias in architecture.aliases {
                assert_eq!(find(alias).unwrap().name, architecture.name);
            }
            let by_elf = find_elf(architecture.elf_machine).unwrap();
            assert_eq!(by_elf.name, architecture.name);
        }
        assert!(find("pdp11").is_err());
    }
}
