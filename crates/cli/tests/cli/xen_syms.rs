//! `--xen-syms` under makedumpfile's name.

use std::fs;
use std::process::Command;

use crate::common::{Lab, arg, run};
use crate::xen::{HOST, check, host, without_guests};

/// The source of an image with what the hypervisor's VMCOREINFO tells, as `bigiron_synth` lays it
/// out, and the linker's script that puts it where that has it.
const XEN_SYMS: &str = r#"
#define AT(name) __attribute__((section(".data." #name)))
struct domain {
    unsigned short domain_id; char before[134]; struct domain *next_in_list; char rest[2288];
};
struct page_info {
    union { struct { unsigned next, prev; } list; } free; unsigned long count_info;
    union { struct { unsigned long type_info; } inuse; } u;
    union { struct { unsigned _domain; } inuse; unsigned long order; } v;
};
char idle_pg_table[4096] AT(root) = {1};
struct domain *domain_list AT(v0) = 0;
struct page_info *frame_table AT(v1) = 0;
struct domain *dom_xen AT(v2) = 0, *dom_io AT(v3) = 0;
unsigned long free_pages AT(v4) = 1, max_page AT(v5) = 1;
"#;
const XEN_SYMS_SCRIPT: &str = "SECTIONS {
    . = 0xffff82d040001000;
    .data : { *(.data.root) *(.data.v0) *(.data.v1) *(.data.v2) *(.data.v3) *(.data.v4) *(.data.v5) }
}";

#[test]
fn linked_image_of_the_hypervisor_takes_the_place_of_its_vmcoreinfo() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("cc") || !has("ld") {
        return;
    }
    let lab = Lab::new();
    let source = lab.file("xen.c", XEN_SYMS.as_bytes());
    let script = lab.file("xen.ld", XEN_SYMS_SCRIPT.as_bytes());
    let (object, syms) = (lab.path("xen.o"), lab.path("xen-syms"));
    let made = |debug: &str| {
        let object = arg(&object);
        let compile = ["-g0", debug, "-c", "-o", object, arg(&source)];
        assert!(Command::new("cc").args(compile).status().unwrap().success());
        let link = ["-T", arg(&script), "-o", arg(&syms), object];
        assert!(Command::new("ld").args(link).status().unwrap().success());
    };
    made("-g");
    let (host, path) = host(&lab, &HOST.replace("cpus=2", "vmcoreinfo=none"));
    let (info, out) = (lab.path("info"), lab.path("out"));
    run(&["makedumpfile", "-g", arg(&info), "--xen-syms", arg(&syms)]).code(0);
    let lines = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(ToOwned::to_owned).collect();
        lines.sort();
        lines
    };
    let text = fs::read_to_string(&info).unwrap();
    assert_eq!(lines(&text), lines(host.vmcoreinfo()));
    let line = [
        "makedumpfile",
        "-X",
        "-l",
        "--xen-syms",
        arg(&syms),
        arg(&path),
        arg(&out),
    ];
    run(&line).code(0);
    check(&out, &host, &without_guests(&host), false);
    made("-g0");
    let refused = run(&["makedumpfile", "-g", arg(&info), "--xen-syms", arg(&syms)]);
    refused
        .code(1)
        .says(&["no .debug_info", "--xen-vmcoreinfo"]);
}
