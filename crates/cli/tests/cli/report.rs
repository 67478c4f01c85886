//! `bigiron report`: a dump as one page. scripts/check_report tests the page
//! in a browser.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{arg, run};
use bigiron_synth::{ElfShape, KernelLog, LogForm, LogRecord, Synth};
use serde_json::Value;

const HOSTILE: &str = "</script><img src=x onerror=alert(1)><!-- & \u{2028}";

/// Creates a vmcore whose log has this line.
fn vmcore(directory: &Path, line: &str) -> String {
    let text = "kernel 6.12\nram 0x0-0x9f 0x100-0xfff\n\
        pages 0x200 free order=9 ; 0x480 cache n=16 ; 0x500 slab n=32 ; 0x600 thp\n";
    let mut spec = Synth::from_text(text).unwrap().spec().clone();
    let mut log = KernelLog::new(LogForm::Lockless);
    log.records.push(LogRecord::new(1_000_000, line.as_bytes()));
    spec.log = Some(log);
    let path = directory.join("vmcore");
    let machine = Synth::from_spec(spec).unwrap();
    fs::write(&path, machine.elf(&ElfShape::vmcore())).unwrap();
    arg(&path).to_owned()
}

/// Returns the data that the page's script receives.
fn data(page: &str) -> Value {
    let data = page.split_once("id=\"data\">").unwrap().1;
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn log_is_embedded_as_data_and_never_as_markup() {
    let directory = tempfile::tempdir().unwrap();
    let line = format!("Kernel panic - not syncing: {HOSTILE}");
    let dump = vmcore(directory.path(), &line);
    let page = run(&["report", &dump, "-o", "-"]).code(0).text();
    let plain = vmcore(directory.path(), "nothing happened");
    let plain = run(&["report", &plain, "-o", "-"]).code(0).text();
    assert_eq!(page.matches('<').count(), plain.matches('<').count());
    let data = data(&page);
    assert_eq!(data["overview"]["crash"]["panic"]["message"], HOSTILE);
    assert_eq!(data["log"]["lines"][0][2], *line);
}

#[test]
fn report_counts_every_page_frame_and_names_unknown_facts() {
    let directory = tempfile::tempdir().unwrap();
    let dump = vmcore(directory.path(), "hello");
    let data = data(&run(&["report", &dump, "-o", "-"]).code(0).text());
    let map = &data["map"];
    let total: u64 = map["total"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(Some(total), map["ram"].as_u64());
    let of = |name: &str| {
        let classes = map["classes"].as_array().unwrap();
        let index = classes
            .iter()
            .position(|class| class["name"] == name)
            .unwrap();
        map["total"][index].as_u64().unwrap()
    };
    assert_eq!(
        (of("free"), of("cache"), of("slab"), of("user")),
        (512, 16, 32, 512)
    );
    assert!(map["bins"].as_array().unwrap().len() <= 4096);
    // The test machine has no symbols, and bigiron did not write its core.
    for part in ["users", "domains", "time_line"] {
        let reason = data[part]["not_known"].as_str();
        assert!(
            reason.is_some_and(|reason| reason.len() > 20),
            "{part}: {reason:?}"
        );
    }
}

#[test]
fn timeline_comes_from_the_vmdump_or_from_a_summary() {
    let directory = tempfile::tempdir().unwrap();
    let dump = vmcore(directory.path(), "hello");
    let file = |name: &str| arg(&directory.path().join(name)).to_owned();
    let (packed, kdump, summary) = (file("vmdump"), file("kdump"), file("summary.json"));
    run(&["dump", "-q", "-f", "vmdump", "-c", "zstd", &dump, &packed]).code(0);
    let found = data(&run(&["report", &packed, "-o", "-"]).code(0).text());
    assert_eq!(found["time_line"]["phases"][0]["name"], "filter");
    assert!(found["time_line"]["helpers"][0].is_number(), "{found}");
    assert!(found["map"]["stored"].as_u64() > Some(0));

    let said = run(&["dump", "--json", "-c", "zstd", &dump, &kdump]).code(0);
    fs::write(&summary, said.stdout).unwrap();
    let page = run(&["report", &kdump, "--summary", &summary, "-o", "-"]).code(0);
    let found = data(&page.text());
    assert_eq!(found["time_line"]["phases"][1]["name"], "copy");
    let bins = found["map"]["bins"].as_array().unwrap();
    let stored: u64 = bins.iter().filter_map(|bin| bin[3].as_u64()).sum();
    assert_eq!(Some(stored), found["map"]["stored"].as_u64());

    fs::write(&summary, "{}").unwrap();
    run(&["report", &kdump, "--summary", &summary, "-o", "-"])
        .code(1)
        .says(&["summary.json", "bigiron dump --json"]);
}

#[test]
fn page_is_a_new_private_file() {
    let directory = tempfile::tempdir().unwrap();
    let dump = vmcore(directory.path(), "hello");
    let page = directory.path().join("report.html");
    run(&["report", &dump, "-o", arg(&page)]).code(0);
    let mode = fs::metadata(&page).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    run(&["report", &dump, "-o", arg(&page)])
        .code(1)
        .says(&["report.html", "--overwrite"]);
    run(&["report", &dump, "-o", arg(&page), "--overwrite"]).code(0);
    let names = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 2, "something else was left");
}
