//! The memory of virtual machines, as hypervisors save it, with changed headers and lists: opening
//! and reading it ends, in proportion to its size, and a reader returns whole pages.
#![no_main]

use std::sync::LazyLock;

use bigiron_fuzz::choices::Choices;
use bigiron_fuzz::{Patched, check_files};
use bigiron_synth::{MigrationShape, Synth, XenGuest};
use libfuzzer_sys::fuzz_target;

/// Bytes at the start and at the end, where the edits are.
const EDITED: usize = 60 << 10;
const MOST_EDITS: u8 = 8;

static DUMPS: LazyLock<Vec<Vec<Vec<u8>>>> = LazyLock::new(|| {
    let machine = Synth::from_text("kernel 6.12 cpus=2\nram 0x0-0x9f 0x100-0x8ff");
    let machine = machine.expect("a legal text");
    let (state, memory) = machine.vmware_files();
    vec![
        vec![machine.migration(MigrationShape::Stopped)],
        vec![machine.migration(MigrationShape::Running)],
        vec![machine.migration(MigrationShape::Libvirt)],
        vec![machine.vmware_state()],
        vec![state, memory],
        vec![machine.virtualbox_core()],
        vec![machine.xen_core(XenGuest::Hardware)],
        vec![machine.xen_core(XenGuest::Paravirtual)],
    ]
});

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let files = &DUMPS[usize::from(choices.byte()) % DUMPS.len()];
    let size = files.iter().map(Vec::len).sum();
    let given = files.iter().map(|file| {
        let count = choices.byte() % (MOST_EDITS + 1);
        Patched::edited(file, count, &mut choices, |choices| {
            let choice = choices.below(2 * EDITED);
            match choice.checked_sub(EDITED) {
                None => choice,
                Some(behind) => (file.len() - EDITED.min(file.len())) + behind,
            }
        })
    });
    check_files(given, size);
});
