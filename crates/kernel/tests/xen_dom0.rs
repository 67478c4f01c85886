//! dom0 of synthetic Xen hosts: its memory as that of a machine of its own, and what its kernel
//! excludes of the host's memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_kernel::xen::{DomainFrames, Given, Host, Owners, open_dom0};
use bigiron_kernel::{DumpLevel, Filter, IoMethod, Kernel, SECTION_FRAMES, Source};
use bigiron_synth::{Machine, Synth, XenHost, XenOwner};

/// A kernel with pages of every class. A domain has small pages only.
const KERNEL: &str = "
    kernel 6.12 direct=4k vmemmap_leaf=4k image_leaf=4k
    ram 0x0-0x9f 0x100-0x2fff 0x9000-0x97ff
    pages 0x200 free order=9 ; 0x400 cache n=16 ; 0x410 cache private n=4
    pages 0x600 thp ; 0x9000 anon n=300 ; 0x9200 free order=9 ; 0x9400 hwpoison";
/// Hosts with every order of the frame table, and both layouts of the types of pages.
const HOSTS: [&str; 4] = [
    "xen 4.4 frame_table=fixed",
    "xen 4.17 pdx=mask",
    "xen 4.20 bigmem=yes",
    "xen 4.21 pdx=offset",
];
const MEMORY: &str = "
    ram 0x0-0x9f 0x100-0x4fff 0x100000-0x1017ff
    io 0x0 n=160 ; dom0 0x1000 n=12288 ; dom0 0x100000 n=3072
    domain 7 0x100e00 n=300 ; heap 0xf00 n=33 ; free 0x4800 n=512 ; free 0x101000 n=512";

fn kernel() -> Machine {
    Synth::from_text(KERNEL).unwrap()
}

fn host(header: &str) -> XenHost {
    XenHost::with_dom0(&format!("{header}\n{MEMORY}"), &kernel()).unwrap()
}

fn open(elf: Vec<u8>) -> Arc<Source> {
    Arc::new(Source::from_bytes(Box::new(elf), PathBuf::from("host")).unwrap())
}

fn find(source: &Source) -> Host<'_> {
    Host::find(source.memory(), Given::default(), IoMethod::Read, 64)
        .unwrap()
        .unwrap()
}

fn dom0(source: &Arc<Source>) -> Source {
    open_dom0(source, Given::default(), IoMethod::Read, 64).unwrap()
}

fn bits() -> Bitmap {
    Bitmap::new(SECTION_FRAMES as usize)
}

/// Returns the frames that `filter` keeps of `source`.
fn kept(filter: &Filter<'_, '_>, source: &Source) -> Vec<u64> {
    let mut reader = source.memory().reader(IoMethod::Read);
    let (mut ram, mut bits) = (bits(), bits());
    let mut frames = Vec::new();
    for first in source.memory().sections() {
        let result = filter
            .scan_section(reader.as_mut(), first, &mut ram, &mut bits)
            .unwrap();
        assert_eq!(result.kept + result.excluded.total(), result.ram);
        let set = (0..bits.len()).filter(|bit| bits.get(*bit));
        frames.extend(set.map(|bit| first.0 + bit as u64));
    }
    frames
}

#[test]
fn memory_of_dom0_is_that_of_its_kernel_without_xen() {
    let kernel = kernel();
    for header in HOSTS {
        let source = open(host(header).elf());
        let dom0 = dom0(&source);
        let memory = dom0.memory();
        assert_eq!(memory.end_frame(), PageFrame(kernel.max_pfn()), "{header}");
        let mut reader = memory.reader(IoMethod::Read);
        let (mut ram, mut present) = (bits(), bits());
        let mut seen = 0;
        for first in memory.sections() {
            memory.ram(first, &mut ram).unwrap();
            memory.present(first, &mut present).unwrap();
            for bit in 0..ram.len() {
                let frame = first.0 + bit as u64;
                let page = kernel.page(frame);
                assert_eq!(ram.get(bit), page.is_some(), "{header}: {frame:#x}");
                assert_eq!(present.get(bit), page.is_some(), "{header}: {frame:#x}");
                if let Some(page) = page {
                    let found = reader.pages(PageFrame(frame), 8).unwrap();
                    assert!(found[..4096] == page, "{header}: page frame {frame:#x}");
                    seen += 1;
                } else {
                    reader.pages(PageFrame(frame), 1).unwrap_err();
                }
            }
        }
        let all: u64 = kernel.ram().iter().map(|ram| ram.end - ram.start).sum();
        assert_eq!(seen, all, "{header}");
    }
}

#[test]
fn kernel_of_dom0_excludes_the_same_pages_in_dom0_and_in_the_host() {
    let kernel = kernel();
    for header in HOSTS {
        let synth = host(header);
        let source = open(synth.elf());
        let dom0 = dom0(&source);
        let found = Kernel::find(&dom0, None, IoMethod::Read, 64).unwrap();
        assert!(found.found_in_memory());
        let host = find(&source);
        let frames = 0..kernel.max_pfn();
        let in_p2m: HashSet<u64> = frames.filter_map(|own| synth.machine_frame(own)).collect();
        let ram = synth.ram().iter().cloned().flatten();
        let others: Vec<u64> = ram
            .filter(|frame| match synth.owner(*frame) {
                XenOwner::Hypervisor | XenOwner::Heap | XenOwner::Io => true,
                // The tables of frames, which are in none of them.
                XenOwner::Domain(0) => !in_p2m.contains(frame),
                _ => false,
            })
            .collect();
        for level in 0..=31 {
            let expected = kernel.expected_dumpable(level);
            let is_kept = |frame: &u64| expected[*frame as usize];
            let wanted: Vec<u64> = (0..kernel.max_pfn()).filter(is_kept).collect();
            let dump_level = DumpLevel::new(level).unwrap();
            let filter = Filter::new(&found, dump_level).unwrap();
            assert_eq!(kept(&filter, &dom0), wanted, "{header}, level {level}");

            let owners = Owners::WITHOUT_GUESTS;
            let memory = source.memory();
            let filter = Filter::of_host(memory, &host, Some(&found), owners, dump_level).unwrap();
            if let Some(dom0) = filter.dom0() {
                let mut reader = dom0.source().reader(IoMethod::Read);
                for first in dom0.source().sections() {
                    filter.scan_dom0_section(reader.as_mut(), first).unwrap();
                }
            }
            // Without a class that needs struct pages, dom0's kernel is not asked.
            let of_kernel = (0..kernel.max_pfn()).filter(|frame| level < 2 || is_kept(frame));
            let of_kernel = of_kernel.filter_map(|frame| synth.machine_frame(frame));
            let mut wanted: Vec<u64> = of_kernel.chain(others.iter().copied()).collect();
            wanted.sort_unstable();
            assert_eq!(
                kept(&filter, &source),
                wanted,
                "{header}, host, level {level}"
            );
        }
    }
}

#[test]
fn dom0_without_a_table_of_frames_is_said_to_be_pvh() {
    let synth = XenHost::from_text(&format!("xen 4.18 p2m=no\n{MEMORY}")).unwrap();
    let source = open(synth.elf());
    let error = DomainFrames::of_dom0(&find(&source))
        .unwrap_err()
        .to_string();
    assert!(error.contains("PVH"), "{error}");
}

#[test]
fn machine_frame_that_p2m_has_twice_is_one_page_of_dom0() {
    let synth = host(HOSTS[1]);
    let mut elf = synth.elf();
    // An entry of p2m for page frame 0x500 becomes that of 0x501.
    let of = |frame| synth.machine_frame(frame).unwrap().to_le_bytes();
    let pair = [of(0x500), of(0x501)].concat();
    let at: Vec<usize> = (0..elf.len() - 16)
        .step_by(8)
        .filter(|at| elf[*at..*at + 16] == pair)
        .collect();
    assert_eq!(at.len(), 1);
    elf.copy_within(at[0] + 8..at[0] + 16, at[0]);
    let source = open(elf);
    let dom0 = dom0(&source);
    let mut ram = bits();
    dom0.memory().ram(PageFrame(0), &mut ram).unwrap();
    assert!(!ram.get(0x500) && ram.get(0x501));
    let mut reader = dom0.memory().reader(IoMethod::Read);
    reader.pages(PageFrame(0x500), 1).unwrap_err();
}

#[test]
fn lists_of_p2m_that_lead_to_one_page_many_times_take_no_time() {
    let synth = host(HOSTS[1]);
    let mut elf = synth.elf();
    // The root has one list; now it has that list 512 times, and the host is still readable.
    let root = PageFrame(synth.p2m_root());
    let source = open(elf.clone());
    let page = source
        .memory()
        .reader(IoMethod::Read)
        .pages(root, 1)
        .unwrap()
        .to_vec();
    let at = (0..elf.len())
        .step_by(4096)
        .find(|at| elf[*at..*at + 4096] == page[..])
        .unwrap();
    let entry = page[..8].repeat(512);
    elf[at..at + 4096].copy_from_slice(&entry);
    let source = open(elf);
    let error = DomainFrames::of_dom0(&find(&source))
        .unwrap_err()
        .to_string();
    assert!(error.contains("has no page frame"), "{error}");
}
