//! `bigiron setup ram-dump`.

use std::fs;

use bigiron_synth::{ElfShape, Synth};

use crate::common::{Lab, arg, run};

const IOMEM: &str = "00100000-7fffffff : System RAM\n100000000-103fffffff : System RAM\n";

#[test]
fn automatic_size_is_that_of_the_expected_dump_or_of_the_machine() {
    let lab = Lab::new();
    let root = lab.path("root");
    fs::create_dir_all(root.join("proc")).unwrap();
    fs::write(root.join("proc/iomem"), IOMEM).unwrap();
    let setup = || run(&["setup", "ram-dump", "--root", arg(&root)]).code(0);

    let unknown = setup();
    assert!(unknown.stderr.contains("not known"), "{}", unknown.stderr);
    assert!(
        unknown.text().contains("memmap=512M!0x100000000"),
        "{}",
        unknown.text()
    );

    let machine =
        "kernel 6.12\nram 0x0-0x9f 0x100-0x3fff\npages 0x1000 slab n=4096 fill=random:7\n";
    let memory = root.join("proc/kcore");
    fs::write(
        &memory,
        Synth::from_text(machine).unwrap().elf(&ElfShape::vmcore()),
    )
    .unwrap();
    let known = setup();
    assert_eq!(known.stderr, "");
    let dump = lab.path("dump");
    run(&[
        "dump",
        "-q",
        "-d",
        "31",
        "-f",
        "vmdump",
        arg(&memory),
        arg(&dump),
    ])
    .code(0);
    let size = fs::metadata(&dump).unwrap().len() as f64 / f64::from(1 << 20);
    let told = known.text();
    let told = told
        .strip_prefix("a dump at level 31 is expected to have ")
        .unwrap();
    let (number, rest) = told.split_once(" MiB\n").unwrap();
    assert!(
        (number.parse::<f64>().unwrap() - size).abs() < size * 0.15,
        "{told}: {size} MiB"
    );
    assert!(rest.contains("memmap=512M!0x100000000"), "{rest}");
}
