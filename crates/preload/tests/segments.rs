//! System V segments: attachments, modes and keys are those of the plain calls at every step.

mod common;

use common::{Program, SMALL, run};

fn same(case: &str, accelerated: &[&str]) {
    if let Some(program) = Program::compile("segments") {
        program.same(&[case], SMALL, accelerated);
        // Only the number of resident pages shows that they are populated at once.
        let policy = SMALL.replace("attach=plain", "attach=create");
        let plain = run(&mut program.plain(&[case]));
        let (created, trace) = program.traced(&[case], &policy);
        let but_pages = |output: &[u8]| {
            let text = String::from_utf8_lossy(output).into_owned();
            let lines = text.lines().filter(|line| !line.contains("Rss:"));
            lines.collect::<Vec<_>>().join("\n")
        };
        assert_eq!(
            but_pages(&created.stdout),
            but_pages(&plain.stdout),
            "{trace}"
        );
        assert_eq!(created.status, plain.status, "{trace}");
    }
}

#[test]
fn life_cycle() {
    same("ordinary", &["shmdt"]);
}

#[test]
fn life_cycle_of_other_kinds() {
    same("without-reserve", &["shmdt"]);
    if let Some(program) = Program::compile("segments") {
        // Without reserved huge pages the call fails, with and without the library.
        let accelerated = program.traced(&["huge"], SMALL).1;
        let accelerated = common::kinds(&accelerated);
        let accelerated: Vec<&str> = accelerated.iter().map(String::as_str).collect();
        program.same(&["huge"], SMALL, &accelerated);
    }
}

#[test]
fn addresses_chosen_by_the_program() {
    same("places", &["shmdt"]);
}

#[test]
fn mapping_over_an_attachment_stays() {
    same("parts", &["munmap", "shmdt"]);
}

#[test]
fn parts_of_an_attachment_locked_in_sequence() {
    same("locked-in-parts", &["mlock", "shmdt"]);
}

#[test]
fn keys_are_free_immediately() {
    same("keys", &["shmdt"]);
}

#[test]
fn segments_of_other_processes_are_not_populated() {
    same("foreign", &[]);
}

#[test]
fn new_segments_are_populated_according_to_the_policy() {
    let Some(program) = Program::compile("segments") else {
        return;
    };
    let lines = |attach: &str, lock: &str| {
        let policy = format!("threshold=64K,huge=never,attach={attach},shm-lock={lock},exit=plain");
        let (output, trace) = program.traced(&["created"], &policy);
        assert!(output.status.success(), "{trace}");
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = run(&mut program.plain(&["created"]));
    assert_eq!(
        lines("plain", "plain"),
        String::from_utf8(plain.stdout).unwrap()
    );
    // By kind: populated at the attachment; populated when locked; then the segments that must
    // not be populated.
    let expect = |made: &str, locked: &str, mode: &str| {
        format!(
            "{made} pages, mode {mode}\n{locked} pages\n0 pages, mode 600\n0 pages\n0 pages\n\
             1 tasks, 5 descriptors\n"
        )
    };
    // Of a segment of 1 MiB.
    let all = ((1 << 20) / rustix::param::page_size()).to_string();
    let tail = |text: String| text.lines().take(5).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        tail(lines("create", "plain")),
        tail(expect(&all, &all, "600"))
    );
    assert_eq!(
        tail(lines("plain", "create")),
        tail(expect("0", &all, "600"))
    );
    assert_eq!(
        tail(lines("lock", "create")),
        tail(expect(&all, &all, "2600"))
    );
}
