//! Dumps of Xen hosts: whose memory is dumped, in every format and again from each of them, and
//! what is said about a host.

use std::path::{Path, PathBuf};

use bigiron_format::PageFrame;
use bigiron_kernel::{IoMethod, Source};
use bigiron_synth::{XenHost, XenOwner};

use crate::common::{Lab, NO_STALL_WARNING, arg, present, run};

pub const HOST: &str = "xen 4.17 pdx=mask cpus=2
    ram 0x0-0x9f 0x100-0xfff 0x100000-0x1000ff
    io 0x0 n=160
    dom0 0x800 n=512 ; domain 1 0x100000 n=100 ; domain 7 0xa00 n=16
    free 0xc00 n=512 ; heap 0xe10 n=9 ; stray 0xe80 n=3";

/// Builds a host, and writes its core.
pub fn host(lab: &Lab, text: &str) -> (XenHost, PathBuf) {
    let host = XenHost::from_text(text).unwrap();
    let path = lab.file("host", &host.elf());
    (host, path)
}

/// The page frames that makedumpfile's -X is meant to keep, and those of unknown owners.
pub fn without_guests(host: &XenHost) -> Vec<u64> {
    let kept = |frame: &u64| match host.owner(*frame) {
        XenOwner::Domain(id) => id == 0,
        XenOwner::Free | XenOwner::Unscrubbed | XenOwner::Offlined | XenOwner::Broken => false,
        XenOwner::Hypervisor | XenOwner::Heap | XenOwner::Io | XenOwner::Stray => true,
    };
    host.ram().iter().cloned().flatten().filter(kept).collect()
}

/// Asserts that the dump has the pages `frames` of the host; an ELF core may have others, in
/// gaps that are too short for a program header of their own.
pub fn check(dump: &Path, host: &XenHost, frames: &[u64], is_elf: bool) {
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
fn domains_are_shown_with_what_they_do() {
    let lab = Lab::new();
    let text = HOST
        .replace("n=100", "n=100 paused")
        .replace("n=16\n", "n=16 crashed\n");
    let (_, path) = host(&lab, &text);
    let json = run(&["info", "--json", arg(&path)]).code(0);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let domains = &json["xen"]["domains"];
    let states = ["running", "paused", "shut down"];
    for (index, state) in states.into_iter().enumerate() {
        assert_eq!(domains[index]["state"], state, "{domains}");
    }
    assert_eq!(
        (&domains[1]["id"], &domains[1]["pages"]),
        (&1.into(), &100.into())
    );
    assert_eq!(domains[2]["shutdown"]["reason"], "crash");
    assert_eq!(domains[2]["uuid"], "00070000-0000-4abc-89ab-0123456789ab");
    assert_eq!(
        (&domains[0]["uuid"], &domains[0]["virtual_cpus"]),
        (&serde_json::Value::Null, &3.into())
    );
    let text = run(&["info", arg(&path)]).code(0).text();
    assert!(text.contains("shut down: crash"), "{text}");
}

#[test]
fn host_is_shown_with_its_memory_by_owner() {
    let lab = Lab::new();
    let (host, path) = host(&lab, HOST);
    let text = run(&["info", arg(&path)]).code(0).text();
    for part in [
        "Xen 4.17.5-synthetic",
        "deadbeef",
        "domain 1",
        "Memory by owner",
        "  0  running             3    2.0 MiB\n",
        "  7  running             ?   64.0 KiB  00070000",
        "00010000-0000-4abc-89ab-0123456789ab\n",
        "options   dom0_mem=2M crashkernel=1M\n",
        "stopped   on CPU 0, request: 'C' pressed -> triggering crashdump\n",
        "CPU 0, in the hypervisor\n",
        "kexec_crash_save_cpu+0x10/0x100\n",
        "? common/kexec.c#do_crashdump_trigger+0x45/0x100\n",
        "(virtual CPU 0 of domain 0, entered from 0xffffffff81100000)\n",
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
    run(&["info", "--tasks", arg(&path)]).code(1).says(&[
        "host",
        "topics are of one kernel",
        "--domain 0",
    ]);
    // Only the stack of the CPU that stopped the others is shown without being asked for.
    assert!(!text.contains("CPU 1, in"), "{text}");
    let text = run(&["info", "--backtrace", arg(&path)]).code(0).text();
    for part in [
        "CPU 1, in the hypervisor\n",
        "rip ffff82d040005010",
        "cr4 3333",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert_eq!(json["stopped"]["kind"], "request");
    assert_eq!(json["cpus"][1]["vcpu"]["number"], 1);
    assert!(json["dom0"]["unknown"].is_string(), "{json}");
    run(&["dmesg", arg(&path)])
        .code(1)
        .says(&["a Xen host (Xen 4.17)", "bigiron info"]);
}

#[test]
fn console_of_the_hypervisor_is_printed() {
    let lab = Lab::new();
    let (_, path) = host(&lab, HOST);
    let text = run(&["dmesg", "--xen", arg(&path)]).code(0).text();
    let expected = "(XEN) 'C' pressed -> triggering crashdump\n\
        (XEN) Executing kexec image on cpu0\n";
    assert_eq!(text, expected);
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
