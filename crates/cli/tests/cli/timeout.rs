//! `--timeout`. The deadline is a signal, SIGALRM, which these tests send themselves: no test
//! depends on what the program has done by a time. `faults.rs` has the dump that ends as after
//! a signal.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use crate::common::{Lab, arg, command, finish, run, wait_while_running};

/// A limit that no test reaches.
const NEVER: &str = "1000000";

fn send_alarm(child: &Child) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", "ALRM", &id]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn reader_that_waits_for_ever_ends_after_its_time() {
    // Nothing arrives on standard input, which stays open.
    let mut child = command(&["info", "--timeout", "1", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    let outcome = finish(child).code(124);
    outcome.says(&["-: gave up after 1 s (--timeout)"]);
    drop(input);
}

#[test]
fn reader_says_what_it_was_doing() {
    let mut child = command(&["info", "--timeout", NEVER, "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    let status = format!("/proc/{}/syscall", child.id());
    // It waits in read(2) of standard input, number 0 on x86-64.
    let reads = wait_while_running(&mut child, || {
        fs::read_to_string(&status).is_ok_and(|call| call.starts_with("0 0x0 "))
    });
    assert!(reads);
    send_alarm(&child);
    finish(child)
        .code(124)
        .says(&["while reading it", "what was printed so far is valid"]);
    drop(input);
}

#[test]
fn dump_that_cannot_stop_is_ended() {
    let lab = Lab::new();
    // Nobody reads its standard output: it waits in a write that no flag ends.
    let words = ["dump", "-q", "-d", "0", "-f", "elf", "-j", "1"];
    let paths = ["--timeout", NEVER, arg(lab.vmcore()), "-"];
    let mut child = command(&[&words[..], &paths].concat()).spawn().unwrap();
    let output = child.stdout.take().unwrap();
    let state = format!("/proc/{}/status", child.id());
    // A thread for the signals' sake: the deadline arrives after they are caught.
    wait_while_running(&mut child, || {
        fs::read_to_string(&state).is_ok_and(|status| !status.contains("Threads:\t1\n"))
    });
    send_alarm(&child);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    errors.read_line(&mut first).unwrap();
    assert!(first.contains("ends as after a signal"), "{first}");
    send_alarm(&child);
    let mut second = String::new();
    errors.read_to_string(&mut second).unwrap();
    assert!(second.contains("did not stop within 30 s"), "{second}");
    assert_eq!(child.wait().unwrap().code(), Some(124));
    drop(output);
}

#[test]
fn commands_that_end_in_time_do_not_mention_it() {
    let lab = Lab::new();
    let dump = lab.path("dump");
    let limit = ["--timeout", NEVER];
    let words = ["dump", "-q", arg(lab.vmcore()), arg(&dump)];
    let outcome = run(&[&words[..], &limit].concat()).code(0);
    assert_eq!(outcome.stderr, "");
    run(&[&["verify", arg(&dump)][..], &limit].concat()).code(0);
    run(&[&["diff", arg(&dump), arg(&dump)][..], &limit].concat()).code(0);
    for wrong in ["0", "-1", "x"] {
        run(&["verify", arg(&dump), "--timeout", wrong]).code(2);
    }
}
