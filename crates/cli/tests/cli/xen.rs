//! Dumps of Xen hosts: whose memory is dumped, in every format and again from each of them, and
//! what is said about a host.

use std::fs;
use std::path::{Path, PathBuf};

use bigiron_format::PageFrame;
use bigiron_kernel::{IoMethod, Source};
use bigiron_synth::{ElfShape, Machine, Synth, XenHost, XenOwner};

use crate::common::{Lab, NO_STALL_WARNING, arg, present, run};
use crate::mounted::{Mounted, can_mount};

const HOST: &str = "xen 4.17 pdx=mask cpus=2
    ram 0x0-0x9f 0x100-0xfff 0x100000-0x1000ff
    io 0x0 n=160
    dom0 0x800 n=512 ; domain 1 0x100000 n=100 ; domain 7 0xa00 n=16
    free 0xc00 n=512 ; heap 0xe10 n=9 ; stray 0xe80 n=3";

fn host(lab: &Lab, text: &str) -> (XenHost, PathBuf) {
    let host = XenHost::from_text(text).unwrap();
    let path = lab.file("host", &host.elf());
    (host, path)
}

/// The page frames that makedumpfile's -X is meant to keep, and those of unknown owners.
fn without_guests(host: &XenHost) -> Vec<u64> {
    let kept = |frame: &u64| match host.owner(*frame) {
        XenOwner::Domain(id) => id == 0,
        XenOwner::Free | XenOwner::Unscrubbed | XenOwner::Offlined | XenOwner::Broken => false,
        XenOwner::Hypervisor | XenOwner::Heap | XenOwner::Io | XenOwner::Stray => true,
    };
    host.ram().iter().cloned().flatten().filter(kept).collect()
}

/// Asserts that the dump has the pages `frames` of the host; an ELF core may have others, in
/// gaps that are too short for a program header of their own.
fn check(dump: &Path, host: &XenHost, frames: &[u64], is_elf: bool) {
    let bits = present(dump);
    let source = Source::open(&[dump.to_owned()]).unwrap();
    let mut reader = source.memory().reader(IoMethod::Read);
    for frame in host.ram().iter().cloned().flatten() {
        let is_there = bits.get(frame as usize) == Some(&true);
        let wanted = frames.binary_search(&frame).is_ok();
        assert!(
            is_there || !wanted,
            "{}: {frame:#x} is missing",
            dump.display()
        );
        assert!(
            !is_there || wanted || is_elf,
            "{}: {frame:#x} is there",
            dump.display()
        );
        if is_there {
            let page = reader.pages(PageFrame(frame), 1).unwrap();
            assert!(
                page == host.page(frame),
                "{}: page frame {frame:#x}",
                dump.display()
            );
        }
    }
}

#[test]
fn memory_of_other_domains_is_left_out_in_every_format_and_again() {
    let lab = Lab::new();
    let (host, path) = host(&lab, HOST);
    let frames = without_guests(&host);
    for format in ["kdump", "vmdump", "elf"] {
        let out = lab.path(format);
        let line = ["dump", "-d", "0", "--xen", "hypervisor,dom0", "-f", format];
        let line = [&line[..], &[NO_STALL_WARNING, arg(&path), arg(&out)]].concat();
        let outcome = run(&line).code(0);
        assert_eq!(outcome.stderr, "");
        let text = outcome.text();
        assert!(
            text.contains("Xen 4.17)") && text.contains("of owners left out"),
            "{text}"
        );
        check(&out, &host, &frames, format == "elf");
        // What is there is right; what is not may belong to others.
        run(&["verify", "--against", arg(&path), arg(&out)]).code(0);
        // Again from each format: dom0's memory alone, besides that of unknown owners.
        let again = lab.path(&format!("again.{format}"));
        let line = [
            "dump",
            "-d",
            "0",
            "--xen",
            "dom0",
            NO_STALL_WARNING,
            arg(&out),
            arg(&again),
        ];
        assert_eq!(run(&line).code(0).stderr, "");
        let owners = [XenOwner::Domain(0), XenOwner::Stray];
        let dom0 = frames
            .iter()
            .copied()
            .filter(|frame| owners.contains(&host.owner(*frame)));
        check(&again, &host, &dom0.collect::<Vec<_>>(), false);
    }
}

#[test]
fn free_memory_and_zero_pages_of_a_host_are_excluded_by_level() {
    let lab = Lab::new();
    let (host, path) = host(&lab, HOST);
    let out = lab.path("out");
    run(&["dump", "-d", "17", arg(&path), arg(&out)]).code(0);
    let kept = |frame: &u64| host.owner(*frame) != XenOwner::Free;
    let frames: Vec<_> = host.ram().iter().cloned().flatten().filter(kept).collect();
    check(&out, &host, &frames, false);
    // The level without -d.
    let out = lab.path("default");
    run(&["dump", arg(&path), arg(&out)]).code(0);
    check(&out, &host, &frames, false);
    let refused = run(&["dump", "-d", "31", arg(&path), arg(&lab.path("no"))]).code(1);
    refused.says(&["host", "page cache and user memory (2, 4 and 8)", "-d 1"]);
    assert!(!lab.path("no").exists());
}

#[test]
fn makedumpfiles_option_leaves_other_domains_out() {
    let lab = Lab::new();
    let (host, path) = host(&lab, HOST);
    let info = lab.file("info", host.vmcoreinfo().as_bytes());
    let out = lab.path("out");
    let lines: [&[&str]; 3] = [
        &["-X", "-l"],
        &["-E", "-X"],
        &[
            "-X",
            "-c",
            "-f",
            "--xen-vmcoreinfo",
            arg(&info),
            "--xen_phys_start",
            "0x400000",
        ],
    ];
    for options in lines {
        let line = [&["makedumpfile"], options, &["-f", arg(&path), arg(&out)]].concat();
        run(&line).code(0);
        check(&out, &host, &without_guests(&host), options.contains(&"-E"));
    }
}

#[test]
fn count_of_free_pages_that_is_not_the_hypervisors_own_is_a_warning() {
    let lab = Lab::new();
    let text = HOST.replace("cpus=2", "avail_skew=5000");
    let (_, path) = host(&lab, &text);
    let out = lab.path("out");
    let line = ["dump", "-d", "16", NO_STALL_WARNING, arg(&path), arg(&out)];
    let outcome = run(&line).code(0);
    outcome.says(&[
        "MAY BE WRONG FOR THIS XEN",
        "found 512 free",
        "itself counted 5512",
    ]);
}

#[test]
fn host_is_shown_with_its_memory_by_owner() {
    let lab = Lab::new();
    let (host, path) = host(&lab, HOST);
    let text = run(&["info", arg(&path)]).code(0).text();
    for part in [
        "Xen 4.17.5-synthetic",
        "deadbeef",
        "0, 1, 7",
        "domain 1",
        "Memory by owner",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let json = run(&["info", "--json", arg(&path)]).code(0);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["xen"]["cpus"], 2);
    let owners = json["memory"]["owners"].as_array().unwrap();
    let of = |name: &str| {
        let found = owners.iter().find(|share| share["owner"] == name);
        found.unwrap()["pages"].as_u64().unwrap()
    };
    assert_eq!((of("dom0"), of("domain 1"), of("domain 7")), (512, 100, 16));
    assert_eq!((of("free"), of("unknown")), (host.free(), 3));
    assert_eq!(json["memory"]["free_by_hypervisor"], host.free());
    run(&["info", "--tasks", arg(&path)])
        .code(1)
        .says(&["host", "topics are of one kernel"]);
    run(&["dmesg", arg(&path)])
        .code(1)
        .says(&["a Xen host (Xen 4.17)", "bigiron info"]);
}

#[test]
fn console_of_the_hypervisor_is_printed() {
    let lab = Lab::new();
    let (_, path) = host(&lab, HOST);
    let text = run(&["dmesg", "--xen", arg(&path)]).code(0).text();
    assert_eq!(text, "(XEN) 'C' pressed -> triggering crashdump\n");
    let outcome = run(&["dmesg", "--xen", arg(lab.vmcore())]).code(1);
    outcome.says(&["not a dump of a Xen host"]);
}

#[test]
fn owners_can_be_chosen_only_of_a_host() {
    let lab = Lab::new();
    let out = lab.path("out");
    let outcome = run(&["dump", "--xen", "dom0", arg(lab.vmcore()), arg(&out)]).code(1);
    outcome.says(&["not a dump of a Xen host", "type 0x1000001"]);
    let (_, path) = host(&lab, &HOST.replace("cpus=2", "vmcoreinfo=none"));
    let outcome = run(&["dump", "--xen", "dom0", "-d", "0", arg(&path), arg(&out)]).code(1);
    outcome.says(&["a Xen host", "VMCOREINFO_XEN"]);
    assert!(!out.exists());
    // All of its memory can be dumped without knowing the owners.
    run(&["dump", "-d", "0", arg(&path), arg(&out)])
        .code(0)
        .says(&["VMCOREINFO_XEN"]);
}

/// A kernel for dom0, which has small pages only.
const KERNEL: &str = "kernel 6.12 direct=4k vmemmap_leaf=4k image_leaf=4k
    ram 0x0-0x9f 0x100-0x1fff
    pages 0x200 free order=9 ; 0x400 cache n=64 ; 0x600 thp ; 0x800 anon n=32
    log lockless n=20";
const WITH_KERNEL: &str = "xen 4.17 pdx=mask
    ram 0x0-0x9f 0x100-0x37ff 0x100000-0x1001ff
    io 0x0 n=160
    dom0 0x1000 n=9216 ; domain 1 0x100000 n=100 ; free 0x3400 n=512";

fn host_with_kernel(lab: &Lab) -> (Machine, XenHost, PathBuf) {
    let kernel = Synth::from_text(KERNEL).unwrap();
    let host = XenHost::with_dom0(WITH_KERNEL, &kernel).unwrap();
    let path = lab.file("host", &host.elf());
    (kernel, host, path)
}

#[test]
fn dump_of_dom0_is_that_of_its_kernel_without_xen() {
    let lab = Lab::new();
    let (kernel, _, path) = host_with_kernel(&lab);
    let alone = lab.file("alone", &kernel.elf(&ElfShape::vmcore()));
    for format in ["kdump", "vmdump", "elf"] {
        let out = lab.path(format);
        let line = ["dump", "--domain", "0", "-d", "31", "-f", format];
        let line = [&line[..], &[NO_STALL_WARNING, arg(&path), arg(&out)]].concat();
        run(&line).code(0);
        run(&["verify", "--against", arg(&alone), arg(&out)]).code(0);
        let bits = present(&out);
        if format == "kdump" {
            for (frame, wanted) in kernel.expected_dumpable(31).into_iter().enumerate() {
                assert_eq!(bits.get(frame) == Some(&true), wanted, "{frame:#x}");
            }
        }
        let log = run(&["dmesg", arg(&out)]).code(0).text();
        assert_eq!(log, run(&["dmesg", arg(&alone)]).code(0).text());
    }
    // The same without a dump of its own.
    let line = ["dmesg", "--domain", "0", arg(&path)];
    assert_eq!(
        run(&line).code(0).text(),
        run(&["dmesg", arg(&alone)]).code(0).text()
    );
    let text = run(&["info", "--domain", "0", arg(&path)]).code(0).text();
    assert!(
        text.contains("memory of dom0 in a dump of a Xen host"),
        "{text}"
    );
}

#[test]
fn pages_of_dom0_are_excluded_from_the_whole_dump_by_its_kernel() {
    let lab = Lab::new();
    let (kernel, host, path) = host_with_kernel(&lab);
    let mut excluded: Vec<u64> = Vec::new();
    for (frame, kept) in kernel.expected_dumpable(31).into_iter().enumerate() {
        excluded.extend(host.machine_frame(frame as u64).filter(|_| !kept));
    }
    excluded.sort_unstable();
    let mut frames = without_guests(&host);
    frames.retain(|frame| excluded.binary_search(frame).is_err());
    let out = lab.path("out");
    let line = [
        "dump",
        "--xen",
        "hypervisor,dom0",
        NO_STALL_WARNING,
        arg(&path),
        arg(&out),
    ];
    let text = run(&line).code(0).text();
    assert!(text.contains("of dom0, by its kernel"), "{text}");
    check(&out, &host, &frames, false);
    let again = lab.path("again");
    let line = [
        "makedumpfile",
        "-X",
        "-l",
        "-d",
        "31",
        arg(&out),
        arg(&again),
    ];
    run(&line).code(0);
    check(&again, &host, &frames, false);
}

#[test]
fn mounted_host_has_the_whole_memory_and_that_of_dom0_beside() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let (kernel, host, path) = host_with_kernel(&lab);
    let mounted = Mounted::new(lab.path("mounted"), &[&path], &[]);
    let all: Vec<u64> = host.ram().iter().cloned().flatten().collect();
    check(&mounted.path("vmcore"), &host, &all, true);
    let console = run(&["dmesg", "--xen", arg(&path)]).code(0).text();
    assert_eq!(
        fs::read_to_string(mounted.path("console")).unwrap(),
        console
    );
    let info = run(&["info", "--json", arg(&path)]).code(0).text();
    assert_eq!(fs::read_to_string(mounted.path("info.json")).unwrap(), info);
    let alone = lab.file("alone", &kernel.elf(&ElfShape::vmcore()));
    let dom0 = mounted.path("dom0/vmcore");
    run(&["verify", "--against", arg(&alone), arg(&dom0)]).code(0);
    let log = run(&["dmesg", arg(&alone)]).code(0).text();
    assert_eq!(fs::read_to_string(mounted.path("dom0/dmesg")).unwrap(), log);
}

#[test]
fn only_dom0_of_a_host_is_read_by_itself() {
    let lab = Lab::new();
    let (_, path) = host(&lab, HOST);
    let outcome = run(&["info", "--domain", "7", arg(&path)]).code(1);
    outcome.says(&["--domain 7", "only dom0 (0)"]);
    let outcome = run(&["info", "--domain", "0", arg(lab.vmcore())]).code(1);
    outcome.says(&["not a dump of a Xen host"]);
    let (_, path) = host(&lab, &HOST.replace("cpus=2", "p2m=no"));
    let outcome = run(&["dump", "--domain", "0", arg(&path), arg(&lab.path("no"))]).code(1);
    outcome.says(&["PVH", "--xen hypervisor,dom0 -d 17"]);
}
