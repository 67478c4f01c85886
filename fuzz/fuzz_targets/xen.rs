//! A Xen host with modified memory and notes: the fuzzer overwrites words of its dump, including
//! the hypervisor's page tables, frame table, list of domains and table of symbols. Finding the
//! host, counting its memory by owner and filtering it end, in proportion to its size.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use bigiron_format::bitmap::Bitmap;
use bigiron_fuzz::Patched;
use bigiron_fuzz::choices::Choices;
use bigiron_fuzz::limits::{DUMP_MEMORY, Metered, within};
use bigiron_kernel::xen::{Given, Host, Owners};
use bigiron_kernel::{DumpLevel, Filter, IoMethod, SECTION_FRAMES, Source};
use bigiron_synth::XenHost;
use libfuzzer_sys::fuzz_target;

const MOST_EDITS: u8 = 16;

/// One host for each order of the frame table and layout of its entries.
const HOSTS: [&str; 4] = [
    "xen 4.4 frame_table=fixed",
    "xen 4.17 pdx=mask",
    "xen 4.20 bigmem=yes",
    "xen 4.21 pdx=offset",
];
const MEMORY: &str = "
    ram 0x0-0x9f 0x100-0xfff 0x100000-0x10007f
    dom0 0x800 n=512 ; domain 1 0x100000 n=100 ; domain 7 0xa00 n=16
    free 0xc00 n=512 ; offlined 0xe00 n=2 ; broken 0xe08 n=2";

/// The dumps, and the locations of significant words in each: those of the headers and notes, and
/// those that are not zero in pages that are not only a pattern.
static DUMPS: LazyLock<Vec<(Vec<u8>, Vec<usize>)>> = LazyLock::new(|| {
    let dumps = HOSTS.iter().map(|header| {
        let host = XenHost::from_text(&format!("{header}\n{MEMORY}")).expect("a legal text");
        let dump = host.elf();
        let pages = (0..dump.len()).step_by(4096);
        let varies = |at: &usize| {
            dump[*at..*at + 8] != dump[*at + 8..*at + 16]
                || dump[*at..*at + 4088] != dump[*at + 8..*at + 4096]
        };
        let words = pages
            .filter(varies)
            .flat_map(|at| (at..at + 4096).step_by(8));
        let places = words.filter(|at| dump[*at..*at + 8] != [0; 8]).collect();
        (dump, places)
    });
    dumps.collect()
});

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let (dump, places) = &DUMPS[usize::from(choices.byte()) % DUMPS.len()];
    let level = DumpLevel::new(choices.byte() & 17).expect("below 32");
    let owners = match choices.byte() % 2 {
        0 => Owners::ALL,
        _ => Owners::WITHOUT_GUESTS,
    };
    let count = choices.byte() % (MOST_EDITS + 1);
    let place = |choices: &mut Choices<'_>| places[choices.below(places.len())];
    let file = Metered::new(Patched::edited(dump, count, &mut choices, place));
    within(DUMP_MEMORY, dump.len(), || {
        let Ok(source) = Source::from_bytes(Box::new(file), PathBuf::from("host")) else {
            return;
        };
        let memory = source.memory();
        let Ok(Some(host)) = Host::find(memory, Given::default(), IoMethod::Read, 64) else {
            return;
        };
        let _ = (host.census(), host.free_pages(), host.console());
        let _ = host.text(host.crash_info().changeset);
        let Ok(filter) = Filter::of_host(memory, &host, owners, level) else {
            return;
        };
        let mut reader = memory.reader(IoMethod::Read);
        let mut ram = Bitmap::new(SECTION_FRAMES as usize);
        let mut kept = Bitmap::new(SECTION_FRAMES as usize);
        for first in bigiron_fuzz::sections(memory) {
            if let Ok(result) = filter.scan_section(reader.as_mut(), first, &mut ram, &mut kept) {
                assert!(result.kept <= result.ram && result.ram <= SECTION_FRAMES);
                assert_eq!(result.kept + result.excluded.total(), result.ram);
            }
        }
    });
});
