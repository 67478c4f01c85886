//! Relocations of a module's file. It is not linked: each of its sections begins at address 0, and
//! the addresses in its debug information are relocations.

use std::collections::HashMap;

use object::{
    File, Object, ObjectSection, ObjectSymbol, Relocation, RelocationKind, RelocationTarget,
    Section, SectionFlags, SectionIndex, elf,
};

/// The first address; 0 stands for code that the linker removed.
const FIRST: u64 = 1 << 20;
/// Sections begin at multiples of this.
const ALIGN: u64 = 4096;

/// An address for each section with memory of the kernel, such that none overlap.
pub struct Layout(HashMap<SectionIndex, u64>);

impl Layout {
    /// Gives the sections of a file their addresses.
    pub fn of(file: &File) -> Self {
        let mut next = FIRST;
        let mut bases = HashMap::new();
        for section in file.sections().filter(is_loaded) {
            bases.insert(section.index(), next);
            let end = next.saturating_add(section.size());
            next = end.checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX);
        }
        Self(bases)
    }

    /// The address of a section; 0 for those that are not loaded, such as debug information.
    pub fn base(&self, section: Option<SectionIndex>) -> u64 {
        section
            .and_then(|index| self.0.get(&index))
            .copied()
            .unwrap_or(0)
    }
}

fn is_loaded(section: &Section) -> bool {
    matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(elf::SHF_ALLOC))
}

/// Returns the bytes of a section with its relocations applied.
///
/// # Errors
///
/// The section is damaged, or the architecture's relocations are not known: riscv64 computes
/// differences by them.
pub fn relocated(file: &File, section: &Section, layout: &Layout) -> Result<Vec<u8>, String> {
    let bytes = section.data().map_err(|error| error.to_string())?;
    let mut bytes = bytes.to_vec();
    for (offset, relocation) in section.relocations() {
        if relocation.kind() == RelocationKind::None {
            continue;
        }
        let value = value(file, &relocation, layout);
        let written = value.and_then(|value| {
            let size = usize::from(relocation.size() / 8);
            let start = usize::try_from(offset).ok()?;
            let place = bytes.get_mut(start..start.checked_add(size)?)?;
            write(place, value, &relocation, file.is_little_endian())
        });
        written.ok_or_else(|| {
            format!("has a relocation of an unknown kind at {offset:#x} of its debug information")
        })?;
    }
    Ok(bytes)
}

/// The address that a relocation refers to.
fn value(file: &File, relocation: &Relocation, layout: &Layout) -> Option<u64> {
    if relocation.kind() != RelocationKind::Absolute {
        return None;
    }
    let address = match relocation.target() {
        RelocationTarget::Symbol(index) => {
            let symbol = file.symbol_by_index(index).ok()?;
            let base = layout.base(symbol.section_index());
            base.wrapping_add(symbol.address())
        }
        RelocationTarget::Section(index) => layout.base(Some(index)),
        RelocationTarget::Absolute => 0,
        _ => return None,
    };
    Some(address.wrapping_add_signed(relocation.addend()))
}

fn write(place: &mut [u8], value: u64, relocation: &Relocation, little: bool) -> Option<()> {
    let size = place.len();
    let mut wide = [0; 8];
    let (low, high) = (wide.get_mut(..size)?, size.checked_sub(1)?);
    match little {
        true => low.copy_from_slice(place),
        false => {
            for (index, byte) in place.iter().enumerate() {
                *low.get_mut(high - index)? = *byte;
            }
        }
    }
    let before = match relocation.has_implicit_addend() {
        true => u64::from_le_bytes(wide),
        false => 0,
    };
    let bytes = before.wrapping_add(value).to_le_bytes();
    for (index, byte) in place.iter_mut().enumerate() {
        let from = if little { index } else { high - index };
        *byte = *bytes.get(from)?;
    }
    Some(())
}
