//! struct boot_params, by which a kernel for x86 finds its parts and its memory
//! (Documentation/arch/x86/zero-page.rst).

use bigiron_format::bytes::Endian;

use super::bzimage::{BzImage, HEADER_AT};
use super::crashed::MAP_ENTRY;
use super::layout::{Layout, PARAMETERS_SIZE};

/// `loadflags`: the protected-mode code is loaded at 1 MiB or above.
const LOADED_HIGH: u8 = 1;
/// A boot loader without a number of its own.
const LOADER_UNDEFINED: u8 = 0xff;
/// Offsets in the boot parameters, and the lengths of what is copied from this kernel's: the
/// screen, and the address of ACPI's tables.
const SCREEN_INFO: (usize, usize) = (0x000, 64);
const ACPI_RSDP: (usize, usize) = (0x070, 8);
const ENDIAN: Endian = Endian::Little;

/// Returns struct boot_params. `memory_map` has entries of [`MAP_ENTRY`] bytes, at most
/// [`MAX_MAP_ENTRIES`](super::crashed::MAX_MAP_ENTRIES), and `own` are the parameters of this
/// kernel, from which the screen and the place of ACPI's tables come.
pub fn boot_parameters(image: &BzImage, layout: &Layout, memory_map: &[u8], own: &[u8]) -> Vec<u8> {
    let mut parameters = vec![0; PARAMETERS_SIZE];
    for (at, length) in [SCREEN_INFO, ACPI_RSDP] {
        if let Some(bytes) = own.get(at..at + length) {
            parameters[at..at + length].copy_from_slice(bytes);
        }
    }
    parameters[HEADER_AT..HEADER_AT + image.header.len()].copy_from_slice(image.header);
    parameters[0x210] = LOADER_UNDEFINED;
    parameters[0x211] |= LOADED_HIGH;
    let low = |value: u64| (value & 0xffff_ffff) as u32;
    for (at, value) in [
        (0x214, low(layout.kernel)),
        (0x218, low(layout.initrd)),
        (0x21c, low(layout.initrd_size)),
        (0x228, low(layout.command_line())),
        // setup_data, of which there is none.
        (0x250, 0),
        (0x254, 0),
    ] {
        ENDIAN.put_u32(&mut parameters, at, value);
    }
    parameters[0x1e8] = (memory_map.len() / MAP_ENTRY) as u8;
    parameters[0x2d0..0x2d0 + memory_map.len()].copy_from_slice(memory_map);
    parameters
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::slice::from_ref;

    use super::super::bzimage::tests::file;
    use super::*;

    #[test]
    fn boot_parameters_have_the_header_the_memory_map_and_the_places() {
        let file = file(b"code");
        let image = BzImage::parse(&file).unwrap();
        let ram = 0x100_0000..0x800_0000;
        let layout = Layout::choose(&image, 0x1234, from_ref(&ram)).unwrap();
        let map: Vec<u8> = (0..2 * MAP_ENTRY as u8).collect();
        let own = vec![7; PARAMETERS_SIZE];
        let parameters = boot_parameters(&image, &layout, &map, &own);
        assert_eq!(&parameters[0x202..0x206], b"HdrS");
        assert_eq!(parameters[0x210], 0xff);
        assert_eq!(ENDIAN.u32(&parameters, 0x218), Some(layout.initrd as u32));
        assert_eq!(ENDIAN.u32(&parameters, 0x21c), Some(0x1234));
        assert_eq!(parameters[0x1e8], 2);
        assert_eq!(parameters[0x2d0..0x2d0 + map.len()], map);
        assert_eq!(parameters[0x70..0x78], [7; 8]);
        // The sentinel, which marks parameters that were not cleared.
        assert_eq!(parameters[0x1ef], 0);
    }
}
