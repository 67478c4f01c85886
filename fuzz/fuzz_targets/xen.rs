//! A Xen host with modified memory and notes: the fuzzer overwrites words of its dump, including
//! the hypervisor's page tables, frame table, list of domains and table of symbols, and dom0's
//! table of frames and page tables. Finding the host, counting its memory by owner, filtering it
//! and reading dom0's memory end, in proportion to its size.
#![no_main]

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_fuzz::Patched;
use bigiron_fuzz::choices::Choices;
use bigiron_fuzz::limits::{DUMP_MEMORY, Metered, within};
use bigiron_kernel::xen::{Given, Host, Owners, open_dom0};
use bigiron_kernel::{DumpLevel, Filter, IoMethod, Kernel, SECTION_FRAMES, Source};
use bigiron_synth::{Synth, XenHost};
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
/// A host with a kernel in dom0.
const WITH_KERNEL: &str = "
    xen 4.17
    ram 0x0-0x9f 0x100-0x27ff
    dom0 0x800 n=7168 ; domain 1 0x2400 n=64 ; free 0x2500 n=64";
const KERNEL: &str = "
    kernel 6.12 direct=4k vmemmap_leaf=4k image_leaf=4k
    ram 0x0-0x9f 0x100-0x1aff
    pages 0x200 free order=9 ; 0x400 cache n=16 ; 0x410 cache private n=4";

/// The dumps, and the locations of significant words in each: those of the headers and notes, and
/// those that are not zero in pages that are not only a pattern.
static DUMPS: LazyLock<Vec<(Vec<u8>, Vec<usize>)>> = LazyLock::new(|| {
    let plain = HOSTS
        .iter()
        .map(|header| XenHost::from_text(&format!("{header}\n{MEMORY}")));
    let kernel = Synth::from_text(KERNEL).expect("a legal text");
    let with_kernel = XenHost::with_dom0(WITH_KERNEL, &kernel);
    let dumps = plain.chain([with_kernel]).map(|host| {
        let dump = host.expect("a legal text").elf();
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
    let level = DumpLevel::new(choices.byte() & 31).expect("below 32");
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
        let source = Arc::new(source);
        let memory = source.memory();
        let dom0 = open_dom0(&source, Given::default(), IoMethod::Read, 64);
        let kernel = dom0.as_ref().ok().and_then(|dom0| {
            read(dom0);
            Kernel::find(dom0, None, IoMethod::Read, 64).ok()
        });
        let Ok(Some(host)) = Host::find(memory, Given::default(), IoMethod::Read, 64) else {
            return;
        };
        let _ = (host.census(), host.free_pages(), host.console());
        let _ = (host.text(host.crash_info().changeset), host.command_line());
        for cpu in host.cpus() {
            let _ = (host.stack(&cpu), host.vcpu_on(&cpu));
        }
        let _ = (host.vcpus(0), host.vcpus(1), host.domain_states());
        let Ok(filter) = Filter::of_host(memory, &host, kernel.as_ref(), owners, level) else {
            return;
        };
        if let Some(dom0) = filter.dom0() {
            let mut reader = dom0.source().reader(IoMethod::Read);
            for first in bigiron_fuzz::sections(dom0.source()) {
                let _ = filter.scan_dom0_section(reader.as_mut(), first);
            }
        }
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

/// Reads all page frames of RAM, of which there are not more than the machine has.
fn read(dom0: &Source) {
    let memory = dom0.memory();
    let mut reader = memory.reader(IoMethod::Read);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    for first in bigiron_fuzz::sections(memory) {
        if memory.ram(first, &mut ram).is_err() {
            continue;
        }
        let mut from = 0;
        while let Some((start, len)) = ram.next_run(from, ram.len(), 64) {
            let pages = reader.pages(PageFrame(first.0 + start as u64), len);
            from = start + pages.map_or(1, |pages| (pages.len() / 4096).max(1));
        }
    }
}
