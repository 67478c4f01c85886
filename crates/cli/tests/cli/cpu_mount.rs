//! Mounted scheduler domains, as users see them: those of a described machine, since the running
//! kernel may not have any. vmtest/cpus tests real ones.

use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::{arg, run};
use crate::mounted::{Mounted, can_mount};

const MACHINE: &str = "sockets=2 cores=4 threads=2";

fn mount(directory: &tempfile::TempDir, options: &[&str]) -> Mounted {
    let words = [&["cpu", "mount", "--machine", MACHINE], options].concat();
    Mounted::of(directory.path().join("mnt"), &words)
}

#[test]
fn files_match_the_kernels_layout_and_the_domains() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut mounted = mount(&directory, &["--online", "0-14"]);
    let text = |name: &str| fs::read_to_string(mounted.path(name)).unwrap();
    let names = |name: &str| -> Vec<String> {
        let entries = fs::read_dir(mounted.path(name)).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    let cpus: Vec<String> = (0..15).map(|cpu| format!("cpu{cpu}")).collect();
    assert_eq!(names(""), cpus);
    assert_eq!(names("cpu9"), ["domain0", "domain1", "domain2"]);
    assert_eq!(names("cpu9/domain1").len(), 11);
    // Its sibling is offline.
    assert_eq!(names("cpu14"), ["domain0", "domain1"]);
    assert_eq!(text("cpu9/domain0/name"), "SMT\n");
    assert_eq!(text("cpu9/domain1/span"), "8-14\n");
    assert_eq!(text("cpu14/domain1/span"), "0-14\n");
    // Every domain equals that of `bigiron cpu domains`.
    let json = [
        "cpu",
        "domains",
        "--machine",
        MACHINE,
        "--online",
        "0-14",
        "--as",
        "json",
    ];
    let tree: serde_json::Value = serde_json::from_str(&run(&json).code(0).text()).unwrap();
    let mut count = 0;
    for (cpu, chain) in tree["cpus"].as_object().unwrap() {
        for domain in chain.as_array().unwrap() {
            let file = |name: &str| text(&format!("cpu{cpu}/domain{}/{name}", domain["number"]));
            assert_eq!(file("span").trim_end(), domain["span"]);
            let flags: Vec<&str> = domain["flags"]
                .as_array()
                .unwrap()
                .iter()
                .map(|flag| flag.as_str().unwrap())
                .collect();
            assert_eq!(file("flags"), flags.join(" ") + " \n");
            for (name, value) in domain["tunables"].as_object().unwrap() {
                assert_eq!(file(name), format!("{value}\n"));
            }
            count += 1;
        }
    }
    assert_eq!(count, 14 * 3 + 2);
    for none in [
        "cpu15",
        "cpu09",
        "domain0",
        "cpu0/domain3",
        "cpu0/domain0/none",
    ] {
        assert!(fs::metadata(mounted.path(none)).is_err(), "{none}");
    }
    mounted.signal("TERM");
    assert_eq!(mounted.end().code(0).stderr, "");
    assert!(!mounted.is_listed());
}

#[test]
fn all_methods_of_reading_return_the_same_text() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mounted = mount(&directory, &[]);
    let path = mounted.path("cpu3/domain1/flags");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().size(), text.len() as u64);
    assert!(text.starts_with("SD_BALANCE_NEWIDLE "), "{text}");
    let python = "import sys; sys.stdout.write(open(sys.argv[1]).read())";
    // As busybox's cat copies.
    let sendfile =
        "import os, sys; f = open(sys.argv[1]); os.sendfile(1, f.fileno(), None, 1 << 20)";
    let of = format!("if={}", arg(&path));
    for words in [
        &["cat", arg(&path)][..],
        &["dd", &of, "bs=7", "status=none"],
        &["dd", &of, "bs=1M", "status=none"],
        &["python3", "-c", python, arg(&path)],
        &["python3", "-c", sendfile, arg(&path)],
    ] {
        match Command::new(words[0]).args(&words[1..]).output() {
            Ok(output) => assert_eq!(String::from_utf8(output.stdout).unwrap(), text, "{words:?}"),
            Err(error) => println!("skipped: {}: {error}", words[0]),
        }
    }
    let mut file = File::open(&path).unwrap();
    let mut rest = String::new();
    file.seek(SeekFrom::Start(3)).unwrap();
    file.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, text[3..]);
}

#[test]
fn files_of_a_described_machine_are_read_only() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mounted = mount(&directory, &[]);
    let path = mounted.path("cpu0/domain0/imbalance_pct");
    let mode = |name: &str| fs::metadata(mounted.path(name)).unwrap().mode() & 0o7777;
    assert_eq!(
        (mode("cpu0"), mode("cpu0/domain0/imbalance_pct")),
        (0o555, 0o444)
    );
    assert!(fs::write(&path, "120\n").is_err());
    assert!(fs::write(mounted.path("new"), "").is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "110\n");
}

#[test]
fn other_users_have_access_only_with_allow_other() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        println!("skipped: only root can act as another user");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    for (options, seen) in [(&[][..], None), (&["--allow-other"], Some("SMT\n"))] {
        let mounted = mount(&directory, options);
        let mut command = Command::new("cat");
        let output = command
            .arg(mounted.path("cpu0/domain0/name"))
            .uid(65534)
            .output();
        let output = output.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.success().then_some(&text[..]), seen);
    }
}

#[test]
fn sysctl_layout_has_numeric_flags() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mounted = mount(&directory, &["--layout", "sysctl"]);
    let text = |name: &str| fs::read_to_string(mounted.path(name)).unwrap();
    // NEWIDLE, EXEC, FORK, AFFINE, CPUCAPACITY, LLC, PREFER_SIBLING, by sd_flags.h of 6.12.
    let flags: u64 = text("cpu0/domain0/flags").trim_end().parse().unwrap();
    assert_eq!(
        flags,
        1 | 1 << 1 | 1 << 2 | 1 << 4 | 1 << 7 | 1 << 9 | 1 << 12
    );
    assert!(fs::metadata(mounted.path("cpu0/domain0/level")).is_err());
    assert!(fs::metadata(mounted.path("cpu0/domain0/groups_flags")).is_err());
}

#[test]
fn thousands_of_cpus_are_listed_completely() {
    if !can_mount() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let words = ["cpu", "mount", "--machine", "sockets=15 cores=16 threads=8"];
    let mounted = Mounted::of(directory.path().join("mnt"), &words);
    let entries = fs::read_dir(mounted.path("")).unwrap();
    let mut cpus: Vec<u32> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.strip_prefix("cpu").unwrap().parse().unwrap())
        .collect();
    cpus.sort_unstable();
    assert!(cpus.into_iter().eq(0..1920));
    let span = fs::read_to_string(mounted.path("cpu1919/domain0/span")).unwrap();
    assert_eq!(span, "1912-1919\n");
}

#[test]
fn invalid_tuning_rules_are_rejected_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.json");
    for (text, why) in [
        ("{", "expected rules such as"),
        (r#"{"rules": [{"domain": "MC"}]}"#, "rule 1 sets nothing"),
        (
            r#"{"rules": [{"imbalance": 117}]}"#,
            "unknown field `imbalance`",
        ),
        (
            r#"{"rules": [{"cpus": "3-1", "busy_factor": 1}]}"#,
            "goes backwards",
        ),
    ] {
        fs::write(&file, text).unwrap();
        run(&["cpu", "tune", "apply", arg(&file)])
            .code(1)
            .says(&[arg(&file), why]);
    }
    run(&["cpu", "tune", "apply", "/nonexistent"])
        .code(1)
        .says(&["/nonexistent", "No such file"]);
}
