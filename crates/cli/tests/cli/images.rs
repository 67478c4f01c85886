//! Dumps that no kernel wrote, as sources of the commands: sadump, and raw images of memory.

use std::path::PathBuf;

use bigiron_synth::{ElfShape, MigrationShape, SadumpShape, XenGuest};

use crate::common::{Lab, arg, machine, run};

/// Writes the disks of a set.
fn disks(lab: &Lab, count: usize) -> Vec<PathBuf> {
    let disks = machine().sadump(SadumpShape::Set(count));
    let disks = disks.iter().enumerate();
    disks
        .map(|(index, disk)| lab.file(&format!("disk{index}"), disk))
        .collect()
}

/// Writes a raw image of the machine's memory, and its memory map.
fn raw(lab: &Lab) -> (PathBuf, PathBuf) {
    let (image, map) = machine().raw_image();
    (lab.file("raw", &image), lab.file("map", map.as_bytes()))
}

/// Asserts that both dumps have the same pages.
#[track_caller]
fn same_pages(one: &str, other: &str) {
    run(&["diff", "--quiet", one, other]).code(0);
}

#[test]
fn sadump_is_dumped_like_the_elf_core_of_the_same_memory() {
    let lab = Lab::new();
    let expected = lab.dump("expected", &["-d", "31"]);
    let single = machine().sadump(SadumpShape::Single).remove(0);
    let single = lab.file("single", &single);
    let out = lab.path("out");
    for source in [vec![single], disks(&lab, 3)] {
        let mut arguments = vec!["dump", "--overwrite", "-d", "31"];
        arguments.extend(source.iter().map(|disk| arg(disk)));
        arguments.push(arg(&out));
        run(&arguments).code(0);
        same_pages(arg(&expected), arg(&out));
        let source: Vec<_> = source.iter().map(|disk| arg(disk)).collect();
        let info = run(&[&["info", "--json"], &source[..]].concat());
        let info = info.code(0).text();
        assert!(info.contains("\"sadump\""), "{info}");
        let against = source.join(",");
        run(&["verify", arg(&out), "--against", &against]).code(0);
    }
}

#[test]
fn makedumpfile_reads_the_disks_that_diskset_names() {
    let lab = Lab::new();
    let expected = lab.dump("expected", &["-d", "31"]);
    let disks = disks(&lab, 2);
    let options = disks.iter().map(|disk| format!("--diskset={}", arg(disk)));
    let diskset: Vec<_> = options.collect();
    let run_with = |others: &[&str]| {
        let mut arguments = vec!["makedumpfile"];
        arguments.extend(diskset.iter().map(String::as_str));
        arguments.extend(others);
        run(&arguments)
    };
    let out = lab.path("out");
    run_with(&["-l", "-d", "31", arg(&out)]).code(0);
    same_pages(arg(&expected), arg(&out));
    let counted = run_with(&["--mem-usage"]).code(0).text();
    assert!(counted.contains("FREE"), "{counted}");
    let parts = [lab.path("one"), lab.path("two")];
    run_with(&["-d", "31", "--split", arg(&parts[0]), arg(&parts[1])]).code(0);
    same_pages(arg(&expected), &[arg(&parts[0]), arg(&parts[1])].join(","));
    // VMCORE and --diskset exclude each other.
    run_with(&["-d", "31", arg(&disks[0]), arg(&lab.path("other"))]).code(1);
    assert!(!lab.path("other").exists());
    // A disk is missing.
    let first = &diskset[..1];
    let outcome = run(&["makedumpfile", &first[0], "-d", "0", arg(&lab.path("some"))]);
    outcome.code(0).says(&["1 disks of the set are missing"]);
}

#[test]
fn raw_image_is_read_by_its_memory_map() {
    let lab = Lab::new();
    let expected = lab.dump("expected", &["-d", "31"]);
    let (image, map) = raw(&lab);
    let out = lab.path("out");
    let map = ["--memory-map", arg(&map)];
    run(&[&["dump", "-d", "31"], &map[..], &[arg(&image), arg(&out)]].concat()).code(0);
    same_pages(arg(&expected), arg(&out));
    let info = run(&[&["info", "--json"], &map[..], &[arg(&image)]].concat());
    let info = info.code(0).text();
    assert!(info.contains("\"raw memory image\""), "{info}");
    let verify = ["verify", arg(&out), "--against", arg(&image)];
    run(&[&verify[..], &map[..]].concat()).code(0);
}

#[test]
fn raw_image_without_a_memory_map_is_refused_with_the_option_that_reads_it() {
    let lab = Lab::new();
    let (image, _) = raw(&lab);
    run(&["info", arg(&image)]).code(1).says(&["--memory-map"]);
    // The first range is not at address 0 of the second one.
    let map = lab.file("wrong", b"00000000-01ffffff : System RAM\n");
    run(&["info", "--memory-map", arg(&map), arg(&image)])
        .code(1)
        .says(&["raw"]);
}

#[test]
fn flat_image_has_all_memory_from_address_0_on() {
    let lab = Lab::new();
    let machine = machine();
    let mut image = Vec::new();
    for frame in machine.ram().iter().cloned().flatten() {
        image.resize(frame as usize * 4096, 0);
        image.extend(machine.page(frame).unwrap_or_else(|| vec![0; 4096]));
    }
    let image = lab.file("flat", &image);
    let expected = lab.dump("expected", &["-d", "31"]);
    let line = ["verify", "--memory-map", "flat", "--against"];
    run(&[&line[..], &[arg(&image), arg(&expected)]].concat()).code(0);
    let line = ["dump", "-d", "31", "--memory-map", "flat"];
    run(&[&line[..], &[arg(&image), arg(&lab.path("out"))]].concat()).code(0);
}

#[test]
fn memory_map_that_cannot_be_used_is_refused_with_the_reason() {
    let lab = Lab::new();
    let (image, map) = raw(&lab);
    let image = arg(&image);
    run(&["info", "--memory-map", arg(&map), image, image])
        .code(1)
        .says(&["--memory-map", "one file"]);
    let nothing = lab.file("nothing", b"00000000-0009ffff : Reserved\n");
    for map in [lab.path("none"), nothing] {
        run(&["info", "--memory-map", arg(&map), image])
            .code(1)
            .says(&[arg(&map), "cannot use it as a memory map"]);
    }
}

#[test]
fn diff_compares_a_raw_image_with_a_dump_in_either_order() {
    let lab = Lab::new();
    let core = machine().elf(&ElfShape::vmcore());
    let core = lab.file("core", &core);
    let (image, map) = raw(&lab);
    let (image, map, core) = (arg(&image), arg(&map), arg(&core));
    run(&["diff", "-q", "--memory-map", map, image, core]).code(0);
    run(&["diff", "-q", "--second-memory-map", map, core, image]).code(0);
    let maps = ["--memory-map", map, "--second-memory-map", map];
    run(&[&["diff", "-q"], &maps[..], &[image, image]].concat()).code(0);
    run(&["diff", core, image]).code(2).says(&["--memory-map"]);
}

#[test]
fn memory_beside_a_saved_state_of_vmware_is_opened_with_it() {
    let lab = Lab::new();
    let expected = lab.dump("expected", &["-d", "31"]);
    let (state, memory) = machine().vmware_files();
    let (state, memory) = (
        lab.file("guest.vmss", &state),
        lab.file("guest.vmem", &memory),
    );
    let out = lab.path("out");
    for source in [&state, &memory] {
        run(&["dump", "--overwrite", "-d", "31", arg(source), arg(&out)]).code(0);
        same_pages(arg(&expected), arg(&out));
        let info = run(&["info", "--json", arg(source)]).code(0).text();
        assert!(info.contains("\"VMware saved state\""), "{info}");
    }
    // Without the state, the memory is a raw image.
    std::fs::remove_file(&state).unwrap();
    run(&["info", arg(&memory)]).code(1).says(&["--memory-map"]);
}

#[test]
fn what_hypervisors_save_is_dumped_like_the_elf_core_of_the_same_memory() {
    let lab = Lab::new();
    let expected = lab.dump("expected", &["-d", "31"]);
    let out = lab.path("out");
    let files = [
        ("stream", machine().migration(MigrationShape::Running)),
        ("save", machine().migration(MigrationShape::Libvirt)),
        ("vbox", machine().virtualbox_core()),
        ("xen", machine().xen_core(XenGuest::Hardware)),
    ];
    for (name, bytes) in files {
        let source = lab.file(name, &bytes);
        run(&["dump", "--overwrite", "-d", "31", arg(&source), arg(&out)]).code(0);
        same_pages(arg(&expected), arg(&out));
        run(&["info", arg(&source)]).code(0);
    }
}

#[test]
fn dump_of_a_paravirtual_xen_guest_is_filtered_and_read_again() {
    let lab = Lab::new();
    let core = lab.file("core", &machine().xen_core(XenGuest::Paravirtual));
    let all = lab.path("all");
    run(&["dump", "-d", "1", arg(&core), arg(&all)]).code(0);
    let twice = lab.path("twice");
    run(&["dump", "-d", "31", arg(&all), arg(&twice)]).code(0);
    let release = |dump: &PathBuf| {
        let info = run(&["info", "--json", arg(dump)]).code(0).text();
        assert!(info.contains("6.12"), "{info}");
    };
    release(&core);
    release(&twice);
    for (format, name) in [("elf", "as-elf"), ("vmdump", "as-vmdump")] {
        let once = lab.path(name);
        run(&["dump", "-d", "31", "-f", format, arg(&core), arg(&once)]).code(0);
        release(&once);
        if format == "vmdump" {
            same_pages(arg(&twice), arg(&once));
        }
    }
    // The pages that a filter keeps are those of the same machine without Xen.
    let expected = lab.dump("expected", &["-d", "31"]);
    let present = |dump| crate::common::present(dump);
    assert_eq!(present(&expected), present(&twice));
}
