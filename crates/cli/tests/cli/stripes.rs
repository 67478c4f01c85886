//! Striped dumps: making, reading, interrupting and killing them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bigiron_kernel::Source;
use serde_json::Value;

use crate::common;
use crate::common::{SmallDisk, arg, command, finish, run, wait_while_running};
use crate::save::lab;
use crate::stripe::{list, refs, run_with, save_json, striped};

#[test]
fn every_command_accepts_the_parts_in_any_order() {
    let lab = lab();
    let parts = striped(&lab, 3, &["-d", "1"]);
    let [a, b, c] = &refs(&parts)[..] else {
        panic!()
    };
    for path in [a, b, c] {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let whole = lab.dump("whole", &["-f", "vmdump", "-d", "1"]);
    let vmcore = ["verify", "--against", arg(lab.vmcore())];
    run_with(&vmcore, &[c, a, b], &[]).code(0);
    run(&["diff", &list(&[b, c, a]), arg(&whole)]).code(0);
    run(&["verify", arg(&whole), "--against", &list(&[c, b, a])]).code(0);
    let log = run_with(&["dmesg"], &[b, a, c], &[]).code(0).stdout;
    assert_eq!(log, run(&["dmesg", arg(&whole)]).code(0).stdout);
    for format in ["kdump", "flattened", "vmdump", "elf"] {
        let out = lab.path(format);
        run_with(&["dump", "-d", "1", "-f", format], &[c, a, b], &[&out]).code(0);
        run(&["verify", arg(&out), "--against", arg(lab.vmcore())]).code(0);
        // An ELF core does not tell zero pages from excluded ones.
        if format != "elf" {
            run(&["diff", arg(&out), arg(&whole)]).code(0);
        }
    }
    // A striped dump made from a striped dump.
    let again = [lab.path("x"), lab.path("y")];
    let list = list(&refs(&again));
    run_with(&["dump", "-d0", "--stripe", &list], &[a, b, c], &[]).code(0);
    run_with(&vmcore, &refs(&again), &[]).code(0);
}

#[test]
fn errors_in_the_parts_are_named() {
    let lab = lab();
    let parts = striped(&lab, 3, &[]);
    let other = lab.path("other");
    let kept: Vec<_> = (0..3).map(|n| lab.path(&format!("kept{n}"))).collect();
    for (from, to) in parts.iter().zip(&kept) {
        fs::rename(from, to).unwrap();
    }
    fs::rename(&striped(&lab, 3, &[])[1], &other).unwrap();
    let [a, b, c] = &refs(&kept)[..] else {
        panic!()
    };
    run_with(&["verify", "--against", arg(lab.vmcore())], &[a, c], &[])
        .code(1)
        .says(&[
            "incomplete but usable",
            "part 2 of 3 is missing; give it too",
        ]);
    run_with(&["verify"], &[a, b, c, b], &[])
        .code(1)
        .says(&["kept1", "is part 2 of 3", "once"]);
    run_with(&["verify"], &[a, &other, c], &[])
        .code(1)
        .says(&["other", "part 2 of 3 of another dump"]);
    run_with(&["verify", "--repair"], &[a], &[])
        .code(1)
        .says(&["kept0", "bigiron save"]);
    let mut bytes = fs::read(b).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = lab.file("damaged", &bytes);
    run_with(&["verify"], &[a, &damaged, c], &[])
        .code(1)
        .says(&["damaged: offset 0x"]);
    let out = lab.path("out");
    run_with(&["dump", "-d", "0"], &[a, c], &[&out])
        .code(0)
        .says(&["part 2 of 3 is missing", "lost"]);
    common::incomplete_but_equal(&out, lab.vmcore());
}

#[test]
fn usage_errors_name_the_expected_arguments() {
    let stripe = ["dump", "a", "--stripe"];
    for (more, part) in [
        (&["x"][..], "two files or devices"),
        (&["x,x"], "twice"),
        (&["x,-"], "standard output"),
        (&["x,y", "-f", "kdump"], "--stripe writes a vmdump"),
        (&["x,y", "-c", "bzip2"], "-c zstd"),
        (&["x,y", "--split", "v,w"], "cannot be used with"),
    ] {
        run(&[&stripe[..], more].concat()).code(2).says(&[part]);
    }
    run(&["dump", "a", "out", "--stripe", "x,y"])
        .code(2)
        .says(&["there is no OUTPUT"]);
    run(&["live", "out", "--stripe", "x,y"])
        .code(2)
        .says(&["cannot be used with"]);
    run(&["live"]).code(2).says(&["OUTPUT"]);
}

#[test]
fn all_parts_or_none_get_their_final_names() {
    let lab = lab();
    let there = lab.file("there", b"precious");
    let parts = [lab.path("new"), there.clone()];
    let list = list(&refs(&parts));
    run_with(&["dump", "--stripe", &list], &[lab.vmcore()], &[])
        .code(1)
        .says(&["there", "exists", "--overwrite"]);
    assert_eq!(fs::read(&there).unwrap(), b"precious");
    assert!(!lab.path("new").exists() && !lab.path("new.incomplete").exists());
    let disk = lab.path("disk");
    let Some(_disk) = SmallDisk::mount(&disk, 1) else {
        println!("skipped: a full disk under one part, since mounting needs root");
        return;
    };
    let parts = [lab.path("good"), disk.join("full")];
    let list = self::list(&refs(&parts));
    let line = ["dump", "-d0", "--stripe", &list];
    run_with(&line, &[lab.vmcore()], &[])
        .code(1)
        .says(&["disk/full: cannot write: No space left", "full.incomplete"]);
    assert!(!parts[0].exists() && !parts[1].exists());
    let left = [lab.path("good.incomplete"), disk.join("full.incomplete")];
    let line = ["verify", "--against", arg(lab.vmcore())];
    run_with(&line, &refs(&left), &[])
        .code(1)
        .says(&["incomplete but usable"]);
}

#[test]
fn striped_dump_killed_at_any_size_has_no_wrong_page() {
    const KILL_STEP: u64 = 60 << 10;
    let lab = lab();
    let parts = [lab.path("a"), lab.path("b"), lab.path("c")];
    let list = list(&refs(&parts));
    let size = |path: PathBuf| fs::metadata(path).map_or(0, |file| file.len());
    let mut opened = 0;
    for round in 0..40 {
        let line = ["dump", "-q", "-d0", "-c", "zstd:9", "--overwrite"];
        let line = [
            &line[..],
            &["--chunk-size", "64K", "--stripe", &list, arg(lab.vmcore())],
        ]
        .concat();
        let mut child = command(&line).stdout(Stdio::null()).spawn().unwrap();
        // Killed when this many bytes are written, or at its end.
        let written = || -> u64 {
            parts
                .iter()
                .map(|part| size(part.with_extension("incomplete")))
                .sum()
        };
        wait_while_running(&mut child, || written() >= round * KILL_STEP);
        child.kill().unwrap();
        child.wait().unwrap();
        let left = |part: &PathBuf| match part.exists() {
            true => part.clone(),
            false => part.with_extension("incomplete"),
        };
        let left: Vec<_> = parts
            .iter()
            .map(left)
            .filter(|left| left.exists())
            .collect();
        let usable: Vec<_> = left
            .iter()
            .filter(|left| fs::metadata(left).unwrap().len() > 0)
            .cloned()
            .collect();
        if !usable.is_empty() && Source::open(&usable).is_ok() {
            opened += 1;
            let line = ["verify", "--against", arg(lab.vmcore())];
            let outcome = run_with(&line, &refs(&usable), &[]);
            for wrong in ["differ", "byte 0x", "checksum"] {
                assert!(
                    !outcome.stderr.contains(wrong),
                    "{round}: {}",
                    outcome.stderr
                );
            }
            if round % 4 == 0 {
                let directory = lab.path(&format!("saved{round}/"));
                save_json(&[], &refs(&usable), &directory);
                let one = directory.join("vmdump.0");
                let again = run(&["verify", arg(&one), "--against", arg(lab.vmcore())]);
                assert!(!again.stderr.contains("damaged"), "{}", again.stderr);
            }
        }
        left.iter().for_each(|left| fs::remove_file(left).unwrap());
    }
    assert!(opened > 30, "only {opened} of 40 can be opened");
}

#[test]
fn many_slow_parts_stay_within_the_memory_limit() {
    let lab = lab();
    let parts: Vec<_> = (0..16).map(|n| lab.path(&format!("m{n}"))).collect();
    let list = list(&refs(&parts));
    let line = [
        "dump",
        "--json",
        "-d0",
        "-c",
        "zstd",
        "--write-limit",
        "300K",
    ];
    let line = [&line[..], &["--memory-limit", "24M", "--stripe", &list]].concat();
    let outcome = run_with(&line, &[lab.vmcore()], &[]).code(0);
    let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let peak = report["peak_memory"].as_u64().unwrap();
    assert!(peak < 24 << 20, "{peak}");
    let line = ["verify", "--against", arg(lab.vmcore())];
    run_with(&line, &refs(&parts), &[]).code(0);
}

#[test]
fn signal_ends_and_keeps_all_parts() {
    let lab = lab();
    let parts = [lab.path("a"), lab.path("b")];
    let list = list(&refs(&parts));
    let line = [
        "dump",
        "-q",
        "-d0",
        "--write-limit",
        "1M",
        "--stripe",
        &list,
        arg(lab.vmcore()),
    ];
    let mut child = command(&line).spawn().unwrap();
    let len = |name: &str| fs::metadata(lab.path(name)).map_or(0, |file| file.len());
    let written = || len("a.incomplete").min(len("b.incomplete"));
    assert!(wait_while_running(&mut child, || written() > 200 << 10));
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    finish(child)
        .code(143)
        .says(&["interrupted", "a.incomplete"]);
    let left = [lab.path("a.incomplete"), lab.path("b.incomplete")];
    let line = ["verify", "--against", arg(lab.vmcore())];
    run_with(&line, &refs(&left), &[])
        .code(1)
        .says(&["incomplete but usable"]);
}
