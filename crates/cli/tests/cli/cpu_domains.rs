//! `bigiron cpu domains` and `bigiron cpu simulate`.

use std::fs;

use crate::common::sample;
use crate::common::{arg, run};
use serde_json::Value;

const MACHINE: &str = "sockets=2 cores=4 threads=2";

#[test]
fn described_machine_has_the_domains_that_the_kernel_builds() {
    let tree = run(&["cpu", "domains", "--machine", MACHINE])
        .code(0)
        .text();
    let expected = "\
NUMA 0-15
├─ MC 0-7
│  └─ SMT 0-1  and 3 more like it, to 6-7
└─ MC 8-15
   └─ SMT 8-9  and 3 more like it, to 14-15
";
    assert_eq!(tree, expected);
    let power = ["--arch", "power", "--kernel", "6.1", "--as", "table"];
    let table = [&["cpu", "domains", "--machine", MACHINE], &power[..]].concat();
    assert!(run(&table).code(0).text().contains("SHARE_PKG_RESOURCES"));
    let svg = run(&["cpu", "domains", "--machine", MACHINE, "--as", "svg"])
        .code(0)
        .text();
    assert!(svg.starts_with("<svg") && svg.contains("MC 8-15"));
    let dot = run(&["cpu", "domains", "--machine", MACHINE, "--as", "dot"])
        .code(0)
        .text();
    assert_eq!(dot.matches(" -> ").count(), 10);
}

#[test]
fn diff_lists_changes_since_a_saved_state() {
    let directory = tempfile::tempdir().unwrap();
    let before = directory.path().join("before.json");
    let json = run(&["cpu", "domains", "--machine", "cores=4", "--as", "json"])
        .code(0)
        .text();
    fs::write(&before, json).unwrap();
    let now = |online: &str| {
        let machine = ["cpu", "domains", "--machine", "cores=4", "--online", online];
        run(&[&machine, &["--diff", arg(&before)][..]].concat())
            .code(0)
            .text()
    };
    assert_eq!(now("0-3"), "");
    let changes = now("0-2");
    assert!(
        changes.contains("cpu0/domain0 span: 0-3 -> 0-2\n"),
        "{changes}"
    );
    assert!(changes.ends_with("cpu3 online: yes -> no\n"), "{changes}");
    fs::write(&before, "{}").unwrap();
    run(&[
        "cpu",
        "domains",
        "--machine",
        "cores=4",
        "--diff",
        arg(&before),
    ])
    .code(1)
    .says(&["before.json", "cpu domains --as json"]);
}

#[test]
fn dump_and_description_of_its_machine_have_the_same_domains() {
    let directory = tempfile::tempdir().unwrap();
    let vmcore = sample::unpack(directory.path());
    let table = |arguments: &[&str]| {
        run(&[&["cpu", "domains", "--as", "table"], arguments].concat())
            .code(0)
            .text()
    };
    // Two CPUs of one package under one cache, as QEMU makes them.
    let described = table(&["--machine", "cores=2", "--kernel", "6.1"]);
    assert_eq!(table(&[arg(&vmcore)]), described);
}

#[test]
fn other_sources_are_read_or_rejected_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("schedstat");
    fs::write(
        &file,
        "version 17\ncpu0 0\ndomain0 SMT 3 1 2\ncpu1 0\ndomain0 SMT 3 1 2\n",
    )
    .unwrap();
    let source = format!("--schedstat={}", arg(&file));
    assert_eq!(
        run(&["cpu", "domains", &source]).code(0).text(),
        "SMT 0-1\n"
    );
    fs::write(&file, "version 3\n").unwrap();
    run(&["cpu", "domains", &source])
        .code(1)
        .says(&["schedstat:1: expected version 15, 16 or 17"]);
    run(&["cpu", "domains", "--debugfs=/nonexistent"])
        .code(1)
        .says(&["try another source"]);
    run(&["cpu", "domains", "--machine", "sockets=many"])
        .code(1)
        .says(&["sockets=2 cores=4"]);
    run(&["cpu", "domains", "--machine", "cores=2", "--sysfs", "/sys"]).code(2);
}

#[test]
fn model_is_within_15_percent_of_published_times() {
    let json = run(&["cpu", "simulate", "--history", "--json"])
        .code(0)
        .text();
    let answer: Value = serde_json::from_str(&json).unwrap();
    let rows = answer["history"].as_array().unwrap();
    assert_eq!(rows.len(), 13);
    for row in rows {
        let ratio = row["model"].as_f64().unwrap() / row["published"].as_f64().unwrap();
        assert!((0.85..1.15).contains(&ratio), "{row}");
    }
    assert_eq!(answer["extrapolated"], false);
    let large = run(&["cpu", "simulate", "--machine", "cores=2000"]).code(0);
    assert!(large.text().contains("extrapolated"));
}
