//! What the headers of a file do not say about its machine: the kernel's page size, and its byte
//! order.
//!
//! QEMU writes ELF cores without either on the machines that have a choice: its headers have the
//! byte order of the processor at reset, and the blocks of its kdump-compressed dumps are as large
//! as the largest pages. VMCOREINFO tells, in a note or in memory.

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use super::MemorySource;
use super::file::IoMethod;
use crate::arch::Architecture;
use crate::memory::PhysicalMemory;
use crate::vmcoreinfo::{self, is_plausible};

/// What a kernel's memory is to be read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Byte order of the kernel.
    pub(super) endian: Endian,
    /// log2 of the kernel's page size.
    pub(super) page_shift: u32,
}

/// Determines the identity of the kernel in `source`. `header` is the byte order of the file's
/// headers, and `page_shift` is log2 of the largest page size that they allow.
pub(super) fn identify(
    source: &dyn MemorySource,
    architecture: &Architecture,
    header: Endian,
    page_shift: Option<u32>,
) -> Identity {
    let noted = source.vmcoreinfo_note();
    // A damaged line must not hide the others.
    let noted = noted.map(|note| Vmcoreinfo::sound_lines(note.text));
    let mut choices = architecture.page_shifts.iter().copied();
    let possible = |shift: &u32| page_shift.is_none_or(|most| *shift <= most);
    let default = choices.clone().find(possible);
    let default = Identity {
        endian: architecture.usual_byte_order(header),
        page_shift: page_shift
            .or(default)
            .unwrap_or(architecture.usual_page_shift()),
    };
    // One that the architecture does not have is damage.
    let noted_shift = noted
        .as_ref()
        .and_then(Vmcoreinfo::page_shift)
        .filter(|shift| architecture.page_shifts.contains(shift));
    let is_certain = noted_shift.is_some() || choices.by_ref().filter(possible).count() <= 1;
    let determine = match architecture.byte_order {
        None if is_certain => {
            return Identity {
                page_shift: noted_shift.unwrap_or(default.page_shift),
                ..default
            };
        }
        determine => determine,
    };
    let memory = PhysicalMemory::new(source, IoMethod::Read, PhysicalMemory::DEFAULT_CACHE_PAGES);
    let by = |info: &Vmcoreinfo| {
        Some(Identity {
            endian: match determine {
                Some(determine) => determine(info, &memory)?,
                None => default.endian,
            },
            page_shift: info.page_shift()?,
        })
    };
    if let Some(info) = noted {
        return by(&info).unwrap_or(Identity {
            page_shift: noted_shift.unwrap_or(default.page_shift),
            ..default
        });
    }
    let found = vmcoreinfo::from_memory(source, IoMethod::Read, |info| {
        by(&info).filter(|found| is_plausible(&info) && possible(&found.page_shift))
    });
    found.unwrap_or(default)
}
