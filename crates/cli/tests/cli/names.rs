//! `bigiron sym` and `bigiron type`, on the vmcore that ships with the project.

use crate::common::sample;
use crate::common::{Lab, arg, run};
use serde_json::Value;

#[test]
fn symbol_is_resolved_to_its_address_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack(directory.path());
    let vmcore = arg(&vmcore);
    let line = run(&["sym", vmcore, "schedule+0x40"]).code(0).text();
    let (address, rest) = line.split_once(' ').unwrap();
    assert_eq!(rest, "(T) schedule+0x40\n");
    assert_eq!(run(&["sym", vmcore, address]).code(0).text(), line);
    assert_eq!(
        run(&["sym", vmcore, &format!("0x{address}")])
            .code(0)
            .text(),
        line
    );
    let both = run(&["sym", "--json", vmcore, "init_task", "no_such_thing"]).code(1);
    let both = both.says(&["no_such_thing: not found in the kernel or its modules"]);
    let found: Value = serde_json::from_slice(&both.stdout).unwrap();
    assert_eq!(
        (&found["name"], &found["kind"]),
        (&"init_task".into(), &"D".into())
    );
}

#[test]
fn missing_debug_information_is_named_and_the_symbol_shown() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack(directory.path());
    let vmcore = arg(&vmcore);
    let empty = arg(directory.path());
    let options = ["sym", "--lines", "--debug-info", empty, vmcore];
    let shown = run(&[&options[..], &["schedule"]].concat()).code(0);
    let shown = shown.says(&["schedule: no source line: no debug information of the kernel"]);
    assert!(shown.text().ends_with("(T) schedule\n"));
    let options = [
        "sym",
        "--lines",
        "--debug-info",
        "/no/such/place",
        vmcore,
        "schedule",
    ];
    run(&options)
        .code(1)
        .says(&["--debug-info /no/such/place: No such file"]);
}

#[test]
fn type_is_printed_with_the_offsets_of_its_members() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack(directory.path());
    let vmcore = arg(&vmcore);
    let head = "struct list_head {\n\
        /*     0 */    struct list_head *next;\n\
        /*     8 */    struct list_head *prev;\n\
        };\n// struct list_head: 16 bytes\n";
    for name in ["list_head", "struct list_head"] {
        assert_eq!(run(&["type", vmcore, name]).code(0).text(), head);
    }
    let alias = run(&["type", vmcore, "gfp_t"]).code(0).text();
    assert_eq!(alias, "typedef unsigned int gfp_t;\n// gfp_t: 4 bytes\n");
    let zones = run(&["type", "--json", vmcore, "enum zone_type", "list_head*"]).code(1);
    let zones: Value = serde_json::from_slice(&zones.says(&["list_head*"]).stdout).unwrap();
    assert_eq!(zones["values"][2], serde_json::json!(["ZONE_NORMAL", 2]));
    // The values of SIZE(page) and OFFSET(page.lru) in VMCOREINFO of the same kernel.
    let page = run(&["type", "--json", vmcore, "page"]).code(0);
    let page: Value = serde_json::from_slice(&page.stdout).unwrap();
    assert_eq!(
        (&page["size"], &page["members"][0]["offset"]),
        (&64.into(), &0.into())
    );
}

#[test]
fn kernel_without_symbol_or_type_tables_is_reported() {
    let lab = Lab::new();
    let vmcore = arg(lab.vmcore());
    run(&["sym", vmcore, "init_task"])
        .code(1)
        .says(&[vmcore, "names no kallsyms"]);
    run(&["type", vmcore, "page"])
        .code(1)
        .says(&[vmcore, "names no kallsyms"]);
    run(&["type", vmcore]).code(2);
}
