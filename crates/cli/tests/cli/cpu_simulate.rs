//! `bigiron cpu simulate`.

use std::process::Command;

use crate::common;
use crate::common::run;
use serde_json::Value;

/// Maximum address space for the model of the largest machine, in KiB.
const MAX_MEMORY: u32 = 256 << 10;

fn json(arguments: &[&str]) -> Value {
    let all = [&["cpu", "simulate", "--json"], arguments].concat();
    serde_json::from_str(&run(&all).code(0).text()).unwrap()
}

fn row<'a>(answer: &'a Value, strategy: &str, rcu: &str) -> &'a Value {
    let rows = answer["rows"].as_array().unwrap();
    let is_it = |row: &&Value| row["strategy"] == strategy && row["kernel"]["rcu"] == rcu;
    rows.iter().find(is_it).unwrap()
}

fn total(row: &Value) -> f64 {
    let terms = row["total"].as_object().unwrap();
    terms
        .values()
        .map(|seconds| seconds.as_f64().unwrap())
        .sum()
}

#[test]
fn strategies_are_compared_with_the_named_kernel() {
    let answer = json(&[]);
    let as_it_is = row(&answer, "debugfs", "normal");
    assert_eq!(answer["against"], "6.1");
    assert_eq!(
        (&as_it_is["cpus"], &as_it_is["offlined"]),
        (&1920.into(), &1680.into())
    );
    assert_eq!(as_it_is["largest"], "show");
    assert!((as_it_is["speedup"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    let batched = row(&answer, "batched-off", "expedited");
    assert_eq!(batched["rebuilds"], 2);
    let speedup = total(as_it_is) / total(batched);
    assert!((batched["speedup"].as_f64().unwrap() / speedup - 1.0).abs() < 1e-9);

    // The same machine under a kernel without the export: no strategy can save it.
    let newer = json(&["--kernel", "6.16"]);
    let off = row(&newer, "off", "normal");
    assert!((off["speedup"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(off["kernel"]["span_check"], "once");
    assert!(total(off) < total(row(&answer, "off", "normal")));

    let text = run(&["cpu", "simulate", "--kernel", "6.16"]).code(0).text();
    assert!(
        text.contains("speedup relative to Linux 6.16 with defaults"),
        "{text}"
    );
}

#[test]
fn extrapolated_values_are_marked() {
    let mark = |machine: &str| json(&["--machine", machine])["extrapolated"].clone();
    assert_eq!(mark("sockets=15 cores=16 threads=8"), false);
    assert_eq!(mark("sockets=16 cores=16 threads=8"), true);
    assert_eq!(mark("cores=8 threads=8"), true);
    let growth = json(&["--growth"]);
    let points = growth["points"].as_array().unwrap();
    let known = points.iter().filter(|point| point["extrapolated"] == false);
    let known: Vec<u64> = known.map(|point| point["cpus"].as_u64().unwrap()).collect();
    assert_eq!(known, [256, 512, 1024, 1920]);
    let text = run(&["cpu", "simulate", "--growth"]).code(0).text();
    assert!(
        text.contains(" 8192*\n") && text.contains(" 1920 "),
        "{text}"
    );
}

#[test]
fn growth_can_be_plotted() {
    let plot = |arguments: &[&str]| {
        let all = [&["cpu", "simulate", "--growth", "--as", "svg"], arguments].concat();
        run(&all).code(0).text()
    };
    let svg = plot(&[]);
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert_eq!(
        svg.matches("<circle").count(),
        5,
        "four published times, and the legend"
    );
    for part in [
        ">8192<",
        ">1 h<",
        ">incremental, off, lazy<",
        ">extrapolated<",
        "class=\"line dashed k0\"",
    ] {
        assert!(svg.contains(part), "{part}");
    }
    // The published times are valid only for one machine and one kernel's check.
    let other = plot(&["--machine", "cores=64 threads=2", "--kernel", "6.16"]);
    assert_eq!(other.matches("<circle").count(), 0);
    run(&["cpu", "simulate", "--as", "svg"])
        .code(1)
        .says(&["needs --growth"]);
}

#[test]
fn largest_machine_is_simulated_in_bounded_memory() {
    let limited = format!("ulimit -v {MAX_MEMORY}; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args([
            "-c",
            &limited,
            env!("CARGO_BIN_EXE_bigiron"),
            "cpu",
            "simulate",
        ])
        .args([
            "--machine",
            "sockets=64 cores=16 threads=8 numa=4",
            "--json",
        ])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["rows"][0]["cpus"], 8192);
    assert_eq!(answer["rows"][0]["offlined"], 7168);
}

#[cfg(feature = "hotplug")]
#[test]
fn costs_of_this_machine_are_marked_as_measured_or_assumed() {
    let answer = json(&["--costs", "measured", "--machine", "cores=8 threads=2"]);
    let origins = answer["origins"].as_array().unwrap();
    let how = |cost: &str| {
        let has = |origin: &&Value| origin["costs"].as_array().unwrap().contains(&cost.into());
        origins.iter().find(has).unwrap()["how"].clone()
    };
    for cost in answer["costs"].as_object().unwrap().keys() {
        assert!(how(cost).is_string(), "{cost}");
    }
    assert_eq!(
        (how("mask_word"), how("hotplug")),
        ("measured".into(), "assumed".into())
    );
    let text = run(&["cpu", "simulate", "--costs", "measured", "--here"])
        .code(0)
        .text();
    assert!(
        text.contains("costs of this machine") && text.contains("\n  assumed: "),
        "{text}"
    );
}

#[test]
fn machine_is_read_from_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("cpu/present", "0-3\n");
    for cpu in 0..4 {
        let core = if cpu < 2 { "0-1\n" } else { "2-3\n" };
        write(&format!("cpu/cpu{cpu}/topology/core_cpus_list"), core);
        write(&format!("cpu/cpu{cpu}/topology/package_cpus_list"), "0-3\n");
    }
    let sysfs = ["--sysfs", common::arg(directory.path())];
    let answer = json(&sysfs);
    assert_eq!(answer["rows"][0]["offlined"], 2);
    write("cpu/online", "0-2\n");
    run(&[&["cpu", "simulate"], &sysfs[..]].concat())
        .code(0)
        .says(&["1 CPUs are offline"]);
    run(&[&["cpu", "simulate", "--growth"], &sysfs[..]].concat()).code(2);
}
