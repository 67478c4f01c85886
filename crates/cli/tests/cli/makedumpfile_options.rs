//! The command line of makedumpfile: every option, and the errors for invalid
//! ones, compared with makedumpfile.

use std::collections::BTreeSet;
use std::process::Command;

use crate::peer::{Lab, installed, said};

/// Returns the options in a text whose lines with options begin with `begin`.
fn options_in(text: &str, begin: &str) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(begin));
    let lines = lines.filter(|line| line.starts_with('-'));
    let mut found = BTreeSet::new();
    for line in lines {
        // The names come before their values and the explanation.
        let names = line.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
        let names = names.filter(|name| name.starts_with('-') && name.len() > 1);
        found.extend(names.map(str::to_owned));
    }
    found
}

/// Asserts that every name is an option in our help too.
#[track_caller]
fn all_known(options: &BTreeSet<String>) {
    assert!(options.len() > 25, "{options:?}");
    let help = Lab::new().ours("-h").code(0).text();
    let known = options_in(&help, "  [");
    let unknown: Vec<_> = options.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?} not in {known:?}");
}

#[test]
fn every_option_of_makedumpfiles_man_page_is_in_the_table() {
    let mut man = Command::new("man");
    man.env("MANWIDTH", "100")
        .env("MANPAGER", "cat")
        .arg("makedumpfile");
    let Ok(output) = man.output() else {
        println!("skipped: man is not installed");
        return;
    };
    // Removes the overstrikes with which man prints bold letters.
    let mut text = String::new();
    for letter in String::from_utf8_lossy(&output.stdout).chars() {
        match letter {
            '\u{8}' => drop(text.pop()),
            letter => text.push(letter),
        }
    }
    let Some((_, options)) = text.split_once("\nOPTIONS\n") else {
        println!("skipped: makedumpfile(8) is not installed");
        return;
    };
    let (options, _) = options.split_once("\nENVIRONMENT").unwrap_or((options, ""));
    all_known(&options_in(options, "       "));
}

#[test]
fn every_option_of_makedumpfiles_help_is_in_the_table() {
    if installed() {
        let help = Lab::new().theirs("-h").code(0);
        let text = help.text() + &help.stderr;
        let (_, options) = text.split_once("Available options:").unwrap();
        all_known(&options_in(options, "  ["));
    }
}

#[test]
fn unsupported_options_are_rejected_by_name() {
    let lab = Lab::new();
    for (option, why) in [
        ("--eppic @macro", "--eppic MACRO is not supported"),
        ("--extension a.so", "rules name the same pages"),
    ] {
        let outcome = lab
            .ours(&format!("{option} -d31 @vmcore @out"))
            .code(1)
            .says(&[why]);
        assert_eq!(outcome.text(), "\nmakedumpfile Failed.\n");
        let outcome = lab
            .ours(&format!("--check-params {option} -d31 @vmcore @out"))
            .code(1);
        assert_eq!(outcome.says(&[why]).text(), "");
        assert!(!lab.path("out").exists());
    }
}

#[test]
fn options_for_makedumpfiles_internals_are_ignored_with_a_notice() {
    let lab = Lab::new();
    let line = "-b 2 --cyclic-buffer=16 --work-dir /nowhere -d31 @vmcore @out";
    let outcome = lab.ours(line).code(0).says(&["-b ORDER is ignored"]);
    let outcome = outcome.says(&[
        "--cyclic-buffer KB is ignored",
        "--work-dir DIRECTORY is ignored",
    ]);
    assert!(outcome.text().ends_with("\nmakedumpfile Completed.\n"));
    let outcome = lab.ours(&format!("--message-level 0 -f {line}")).code(0);
    assert_eq!(
        (outcome.text(), outcome.stderr),
        (String::new(), String::new())
    );
}

/// Command lines that write no dump.
const LINES: &[&str] = &[
    "",
    "--nosuch",
    "--s -d31 @vmcore @out",
    "--split=3 @vmcore @out",
    "-d",
    "--vtop",
    "-q",
    "-d32 @vmcore @out",
    "-d 0,31,99 @vmcore @out",
    "-d-1 @vmcore @out",
    "--message-level 32 @vmcore @out",
    "--message-level=99 --check-params @vmcore @out",
    "--check-params --message-level 99 @vmcore @out",
    "-L 0 @vmcore @out",
    "-L 1X @vmcore @out",
    "-E -c @vmcore @out",
    "-El @vmcore @out",
    "-x a -i b @vmcore @out",
    "-F @vmcore @out",
    "-F --split @vmcore @a @b",
    "-F",
    "-d31 @vmcore",
    "-d31 @vmcore @a @b",
    "--split @vmcore @a",
    "--split -E @vmcore @a @b",
    "--num-threads 2 --split @vmcore @a @b",
    "--num-threads 2 -E @vmcore @a",
    "--partial-dmesg @vmcore @out",
    "--dry-run --dump-dmesg @vmcore @out",
    "--dump-dmesg @vmcore",
    "-R",
    "-R @a @b",
    "-Rc @a",
    "-R -d31 @a",
    "--reassemble -d31 @a @b @c",
    "--reassemble --dry-run @a @b @c",
    "--reassemble -F @a @b @c",
    "--check-params -cd31 @vmcore @out",
    "--check-params @vmcore --num-thr=4 -l @out -d 11,31",
    "--check-params -E -c @vmcore @out",
    "--check-params -R @a",
    "--check-params --reassemble @a @b @c",
    "--check-params --split @vmcore @a @b",
    "--check-params --split @vmcore @a",
    "--check-params -- -c -d",
    "-c --check-params -q",
];

#[test]
fn invalid_and_check_only_command_lines_exit_as_makedumpfile_does() {
    if !installed() {
        return;
    }
    let lab = Lab::new();
    for line in LINES {
        let (ours, theirs) = (lab.ours(line), lab.theirs(line));
        assert_eq!(ours.code, theirs.code, "{line}: {}", ours.stderr);
        assert_eq!(said(&ours), said(&theirs), "{line}");
        assert_eq!(ours.stderr, theirs.stderr, "{line}");
        for name in ["out", "a", "b", "c"] {
            assert!(!lab.path(name).exists(), "{line}");
        }
    }
}

#[test]
fn program_name_makedumpfile_selects_its_command_line() {
    let lab = Lab::new();
    let name = lab.path("makedumpfile");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bigiron"), &name).unwrap();
    let output = Command::new(&name).arg("-v").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Scripts parse the version number from this line.
    assert!(text.starts_with("makedumpfile: version 1.7.2 ("), "{text}");
    assert!(text.contains("\nlzo\tenabled\n"), "{text}");
    let output = Command::new(&name).arg("--nosuch").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("\nmakedumpfile Failed.\n"));
}
