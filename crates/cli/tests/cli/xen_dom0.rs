//! dom0 of a Xen host: alone, in the whole, and mounted beside it.

use std::fs;
use std::path::PathBuf;

use bigiron_kernel::Source;
use bigiron_synth::{ElfShape, Machine, Synth, XenHost};

use crate::common::{Lab, NO_STALL_WARNING, arg, present, run};
use crate::mounted::{Mounted, can_mount};
use crate::xen::{HOST, check, host, without_guests};

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
fn end_of_dom0_is_told_by_the_log_of_its_kernel() {
    let lab = Lab::new();
    let (_, _, path) = host_with_kernel(&lab);
    let text = run(&["info", arg(&path)]).code(0).text();
    assert!(text.contains("\ndom0      Linux 6.12"), "{text}");
    let json = run(&["info", "--json", arg(&path)]).code(0);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(json["dom0"]["crash"].is_object(), "{json}");
}

#[test]
fn dump_of_dom0_has_the_registers_of_its_virtual_cpus() {
    let lab = Lab::new();
    let kernel = Synth::from_text(KERNEL).unwrap();
    let text = WITH_KERNEL.replace("pdx=mask", "pdx=mask cpus=2");
    let host = XenHost::with_dom0(&text, &kernel).unwrap();
    let path = lab.file("host", &host.elf());
    let out = lab.path("out");
    run(&["dump", "--domain", "0", "-d", "31", arg(&path), arg(&out)]).code(0);
    let source = Source::open(&[out]).unwrap();
    let notes = source.memory().notes().intact();
    let statuses = notes.filter(|note| note.name == b"CORE");
    let instructions: Vec<u64> = statuses
        .map(|note| u64::from_le_bytes(note.desc[112 + 128..][..8].try_into().unwrap()))
        .collect();
    // Two were running; the third has those of when it ran last.
    let at = 0xffff_ffff_8110_0000;
    assert_eq!(instructions, [at, at + 1, at + 0x1002]);
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
