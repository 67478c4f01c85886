//! Sadumps with changed headers and bitmaps: opening and reading them ends, in proportion to their
//! size, and a reader returns whole pages.
#![no_main]

use std::sync::LazyLock;

use bigiron_fuzz::choices::Choices;
use bigiron_fuzz::{Patched, check_files};
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
    let given = disks.iter().filter_map(|disk| {
        let count = choices.byte() % (MOST_EDITS + 2);
        // Some disks are missing.
        let place = |choices: &mut Choices<'_>| choices.below(FRONT / 4) * 4;
        (count <= MOST_EDITS).then(|| Patched::edited(disk, count, &mut choices, place))
    });
    check_files(given, size);
});
