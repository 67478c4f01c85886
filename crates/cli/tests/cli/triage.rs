//! `bigiron triage`: dumps and logs as rows of a table. scripts/check_fleet reads the tables with
//! DuckDB and pandas.

use std::fs;
use std::path::{Path, PathBuf};

use bigiron_fleet::{Row, read_table};
use bigiron_synth::{ElfShape, KernelLog, LogForm, LogRecord, Synth};
use serde_json::Value;

use crate::common::{arg, make_pipe, run};

/// A log that tells of a crash in `function`.
fn log(host: &str, function: &str) -> String {
    let lines = [
        "BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "CPU: 1 PID: 87 Comm: sh Tainted: G           OE      6.1.0-13-amd64 #1  Debian 6.1.55-1",
        "Hardware name: Dell Inc. PowerEdge R640/0W23H8, BIOS 2.4.7 01/13/2020",
        &format!("RIP: 0010:{function}+0x1/0x2 [faulty]"),
        "Call Trace:",
        " <TASK>",
        " vfs_write+0x1/0x2",
        " ksys_write+0x1/0x2",
        " </TASK>",
        "Modules linked in: faulty(OE) nfs",
        "Kernel panic - not syncing: Fatal exception",
    ];
    let stamp = |line: &str| format!("Nov 24 16:33:32 {host} kernel: [   81.000000] {line}\n");
    lines.iter().copied().map(stamp).collect()
}

/// A vmcore whose log has these lines.
fn vmcore(lines: &[&str]) -> Vec<u8> {
    let mut spec = Synth::from_text("kernel 6.12\nram 0x0-0x9f 0x100-0xfff")
        .unwrap()
        .spec()
        .clone();
    let mut log = KernelLog::new(LogForm::Lockless);
    let records = lines
        .iter()
        .map(|line| LogRecord::new(81_000_000_000, line.as_bytes()));
    log.records.extend(records);
    spec.log = Some(log);
    Synth::from_spec(spec).unwrap().elf(&ElfShape::vmcore())
}

/// A fleet: three logs, two dumps, one of them cut before its headers end.
fn fleet(directory: &Path) -> PathBuf {
    let fleet = directory.join("fleet");
    let dump = vmcore(&[
        "DMI: QEMU Standard PC (Q35 + ICH9, 2009), BIOS 1.16.2",
        "Kernel panic - not syncing: sysrq triggered crash",
    ]);
    let logs = ["node1", "node2"].map(|host| log(host, "write_it"));
    let files: [(&str, &[u8]); 6] = [
        ("a/console.txt", logs[0].as_bytes()),
        ("b/console.txt", logs[1].as_bytes()),
        ("c/quiet.txt", b"[    1.000000] nothing happened\n"),
        ("d/vmcore", &dump),
        ("d/vmcore-dmesg.txt", b"[    1.000000] a copy\n"),
        ("e/vmcore", &dump[..40]),
    ];
    for (name, bytes) in files {
        let path = fleet.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    fleet
}

fn rows(table: &Path) -> Vec<Row> {
    let mut rows = Vec::new();
    read_table(table, &mut |row| rows.push(row)).unwrap();
    rows
}

const TABLE: &str = "crashes-00000-of-00001.parquet";

#[test]
fn every_dump_and_log_has_a_row() {
    let directory = tempfile::tempdir().unwrap();
    let (fleet, output) = (fleet(directory.path()), directory.path().join("crashes"));
    run(&["triage", arg(&fleet), "-o", arg(&output)])
        .code(0)
        .says(&["e/vmcore"]);
    let rows = rows(&output.join(TABLE));
    let names: Vec<_> = rows
        .iter()
        .map(|row| row.path.replace(arg(&fleet), ""))
        .collect();
    assert_eq!(
        names,
        [
            "/a/console.txt",
            "/b/console.txt",
            "/c/quiet.txt",
            "/d/vmcore",
            "/e/vmcore"
        ]
    );
    let kinds: Vec<_> = rows.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(kinds, ["log", "log", "log", "dump", "unknown"]);
    let [first, second, quiet, dump, cut] = &rows[..] else {
        panic!("{rows:?}")
    };
    assert_eq!(first.title, second.title);
    assert!(
        first
            .title
            .as_ref()
            .is_some_and(|title| title.ends_with("in write_it"))
    );
    assert!(first.fingerprint.is_some() && first.fingerprint == second.fingerprint);
    assert_eq!(first.host.as_deref(), Some("node1"));
    assert_eq!(first.kernel_release.as_deref(), Some("6.1.0-13-amd64"));
    assert_eq!(
        first.machine.as_deref(),
        Some("Dell Inc. PowerEdge R640/0W23H8")
    );
    assert_eq!(first.tainted.as_deref(), Some("EGO"));
    assert_eq!(first.modules, ["faulty", "nfs"]);
    assert_eq!(first.uptime_seconds, Some(81));
    assert_eq!((&quiet.title, quiet.errors.len()), (&None, 0));
    assert_eq!(dump.format.as_deref(), Some("ELF core"));
    assert_eq!(dump.complete, Some(true));
    assert!(dump.title.is_some() && dump.memory_bytes.is_some());
    assert!(
        dump.machine
            .as_ref()
            .is_some_and(|machine| machine.starts_with("QEMU"))
    );
    assert!(
        cut.title.is_none() && cut.errors[0].contains("e/vmcore"),
        "{:?}",
        cut.errors
    );
}

#[test]
fn table_does_not_depend_on_the_number_of_processes_and_done_dumps_are_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let fleet = fleet(directory.path());
    let table = |name: &str, jobs: &str| {
        let output = directory.path().join(name);
        let made = run(&["triage", arg(&fleet), "-o", arg(&output), "--jobs", jobs]).code(0);
        (made.text(), fs::read(output.join(TABLE)).unwrap())
    };
    let (one, three) = (table("one", "1"), table("three", "3"));
    assert!(
        one.0.contains("5 rows, 5 new, 0 done before, 1 could not"),
        "{}",
        one.0
    );
    assert_eq!(one.1, three.1);
    let again = table("one", "1");
    assert!(
        again.0.contains("5 rows, 0 new, 5 done before"),
        "{}",
        again.0
    );
    assert_eq!(again.1, one.1);
    // A new log is added, a changed one described again, and a deleted one stays in the table.
    fs::write(fleet.join("a/second.txt"), log("node1", "read_it")).unwrap();
    fs::write(fleet.join("c/quiet.txt"), log("node3", "read_it")).unwrap();
    fs::remove_file(fleet.join("b/console.txt")).unwrap();
    let more = table("one", "2");
    assert!(
        more.0.contains("6 rows, 2 new, 3 done before"),
        "{}",
        more.0
    );
    let titles = rows(&directory.path().join("one").join(TABLE));
    assert_eq!(titles.iter().filter(|row| row.title.is_some()).count(), 5);
    let left: Vec<_> = fs::read_dir(directory.path().join("one"))
        .unwrap()
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn dump_that_hangs_costs_its_own_row_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let (fleet, output) = (fleet(directory.path()), directory.path().join("crashes"));
    // Opening a pipe waits for a writer.
    let pipe = directory.path().join("pipe");
    make_pipe(&pipe);
    let list = directory.path().join("list");
    fs::write(
        &list,
        format!("{}\n{}\n", arg(&pipe), arg(&fleet.join("a"))),
    )
    .unwrap();
    let make = |more: &[&str]| {
        let fixed = [
            "triage",
            "--files-from",
            arg(&list),
            "-o",
            arg(&output),
            "--timeout=1",
        ];
        run(&[&fixed, more].concat()).code(0).text()
    };
    let made = make(&[]);
    assert!(
        made.contains("2 rows, 2 new, 0 done before, 1 could not"),
        "{made}"
    );
    let found = rows(&output.join(TABLE));
    let failed = found.iter().find(|row| row.has_failed()).unwrap();
    assert!(failed.path.ends_with("pipe") && failed.errors.len() == 1);
    let again = make(&["--retry"]);
    assert!(
        again.contains("2 rows, 1 new, 1 done before, 1 could not"),
        "{again}"
    );
}

#[test]
fn shards_have_all_rows_once_and_do_not_mix_with_others() {
    let directory = tempfile::tempdir().unwrap();
    let (fleet, output) = (fleet(directory.path()), directory.path().join("crashes"));
    let mut paths = Vec::new();
    for shard in ["0/2", "1/2"] {
        run(&["triage", arg(&fleet), "-o", arg(&output), "--shard", shard]).code(0);
    }
    for index in 0..2 {
        let table = rows(&output.join(format!("crashes-0000{index}-of-00002.parquet")));
        paths.extend(table.into_iter().map(|row| row.path));
    }
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 5);
    run(&["triage", arg(&fleet), "-o", arg(&output)])
        .code(1)
        .says(&["another number of shards"]);
}

#[test]
fn killed_run_is_continued_from_its_journal() {
    let directory = tempfile::tempdir().unwrap();
    let (fleet, output) = (fleet(directory.path()), directory.path().join("crashes"));
    run(&["triage", arg(&fleet), "-o", arg(&output)]).code(0);
    let whole = fs::read(output.join(TABLE)).unwrap();
    let mut journal = String::new();
    for row in rows(&output.join(TABLE)).iter().take(2) {
        journal += &(serde_json::to_string(row).unwrap() + "\n");
    }
    fs::remove_file(output.join(TABLE)).unwrap();
    fs::write(
        output.join(format!("{TABLE}.rows")),
        journal + "{\"path\":\"half a r",
    )
    .unwrap();
    let again = run(&["triage", arg(&fleet), "-o", arg(&output)])
        .code(0)
        .text();
    assert!(again.contains("5 rows, 3 new, 2 done before"), "{again}");
    assert_eq!(fs::read(output.join(TABLE)).unwrap(), whole);
}

#[test]
fn names_of_hosts_are_left_out_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("console.txt");
    let text = log("node1", "write_it").replace("Fatal", "node1: fatal");
    fs::write(&path, text).unwrap();
    let row = |more: &[&str]| {
        let fixed = ["triage", "row", arg(&path)];
        run(&[&fixed, more].concat()).code(0).text()
    };
    assert!(row(&[]).contains("node1"));
    let without = row(&["--no-host"]);
    assert!(
        !without.contains("node1") && without.contains("\"host\":null"),
        "{without}"
    );
}

#[test]
fn log_cannot_control_the_terminal_or_break_its_row() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("console.txt");
    let hostile = "\u{1b}[31m{\"path\":\"\u{202e}";
    fs::write(&path, log("node1", "write_it").replace("Fatal", hostile)).unwrap();
    let printed = run(&["triage", "row", arg(&path)]).code(0).text();
    assert!(!printed.contains(['\u{1b}', '\u{202e}']));
    let row: Row = serde_json::from_str(&printed).unwrap();
    assert!(
        row.first_lines.iter().any(|line| line.contains(hostile)),
        "{row:?}"
    );
}

/// The rows of `show --json` in which buckets are.
fn shown(output: &Path, more: &[&str]) -> Value {
    let fixed = ["triage", "show", arg(output), "--json"];
    serde_json::from_str(&run(&[&fixed, more].concat()).code(0).text()).unwrap()
}

#[test]
fn buckets_are_shown_by_machines_with_their_members() {
    let directory = tempfile::tempdir().unwrap();
    let (fleet, output) = (fleet(directory.path()), directory.path().join("crashes"));
    run(&["triage", arg(&fleet), "-o", arg(&output)]).code(0);
    let table = shown(&output, &[]);
    assert_eq!(
        (&table["rows"], &table["without_crash"], &table["failed"]),
        (&5.into(), &1.into(), &1.into())
    );
    let first = &table["buckets"][0];
    assert_eq!(
        (&first["machines"], &first["crashes"]),
        (&2.into(), &2.into())
    );
    assert_eq!(first["kernels"][0]["release"], "6.1.0-13-amd64");
    let title = first["title"].as_str().unwrap();
    let bucket = shown(&output, &["--bucket", title]);
    let hosts: Vec<_> = bucket["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| &member["host"])
        .collect();
    assert!(hosts.contains(&&"node1".into()) && hosts.contains(&&"node2".into()));
    let text = run(&["triage", "show", arg(&output)]).code(0).text();
    assert!(
        text.contains(title) && text.contains("1 without a crash, 1 could not be described"),
        "{text}"
    );
    let since = shown(&output, &["--since", "2999-01-01"]);
    assert_eq!(since["buckets"], Value::Array(Vec::new()));
    run(&["triage", "show", arg(&output), "--bucket", "none"])
        .code(1)
        .says(&["has no bucket none"]);
    run(&["triage", "show", arg(&fleet)])
        .code(1)
        .says(&["has no table"]);
}

#[test]
fn page_has_the_table_as_data_and_never_as_markup() {
    let directory = tempfile::tempdir().unwrap();
    let page = |function: &str, name: &str| {
        let fleet = directory.path().join(name);
        fs::create_dir(&fleet).unwrap();
        let output = fleet.join("crashes");
        fs::write(
            fleet.join("console.txt"),
            log(&format!("<b>{function}"), "write_it").replace("6.1.0", function),
        )
        .unwrap();
        run(&["triage", arg(&fleet), "-o", arg(&output)]).code(0);
        run(&["triage", "show", arg(&output), "--html", "-"])
            .code(0)
            .text()
    };
    let hostile = page("</script><img/src=x>", "hostile");
    assert_eq!(
        hostile.matches('<').count(),
        page("6.2", "plain").matches('<').count()
    );
    assert!(hostile.contains("\\u003c/script\\u003e\\u003cimg/src=x\\u003e"));
}
