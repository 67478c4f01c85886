//! `bigiron mem bench`: its output, and the removal of everything it creates.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// `bigiron mem bench` without the programs that it compares with.
fn bench() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bigiron"));
    command.args(["mem", "bench", "--no-peers"]);
    command
}

/// Returns the number of segments in the kernel's list that a process has created.
fn segments_of(process: u32) -> usize {
    let list = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    assert!(list.contains("shmid"), "{list}");
    let creator = process.to_string();
    let of_it = |line: &&str| line.split_whitespace().nth(4) == Some(&creator);
    list.lines().filter(of_it).count()
}

#[test]
fn json_has_the_machine_and_every_round() {
    let output = bench()
        .args(["--size", "32M", "--rounds", "2", "--quick", "--json"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("round 2 of 2"), "{told}");
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["size"], 48 << 20);
    assert!(
        results["machine"]["kernel"]
            .as_str()
            .is_some_and(|name| !name.is_empty())
    );
    assert!(results["facts"]["shmem_enabled"].is_string());
    let rows = results["rows"].as_array().unwrap();
    for row in rows {
        for side in ["plain", "ours"] {
            let rounds = row[side]["rounds"].as_array().unwrap();
            assert_eq!(rounds.len(), 2, "{row}");
            for round in rounds {
                assert!(round["create"].as_f64().unwrap() > 0.0, "{row}");
                assert!(round["destroy"].as_f64().unwrap() > 0.0, "{row}");
            }
        }
    }
    let of_kind = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).count();
    assert!(of_kind("other") >= 5);
    // Without the right to lock memory each row of locked memory has a reason for its absence.
    if of_kind("ism") == 0 || of_kind("dism") == 0 {
        assert!(results["skipped"].to_string().contains("lock"));
        eprintln!("SKIP: rows of locked memory: {}", results["skipped"]);
    }
}

#[test]
fn interrupted_benchmark_leaves_no_segment() {
    let mut child = bench()
        .args(["--size", "128M", "--rounds", "1000"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let process = child.id();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("round 1"), "{first}");
    while segments_of(process) == 0 {
        assert!(
            child.try_wait().unwrap().is_none(),
            "the benchmark ended early"
        );
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let told: Vec<String> = lines.map_while(Result::ok).collect();
    let status = child.wait().unwrap();
    assert!(!status.success(), "{status}");
    assert!(
        told.last().is_some_and(|line| line.contains("interrupted")),
        "{told:?}"
    );
    assert_eq!(segments_of(process), 0);
}
