//! Sadumps with changed headers and bitmaps: opening and reading them ends, in proportion to their
//! size, and a reader returns whole pages.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use bigiron_format::ReadAt;
use bigiron_fuzz::choices::Choices;
use bigiron_fuzz::limits::{DUMP_MEMORY, Metered, within};
use bigiron_fuzz::{Patched, read_pages};
use bigiron_kernel::Source;
use bigiron_synth::{SadumpShape, Synth};
use libfuzzer_sys::fuzz_target;

/// Bytes of the headers and bitmaps, where the edits are.
const FRONT: usize = 8 * 4096;
const MOST_EDITS: u8 = 8;

static DUMPS: LazyLock<[Vec<Vec<u8>>; 3]> = LazyLock::new(|| {
    let machine = Synth::from_text("kernel 6.12 cpus=2\nram 0x0-0x9f 0x100-0x8ff");
    let machine = machine.expect("a legal text");
    [SadumpShape::Single, SadumpShape::Media, SadumpShape::Set(3)]
        .map(|shape| machine.sadump(shape))
});

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let disks = &DUMPS[usize::from(choices.byte()) % DUMPS.len()];
    let size = disks.iter().map(Vec::len).sum();
    let given = disks.iter().enumerate().filter_map(|(index, disk)| {
        let count = choices.byte() % (MOST_EDITS + 2);
        // Some disks are missing.
        if count > MOST_EDITS {
            return None;
        }
        let patches = (0..count).map(|_| {
            let at = choices.below(FRONT / 4) * 4;
            let now = disk.get(at..at + 8).unwrap_or_default();
            let now = now.try_into().map_or(0, u64::from_le_bytes);
            (at, choices.number(now).to_le_bytes().to_vec())
        });
        let patches = patches.collect();
        let file = Metered::new(Patched {
            base: disk,
            patches,
        });
        let file: Box<dyn ReadAt> = Box::new(file);
        Some((file, PathBuf::from(format!("disk{index}"))))
    });
    let given: Vec<_> = given.collect();
    within(DUMP_MEMORY, size, || {
        if let Ok(source) = Source::from_several(given) {
            let memory = source.memory();
            let _ = (memory.facts(), memory.notes().intact().count());
            read_pages(memory);
        }
    });
});
