//! `--timeout`. The deadline is a signal, SIGALRM, which these tests send themselves: no test
//! depends on what the program has done by a time. `faults.rs` has the dump that ends as after
//! a signal.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use rustix::fs::{OFlags, fcntl_setfl};

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
    let status = format!("/proc/{}/status", child.id());
    // It confines itself after it has opened everything.
    let reads = wait_while_running(&mut child, || {
        fs::read_to_string(&status).is_ok_and(|status| status.contains("NoNewPrivs:\t1\n"))
    });
    assert!(reads);
    send_alarm(&child);
    finish(child)
        .code(124)
        .says(&["while reading it", "what was printed so far is valid"]);
    drop(input);
}

/// Returns the reading end and the writing end of a pipe into which no more bytes fit.
fn full_pipe() -> (io::PipeReader, io::PipeWriter) {
    let (reader, mut writer) = io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[0; 512]).is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer)
}

/// Returns true if a thread of the process waits in write(2); its number is that of x86-64.
fn waits_in_write(id: u32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{id}/task")) else {
        return false;
    };
    let mut calls = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("syscall")));
    calls.any(|call| call.is_ok_and(|call| call.starts_with("1 ")))
}

#[test]
fn dump_that_cannot_stop_is_ended() {
    if let Err(error) = fs::read_to_string("/proc/self/syscall") {
        println!("skipped: /proc/self/syscall: {error}");
        return;
    }
    let lab = Lab::new();
    // It waits in a write that no flag ends.
    let (reader, writer) = full_pipe();
    let words = ["dump", "-q", "-d", "0", "-f", "elf", "-j", "1"];
    let paths = ["--timeout", NEVER, arg(lab.vmcore()), "-"];
    let mut child = command(&[&words[..], &paths].concat())
        .stdout(writer)
        .spawn()
        .unwrap();
    let id = child.id();
    assert!(wait_while_running(&mut child, || waits_in_write(id)));
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
    drop(reader);
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
