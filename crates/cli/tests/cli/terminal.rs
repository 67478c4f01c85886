//! Names and texts out of a dump must not control the terminal.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{arg, run};
use bigiron_synth::{TinyKernel, TinyTypes};

/// What a name has in it: escape sequences in 7 and 8 bits, a carriage return, a backspace, DEL,
/// and a character that reverses the text behind it.
const EVIL: &str = "\x1b]0;pwned\x07\x1b[31m\u{9b}1m\r\x08\x7f\u{202e}\u{2066}x";

/// A kernel all of whose names and texts are such.
fn kernel() -> TinyKernel {
    let mut kernel = TinyKernel::new(&format!("6.1.0{}", EVIL.replace('\r', "")));
    let mut types = TinyTypes::default();
    let int = types.integer("int", 4);
    let long = types.integer("long", 8);
    let char = types.integer("char", 1);
    let text = types.array(char, 48);
    types.structure("victim", 56, &[(EVIL, int, 0), ("text", text, 8)]);
    types.structure("rq", 8, &[("sd", long, 0)]);
    let names = [
        "parent",
        "groups",
        "name",
        "level",
        "flags",
        "min_interval",
        "max_interval",
        "busy_factor",
        "imbalance_pct",
        "cache_nice_tries",
        "max_newidle_lb_cost",
    ];
    let members = names
        .iter()
        .zip(0..)
        .map(|(name, index)| (*name, long, 8 * index));
    let members: Vec<_> = members.collect();
    types.structure("sched_domain", 88, &members);
    let victim = kernel.put(format!("12345678{EVIL}").as_bytes());
    let name = kernel.put(format!("{EVIL}\0").as_bytes());
    let domain = kernel.put_words(&[0, 0, name, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    let queue = kernel.put_words(&[domain]);
    let one = kernel.put_words(&[1]);
    let offset = kernel.put_words(&[0]);
    // A log of plain text, as before 3.5.
    let log = format!("<6>[    0.000000] {EVIL}\nKernel panic - not syncing: {EVIL}\n");
    let (len, mut log) = (log.len() as u64, log.into_bytes());
    log.resize(1024, 0);
    let log = kernel.put(&log);
    let words = kernel.put_words(&[log, 1024, len]);
    let places = [
        ("log_buf", words),
        ("log_buf_len", words + 8),
        ("log_end", words + 16),
    ];
    for (name, address) in places {
        kernel.info(&format!("SYMBOL({name})={address:x}\n"));
    }
    // Names of symbols are ASCII.
    let evil = EVIL.replace(|c: char| !c.is_ascii(), "");
    let evil = format!("T{evil}");
    let symbols = [
        (evil.as_str(), bigiron_synth::IMAGE + 0x100),
        ("Dvictim", victim),
        ("Drunqueues", queue),
        ("D__cpu_possible_mask", one),
        ("D__cpu_online_mask", one),
        ("Dnr_cpu_ids", one),
        ("D__per_cpu_offset", offset),
    ];
    kernel.names(&types, &symbols);
    kernel
}

/// Asserts that only line feeds and tabs are left of all that controls a terminal.
#[track_caller]
fn check(arguments: &[&str], output: &str) {
    let control = |c: char| {
        let is_hidden = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        is_hidden || c.is_control() && !matches!(c, '\n' | '\t')
    };
    let found: Vec<char> = output.chars().filter(|c| control(*c)).collect();
    assert!(found.is_empty(), "{arguments:?}: {found:?} in {output:?}");
}

/// Runs a command and checks its exit code if one is given; returns its output.
#[track_caller]
fn harmless(arguments: &[&str], code: Option<i32>) -> String {
    let outcome = run(arguments);
    assert_eq!(
        outcome.code,
        code.or(outcome.code),
        "{arguments:?}: {}",
        outcome.stderr
    );
    let text = outcome.text();
    check(arguments, &text);
    check(arguments, &outcome.stderr);
    text + &outcome.stderr
}

fn lab(directory: &Path) -> String {
    let path = directory.join("core");
    fs::write(&path, kernel().elf()).unwrap();
    arg(&path).to_owned()
}

#[test]
fn no_control_character_of_a_dump_reaches_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let core = lab(directory.path());
    let core = core.as_str();
    let (dump, other) = (
        directory.path().join("dump"),
        directory.path().join("other"),
    );
    let (dump, other) = (arg(&dump), arg(&other));
    let (nowhere, page) = (format!("{EVIL}/none"), directory.path().join("page"));
    let shown: &[&[&str]] = &[
        &["dump", "-d", "0", core, dump],
        &["dump", "-d", "0", "-f", "elf", "--json", core, other],
        &["type", core, "victim"],
        &["type", "--json", core, "victim"],
        &["sym", core, "ffffffff80000100"],
        &["sym", "--json", core, "ffffffff80000100"],
        &["read", core, "victim", "victim"],
        &["read", "--json", core, "victim", "victim"],
        &["dmesg", core],
        &["dmesg", "-x", core],
        &["dmesg", "--json", core],
        &["info", core],
        &["info", "--json", core],
        &["cpu", "domains", core],
        &["cpu", "domains", core, "--as", "table"],
        &["cpu", "domains", core, "--as", "json"],
    ];
    for arguments in shown {
        let said = harmless(arguments, Some(0));
        let escaped = ["u001b", "\\x1b", "u{1b}"];
        assert!(
            escaped.iter().any(|text| said.contains(text)),
            "{arguments:?} says nothing of it: {said}"
        );
    }
    let others: &[&[&str]] = &[
        &["info", "--all", core],
        &["info", "--all", "--json", core],
        &["read", core, "victim", "-n", "64"],
        &["read", core, EVIL],
        &["sym", core, EVIL],
        &["type", core, EVIL],
        &["verify", dump],
        &["verify", "--against", core, dump],
        &["diff", core, dump],
        &["diff", "--json", core, dump],
        &["report", core, "-o", arg(&page)],
        &["cpu", "domains", core, "--as", "dot"],
        &["info", &nowhere],
        &["dmesg", &nowhere],
        &["verify", &nowhere],
        &["dump", core, &nowhere],
    ];
    for arguments in others {
        harmless(arguments, None);
    }
}

#[test]
fn raw_bytes_are_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let core = lab(directory.path());
    let len = (8 + EVIL.len()).to_string();
    let raw = run(&["read", &core, "victim", "--raw", "-n", &len]).code(0);
    assert_eq!(raw.stdout, format!("12345678{EVIL}").into_bytes());
}

#[test]
fn makedumpfiles_messages_are_escaped_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let core = lab(directory.path());
    let alias = directory.path().join("makedumpfile");
    symlink(env!("CARGO_BIN_EXE_bigiron"), &alias).unwrap();
    for options in [&["-D"][..], &["--mem-usage"], &["-d", "31", "-D"]] {
        let output = std::process::Command::new(&alias)
            .args(options)
            .args([&core, &format!("{}/out{EVIL}", directory.path().display())])
            .output()
            .unwrap();
        // Progress goes back to the start of its line.
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap().replace('\r', "");
        check(options, &said);
    }
}
