//! The machine in most dumps of these tests.

use std::sync::OnceLock;

use bigiron_synth::{ElfShape, Synth};

/// 12 MiB with pages of every kind.
const MACHINE: &str = "kernel 6.12
    ram 0x0-0x9f 0x100-0xbff
    pages 0x200 free order=9
    pages 0x400 slab n=8 fill=random
    pages 0x480 cache n=16 ; 0x490 cache private n=4 dirty fill=random
    pages 0x500 slab n=32 fill=zero ; 0x520 slab n=32 fill=const:7
    pages 0x600 thp";

/// Returns its memory as an ELF core.
pub fn core() -> &'static [u8] {
    static CORE: OnceLock<Vec<u8>> = OnceLock::new();
    CORE.get_or_init(|| {
        let machine = Synth::from_text(MACHINE).unwrap();
        machine.elf(&ElfShape::vmcore())
    })
}
