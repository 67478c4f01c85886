//! The command line: help, usage errors, reports, pipes.

use std::fs;

use serde_json::Value;

use crate::common::{Lab, NO_STALL_WARNING, arg, machine, run, run_with_input};

const COMMANDS: [&str; 7] = [
    "dump",
    "verify",
    "save",
    "dmesg",
    "bench",
    "completions",
    "man",
];

#[test]
fn help_and_version_are_written_to_standard_output() {
    let help = run(&["--help"]).code(0).text();
    for command in COMMANDS {
        assert!(help.contains(command), "{command}");
        assert!(run(&[command, "--help"]).code(0).text().contains("Usage"));
    }
    let version = run(&["--version"]).code(0).text();
    assert_eq!(version, format!("bigiron {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn usage_errors_exit_with_2_and_a_hint() {
    for (arguments, part) in [
        (&[][..], "Usage"),
        (&["dumb"], "unrecognized subcommand"),
        (&["dump"], "<SOURCE>... <OUTPUT>"),
        (&["dump", "a"], "2 values"),
        (&["dump", "a", "b", "-d", "32"], "0..=31"),
        (&["dump", "a", "b", "-d", "x"], "invalid digit"),
        (
            &["dump", "a", "b", "-c", "zstd:99"],
            "expected -131072 to 22",
        ),
        (&["dump", "a", "b", "-c", "zlib:0"], "expected 1 to 12"),
        (&["dump", "a", "b", "-c", "lzo:1"], "takes no level"),
        (
            &["dump", "a", "b", "-c", "rar"],
            "zlib, lzo, snappy or zstd",
        ),
        (&["dump", "a", "b", "-f", "zip"], "flattened"),
        (&["dump", "a", "b", "-j", "0"], "1..=4096"),
        (&["dump", "a", "b", "--memory-limit", "x"], "64M"),
        (&["dump", "a", "b", "--io", "magic"], "mmap"),
        (
            &["dump", "a", "b", "--json", "--quiet"],
            "cannot be used with",
        ),
        (&["verify"], "<DUMP>"),
        (&["dmesg"], "<DUMP>"),
        (&["dmesg", "a", "--level", "loud"], "warn"),
        (&["dmesg", "a", "--json", "-x"], "cannot be used with"),
        (&["completions", "dos"], "possible values"),
    ] {
        run(arguments).code(2).says(&[part]);
    }
}

#[test]
fn json_report_has_all_documented_fields() {
    let lab = Lab::new();
    let output = lab.path("out");
    let outcome = run(&[
        "dump",
        "--json",
        "-d",
        "31",
        arg(lab.vmcore()),
        arg(&output),
    ])
    .code(0);
    let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!(report["source_kind"], "ELF core");
    assert_eq!(report["source"], arg(lab.vmcore()));
    assert_eq!(report["output"], arg(&output));
    assert_eq!(report["format"], "kdump");
    assert_eq!(report["dump_level"], 31);
    assert_eq!(report["source_complete"], true);
    assert_eq!(report["warnings"], Value::Array(Vec::new()));
    let pages = &report["pages"];
    let ram: u64 = machine()
        .ram()
        .iter()
        .map(|range| range.end - range.start)
        .sum();
    assert_eq!(pages["ram"], ram);
    assert_eq!(pages["excluded"]["free"], 512);
    assert_eq!(pages["excluded"]["cache"], 16);
    assert_eq!(pages["excluded"]["cache_private"], 4);
    assert_eq!(pages["excluded"]["user"], 1024);
    let expected = machine().expected_dumpable(31);
    assert_eq!(pages["dumped"], expected.iter().filter(|bit| **bit).count());
    assert!(report["bytes_out"].as_u64() > Some(0));
    assert!(report["peak_memory"].as_u64() > Some(0));
    for phase in ["filter", "copy", "finish"] {
        let phases = report["phases"].as_array().unwrap();
        assert!(phases.iter().any(|found| found["name"] == phase), "{phase}");
    }
    let outcome = run(&[
        "verify",
        "--json",
        arg(&output),
        "--against",
        arg(lab.vmcore()),
    ]);
    let verified: Value = serde_json::from_slice(&outcome.code(0).stdout).unwrap();
    assert_eq!(verified["complete"], true);
    assert_eq!(verified["pages"], pages["dumped"]);
    assert_eq!(verified["lost"], 0);
}

#[test]
fn quiet_prints_nothing_on_success() {
    let lab = Lab::new();
    let output = lab.path("out");
    let dump = ["dump", "--quiet", NO_STALL_WARNING, arg(lab.vmcore())];
    for arguments in [
        &[&dump[..], &[arg(&output)]].concat()[..],
        &[
            "verify",
            "--quiet",
            arg(&output),
            "--against",
            arg(lab.vmcore()),
        ],
    ] {
        let outcome = run(arguments).code(0);
        assert_eq!(
            (outcome.text(), outcome.stderr),
            (String::new(), String::new())
        );
    }
    let outcome = run(&[&dump[..], &["-"]].concat()).code(0);
    assert_eq!(outcome.stderr, "");
}

#[test]
fn completions_contain_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).code(0).text();
        for word in COMMANDS.iter().chain(&["memory-limit", "against"]) {
            assert!(script.contains(word), "{shell} has no {word}");
        }
    }
}

#[test]
fn man_pages_contain_every_option() {
    let lab = Lab::new();
    run(&["man", arg(&lab.path("man"))]).code(0);
    for command in COMMANDS {
        let help = run(&[command, "--help"]).code(0).text();
        let page = fs::read_to_string(lab.path(&format!("man/bigiron-{command}.1"))).unwrap();
        let page = page.replace('\\', "");
        for word in help.split(|c: char| c.is_whitespace() || ",[]<>`=".contains(c)) {
            if word.starts_with("--") && word.len() > 2 {
                assert!(page.contains(word), "{command}: {word}");
            }
        }
    }
    let page = fs::read_to_string(lab.path("man/bigiron-dump.1")).unwrap();
    assert!(page.contains("Exit status") && page.contains("marked as lost"));
    assert!(lab.path("man/bigiron.1").exists());
    let file = lab.file("file", b"");
    run(&["man", arg(&file)])
        .code(1)
        .says(&["file", "cannot write man pages"]);
}

#[test]
fn dumps_are_written_to_and_read_from_pipes() {
    let lab = Lab::new();
    let kdump = fs::read(lab.dump("kdump", &["-d", "31"])).unwrap();
    let outcome = run(&["dump", "-d", "31", arg(lab.vmcore()), "-"]).code(0);
    let flat = outcome.says(&["dumped"]).stdout;
    assert!(flat.starts_with(b"makedumpfile\0"));
    let elf = run(&["dump", "-d", "31", "-f", "elf", arg(lab.vmcore()), "-"])
        .code(0)
        .stdout;
    assert!(elf.starts_with(b"\x7fELF"));
    for (name, bytes) in [("kdump", &kdump), ("flattened", &flat), ("ELF", &elf)] {
        let output = lab.path("out");
        let arguments = ["dump", "--overwrite", "-", arg(&output)];
        run_with_input(&arguments, bytes).code(0);
        run(&["verify", arg(&output), "--against", arg(lab.vmcore())]).code(0);
        let through = run_with_input(&["dump", "-", "-"], bytes).code(0).stdout;
        let through = lab.file("through", &through);
        run(&["verify", arg(&through), "--against", arg(lab.vmcore())]).code(0);
        assert!(!through.as_os_str().is_empty(), "{name}");
    }
    run_with_input(&["dump", "-", arg(&lab.path("none"))], b"")
        .code(1)
        .says(&["(standard input)", "empty"]);
}
