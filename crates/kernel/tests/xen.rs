//! Xen hosts as `bigiron_synth` lays them out: the owner of every page frame, and the frames that
//! a dump keeps, in all versions and layouts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::path::PathBuf;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::elf::x86_64::Register;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::{PageFrame, PhysAddr};
use bigiron_kernel::xen::{Given, Host, Owner, Owners, Vcpu};
use bigiron_kernel::{
    DumpLevel, Filter, IoMethod, Kernel, KernelError, MemorySource, SECTION_FRAMES, Source,
};
use bigiron_synth::{ElfShape, Synth, XenHost, XenOwner};

/// Memory below and above a hole, with everything that a page frame can be.
const MEMORY: &str = "
    ram 0x0-0x9f 0x100-0x2fff 0x100000-0x101a7f
    io 0x0 n=160
    dom0 0x1000 n=1536 ; dom0 0x101800 n=640
    domain 1 0x100000 n=1024 ; domain 300 0x1800 n=300
    heap 0x1a00 n=33
    free 0x2000 n=2048 ; free 0x100800 n=512 scrub ; free 0x1b01 n=7
    offlined 0x2900 n=3 ; broken 0x2910 n=2 ; stray 0x1c00 n=5";

/// Every version with another layout, and every way of numbering page frames.
const HOSTS: [&str; 12] = [
    "xen 4.0 frame_table=fixed",
    "xen 4.3 frame_table=fixed pdx=mask",
    "xen 4.4",
    "xen 4.14 pdx=mask",
    "xen 4.14 count_info=new",
    "xen 4.16 count_info=new pdx=mask",
    "xen 4.17 image=0x2c00 cpus=3",
    "xen 4.17 bigmem=yes pdx=mask",
    "xen 4.18 pdx=mask",
    "xen 4.20 bigmem=yes frame_table=fixed",
    "xen 4.20",
    "xen 4.21 pdx=offset",
];

fn build(header: &str) -> XenHost {
    XenHost::from_text(&format!("{header}\n{MEMORY}")).unwrap()
}

fn open(elf: Vec<u8>) -> Source {
    Source::from_bytes(Box::new(elf), PathBuf::from("host")).unwrap()
}

fn find<'s>(source: &'s Source, given: Given) -> Result<Option<Host<'s>>, KernelError> {
    Host::find(source.memory(), given, IoMethod::Read, 64)
}

/// The owner by the text, as the frame table has it.
fn expected(owner: XenOwner) -> Owner {
    match owner {
        XenOwner::Hypervisor | XenOwner::Heap | XenOwner::Io => Owner::Hypervisor,
        XenOwner::Domain(0) => Owner::Dom0,
        XenOwner::Domain(id) => Owner::Domain(id),
        XenOwner::Free | XenOwner::Unscrubbed => Owner::Free,
        XenOwner::Offlined => Owner::Offlined,
        XenOwner::Broken => Owner::Broken,
        XenOwner::Stray => Owner::Unknown,
    }
}

#[test]
fn every_page_frame_has_its_owner_in_every_layout() {
    for header in HOSTS {
        let synth = build(header);
        let source = open(synth.elf());
        let host = find(&source, Given::default()).unwrap().unwrap();
        let ids: Vec<_> = host.domains().iter().map(|domain| domain.id).collect();
        assert_eq!(ids, [0, 1, 300], "{header}");
        let mut reader = source.memory().reader(IoMethod::Read);
        let mut seen = 0;
        for first in source.memory().sections() {
            let unreadable = host.see_owners(reader.as_mut(), first, &mut |frames, owner| {
                for frame in frames.numbers() {
                    if synth.ram().iter().any(|range| range.contains(&frame)) {
                        let expected = expected(synth.owner(frame));
                        assert_eq!(owner, expected, "{header}: {frame:#x}");
                        seen += 1;
                    }
                }
            });
            assert_eq!(unreadable.unwrap(), 0, "{header}");
        }
        let ram: u64 = synth
            .ram()
            .iter()
            .map(|range| range.end - range.start)
            .sum();
        assert_eq!(seen, ram, "{header}");
    }
}

#[test]
fn census_counts_all_ram_once() {
    let synth = build(HOSTS[8]);
    let source = open(synth.elf());
    let census = find(&source, Given::default())
        .unwrap()
        .unwrap()
        .census()
        .unwrap();
    let ram = synth.ram().iter().cloned().flatten();
    for frame in [
        0x1000, 0x100000, 0x1800, 0x2000, 0x2900, 0x2910, 0x1c00, 0x100,
    ] {
        let owner = expected(synth.owner(frame));
        let same = ram
            .clone()
            .filter(|frame| expected(synth.owner(*frame)) == owner);
        assert_eq!(census.of(owner), same.count() as u64, "{owner}");
    }
    let total: u64 = census.owners.iter().map(|(_, count)| count).sum();
    assert_eq!(total, ram.count() as u64);
    assert_eq!(census.unreadable, 0);
}

/// Returns the frames that a dump keeps.
fn kept(source: &Source, owners: Owners, level: u8) -> Vec<u64> {
    let host = find(source, Given::default()).unwrap().unwrap();
    let level = DumpLevel::new(level).unwrap();
    let filter = Filter::of_host(source.memory(), &host, None, owners, level).unwrap();
    let mut reader = source.memory().reader(IoMethod::Read);
    let (mut ram, mut bits) = (
        Bitmap::new(SECTION_FRAMES as usize),
        Bitmap::new(SECTION_FRAMES as usize),
    );
    let mut frames = Vec::new();
    let mut poisoned = 0;
    for first in source.memory().sections() {
        let result = filter
            .scan_section(reader.as_mut(), first, &mut ram, &mut bits)
            .unwrap();
        assert_eq!(result.kept + result.excluded.total(), result.ram);
        frames.extend(
            (0..bits.len())
                .filter(|bit| bits.get(*bit))
                .map(|bit| first.0 + bit as u64),
        );
        poisoned += result.poisoned.iter().map(|run| run.len()).sum::<u64>();
    }
    assert_eq!(poisoned, 2);
    frames
}

#[test]
fn each_choice_of_owners_keeps_their_frames_and_those_of_unknown_ones() {
    for header in [HOSTS[3], HOSTS[6], HOSTS[11]] {
        let synth = build(header);
        let source = open(synth.elf());
        let words = [false, true];
        let choices = words.iter().flat_map(|hypervisor| {
            let rest = words
                .iter()
                .flat_map(|dom0| words.map(|others| (*dom0, others)));
            rest.map(|(dom0, others)| (*hypervisor, dom0, others))
        });
        for (hypervisor, dom0, others) in choices {
            for level in [0, 16] {
                let owners = Owners {
                    hypervisor,
                    dom0,
                    others,
                };
                let keeps = |frame: &u64| match expected(synth.owner(*frame)) {
                    Owner::Hypervisor => hypervisor,
                    Owner::Dom0 => dom0,
                    Owner::Domain(_) | Owner::Offlined => others,
                    Owner::Free => others && level == 0,
                    Owner::Broken => false,
                    Owner::Unknown => true,
                };
                let ram = synth.ram().iter().cloned().flatten();
                let expected: Vec<u64> = ram.filter(keeps).collect();
                assert_eq!(
                    kept(&source, owners, level),
                    expected,
                    "{header} {owners:?} {level}"
                );
            }
        }
    }
}

#[test]
fn classes_of_a_kernels_pages_are_refused_for_a_host() {
    let source = open(build(HOSTS[10]).elf());
    let host = find(&source, Given::default()).unwrap().unwrap();
    for level in [2, 4, 8, 31] {
        let level = DumpLevel::new(level).unwrap();
        let filter = Filter::of_host(source.memory(), &host, None, Owners::ALL, level);
        let error = filter.err().unwrap().to_string();
        assert!(error.contains("(2, 4 and 8)"), "{error}");
    }
}

#[test]
fn hypervisors_own_count_of_free_pages_is_found_in_its_image() {
    for header in [HOSTS[0], HOSTS[6], HOSTS[9]] {
        let synth = build(header);
        let source = open(synth.elf());
        let host = find(&source, Given::default()).unwrap().unwrap();
        assert_eq!(host.free_pages().unwrap(), Some(synth.free()), "{header}");
    }
    let source = open(build("xen 4.17 symbols=no").elf());
    let host = find(&source, Given::default()).unwrap().unwrap();
    assert_eq!(host.free_pages().unwrap(), None);
    let error = host.console().unwrap_err().to_string();
    assert!(error.contains("conring is not found"), "{error}");
}

#[test]
fn console_of_the_hypervisor_is_read_from_its_oldest_byte_on() {
    let source = open(build(HOSTS[6]).elf());
    let host = find(&source, Given::default()).unwrap().unwrap();
    let console = String::from_utf8(host.console().unwrap()).unwrap();
    let expected = "(XEN) 'C' pressed -> triggering crashdump\n\
        (XEN) Executing kexec image on cpu0\n";
    assert_eq!(console, expected);
}

#[test]
fn virtual_cpus_of_dom0_are_found_in_every_layout() {
    for header in HOSTS {
        let synth = build(header);
        let source = open(synth.elf());
        let host = find(&source, Given::default()).unwrap().unwrap();
        let cpus = host.cpus();
        for cpu in &cpus {
            let vcpu = host.vcpu_on(cpu).unwrap().unwrap();
            assert_eq!(
                (vcpu.domain, vcpu.number as usize),
                (0, cpu.number),
                "{header}"
            );
        }
        let vcpus = host.vcpus(0).unwrap();
        let instruction = |vcpu: &Vcpu| vcpu.registers.unwrap().get(Register::Rip);
        let found: Vec<u64> = vcpus.iter().map(instruction).collect();
        let count = cpus.len() as u64;
        let at = 0xffff_ffff_8110_0000;
        let expected: Vec<u64> = (at..at + count).chain([at + 0x1000 + count]).collect();
        assert_eq!(found, expected, "{header}");
        assert_eq!(host.vcpus(1).unwrap(), []);
    }
}

#[test]
fn sparse_core_of_a_host_is_its_core() {
    let synth = build("xen 4.17 fill=zero");
    let file = tempfile::tempfile().unwrap();
    synth.write_sparse(&file).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut &file, &mut bytes).unwrap();
    assert!(bytes == synth.elf(), "another core");
}

#[test]
fn texts_about_the_build_are_read() {
    let source = open(build(HOSTS[6]).elf());
    let host = find(&source, Given::default()).unwrap().unwrap();
    let crash = host.crash_info();
    assert_eq!(host.version().to_string(), "4.17");
    assert_eq!(host.text(crash.extra_version), ".5-synthetic");
    assert_eq!(host.text(crash.changeset), "deadbeef");
    assert_eq!(host.text(PhysAddr(1 << 50)), "");
    assert_eq!(source.memory().notes().cpu_count(), 3);
}

#[test]
fn vmcoreinfo_of_the_hypervisor_may_come_from_a_file() {
    let synth = build("xen 4.17 vmcoreinfo=none");
    let source = open(synth.elf());
    let error = find(&source, Given::default()).err().unwrap().to_string();
    assert!(error.contains("VMCOREINFO_XEN"), "{error}");
    let given = |text: &str| Given {
        vmcoreinfo: Some(Vmcoreinfo::parse(text.as_bytes(), 0).unwrap()),
        phys_start: None,
    };
    assert!(find(&source, given(synth.vmcoreinfo())).unwrap().is_some());
    for key in [
        "SYMBOL(pgd_l4)",
        "SYMBOL(domain_list)",
        "SIZE(page_info)",
        "OFFSET(page_info.count_info)",
        "OFFSET(page_info._domain)",
        "OFFSET(domain.domain_id)",
        "OFFSET(domain.next_in_list)",
    ] {
        let text = synth.vmcoreinfo().replace(&format!("{key}="), "X=");
        let error = find(&source, given(&text)).err().unwrap().to_string();
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn wrong_address_of_the_image_is_an_error_that_names_it() {
    let source = open(build(HOSTS[6]).elf());
    let given = |phys_start| Given {
        vmcoreinfo: None,
        phys_start: Some(PhysAddr(phys_start)),
    };
    assert!(find(&source, given(0x2c0_0000)).unwrap().is_some());
    let error = find(&source, given(0x200_0000)).err().unwrap().to_string();
    assert!(error.contains("xen_phys_start (0x2000000)"), "{error}");
}

#[test]
fn list_of_domains_that_returns_to_itself_is_an_error() {
    let synth = build(HOSTS[10]);
    let elf = synth.elf();
    // struct domain of domain 300 is the only page with nothing but its number at the start.
    let pages = (0..elf.len() / 4096).map(|page| page * 4096);
    let mut own = pages
        .filter(|at| elf[*at..at + 8] == 300_u64.to_le_bytes() && elf[at + 8..at + 16] == [0; 8]);
    let at = own.next().unwrap();
    assert_eq!(own.next(), None);
    let source = open(elf.clone());
    let address = find(&source, Given::default()).unwrap().unwrap().domains()[1].address;
    let mut elf = elf;
    elf[at + 136..at + 144].copy_from_slice(&address.0.to_le_bytes());
    let source = open(elf);
    let error = find(&source, Given::default()).err().unwrap().to_string();
    assert!(
        error.contains("domain 1 at") && error.contains("damaged"),
        "{error}"
    );
}

#[test]
fn frames_with_a_missing_part_of_the_frame_table_are_kept_and_counted() {
    let synth = build(HOSTS[10]);
    let mut elf = synth.elf();
    let source = open(elf.clone());
    let host = find(&source, Given::default()).unwrap().unwrap();
    let all = kept(&source, Owners::WITHOUT_GUESTS, 0).len();
    drop(host);
    // A page of the frame table that begins with entries of a domain, but not of dom0, which
    // has the first such page.
    let entry = [
        (1_u64 << 63 | 2).to_le_bytes(),
        (1 << 63 | 1 << 57 | 2_u64).to_le_bytes(),
    ];
    let matches =
        |at: &usize| elf[at + 8..at + 16] == entry[0] && elf[at + 40..at + 48] == entry[1];
    let pages: Vec<_> = (0..elf.len() - 4096)
        .step_by(4096)
        .filter(matches)
        .collect();
    let owner = |at: &usize| elf[at + 24..at + 28].to_vec();
    let at = *pages
        .iter()
        .find(|at| owner(at) != owner(&pages[0]))
        .unwrap();
    // A page of the frame table that is not in the source: its page table entry leads nowhere.
    let frame = synth
        .ram()
        .iter()
        .cloned()
        .flatten()
        .find(|frame| synth.page(*frame)[..] == elf[at..at + 4096])
        .unwrap();
    let leaf = ((frame * 4096) | 0x63).to_le_bytes();
    let places: Vec<usize> = (0..elf.len() - 8)
        .step_by(8)
        .filter(|at| elf[*at..at + 8] == leaf)
        .collect();
    for at in places {
        elf[at..at + 8].copy_from_slice(&((1_u64 << 40) | 0x63).to_le_bytes());
    }
    let source = open(elf);
    let host = find(&source, Given::default()).unwrap().unwrap();
    assert_eq!(host.census().unwrap().unreadable, 128);
    assert_eq!(kept(&source, Owners::WITHOUT_GUESTS, 0).len(), all + 128);
}

#[test]
fn other_machines_are_no_hosts_and_a_host_is_no_kernel() {
    let machine = Synth::from_text("kernel 6.12\nram 0x0-0x9f 0x100-0xfff").unwrap();
    let source = open(machine.elf(&ElfShape::vmcore()));
    assert!(find(&source, Given::default()).unwrap().is_none());
    let source = open(build(HOSTS[6]).elf());
    let error = Kernel::find(&source, None, IoMethod::Read, 8)
        .err()
        .unwrap();
    assert!(error.leaves_pages_readable());
    assert!(
        error.to_string().contains("a Xen host (Xen 4.17)"),
        "{error}"
    );
    assert_eq!(source.memory().end_frame(), PageFrame(0x10_1a80));
    let _: &dyn MemorySource = source.memory();
}
