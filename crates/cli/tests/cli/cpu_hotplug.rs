//! `bigiron cpu list`, `offline`, `online`, `smt` and `restore` on a machine made of files, also
//! when killed. A CPU whose `online` file is a pipe changes its state only when the test reads the
//! pipe.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Outcome, arg, command, finish, run};
use serde_json::Value;

/// Time limit for an action of another process.
const PATIENCE: Duration = Duration::from_secs(30);
const CPUS: &str = "sys/devices/system/cpu";

/// Four CPUs in two cores.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for (name, text) in [
            (&*format!("{CPUS}/present"), "0-3\n"),
            (&*format!("{CPUS}/online"), "0-3\n"),
            (&*format!("{CPUS}/smt/control"), "on\n"),
            ("sys/kernel/rcu_expedited", "0\n"),
            ("sys/kernel/rcu_normal", "0\n"),
            ("sys/kernel/debug/sched/verbose", "Y\n"),
            ("proc/sys/kernel/random/boot_id", "one\n"),
        ] {
            machine.write(name, text);
        }
        for cpu in 0..4 {
            let core = if cpu < 2 { "0-1\n" } else { "2-3\n" };
            machine.write(&format!("{CPUS}/cpu{cpu}/topology/core_cpus_list"), core);
            let socket = format!("{CPUS}/cpu{cpu}/topology/physical_package_id");
            machine.write(&socket, "0\n");
            if cpu > 0 {
                machine.write(&format!("{CPUS}/cpu{cpu}/online"), "1\n");
            }
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn says(&self, name: &str) -> String {
        fs::read_to_string(self.path(name))
            .unwrap()
            .trim()
            .to_owned()
    }

    fn switch(&self, cpu: u32) -> PathBuf {
        self.path(&format!("{CPUS}/cpu{cpu}/online"))
    }

    fn switches(&self) -> [String; 3] {
        [1, 2, 3].map(|cpu| self.says(&format!("{CPUS}/cpu{cpu}/online")))
    }

    /// Returns `rcu_expedited`, `verbose`, and true if there is a journal.
    fn settings(&self) -> (String, String, bool) {
        (
            self.says("sys/kernel/rcu_expedited"),
            self.says("sys/kernel/debug/sched/verbose"),
            self.path("run/bigiron/cpu.journal").exists(),
        )
    }

    #[track_caller]
    fn must_be_as_before(&self) {
        assert_eq!(self.settings(), ("0".into(), "Y".into(), false));
    }

    /// Holds a CPU until [`read`] releases it.
    fn hold(&self, cpu: u32) -> PathBuf {
        let path = self.switch(cpu);
        fs::remove_file(&path).unwrap();
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    fn cpu(&self, words: &[&str]) -> Outcome {
        run(&self.words(words))
    }

    fn words<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        [&["cpu"], words, &["--root", arg(self.0.path())]].concat()
    }

    /// Starts a command and waits until it has changed the settings; it then waits for the held CPU.
    fn begin(&self, words: &[&str]) -> Child {
        let child = command(&self.words(words)).spawn().unwrap();
        wait("changed settings", || {
            self.settings() == ("1".into(), "N".into(), true)
        });
        child
    }

    /// Returns all files with their contents.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut directories = vec![self.0.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    let text = fs::read(&path).unwrap();
                    files.insert(path, text);
                }
            }
        }
        files
    }
}

#[track_caller]
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "no {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Releases a held CPU; returns the text written to it.
fn read(pipe: &Path) -> String {
    let mut text = String::new();
    let mut file = fs::File::open(pipe).unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill")
        .args([name, &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// Returns the watchdog of a command, which is its only child.
fn watchdog(child: &Child) -> u32 {
    let id = child.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let words: Vec<&str> = children.split_whitespace().collect();
    let [watchdog] = words[..] else {
        panic!("{children}");
    };
    let line = fs::read_to_string(format!("/proc/{watchdog}/cmdline")).unwrap();
    assert!(line.contains("watchdog"), "{line}");
    watchdog.parse().unwrap()
}

#[test]
fn cpus_go_offline_and_come_online() {
    let machine = Machine::new();
    let text = machine.cpu(&["offline", "1-3"]).code(0).text();
    assert!(
        text.starts_with("CPUs 1-3 are offline now: 3 in "),
        "{text}"
    );
    assert!(text.contains("each CPU: median"));
    assert_eq!(machine.switches(), ["0", "0", "0"]);
    machine.must_be_as_before();
    machine.write(&format!("{CPUS}/online"), "0\n");
    let text = machine.cpu(&["online", "0-1"]).code(0).text();
    assert!(
        text.contains("CPU 0 is already online\nCPU 1 is online now"),
        "{text}"
    );
    machine.cpu(&["online", "all"]).code(0);
    assert_eq!(machine.switches(), ["1", "1", "1"]);
    machine.must_be_as_before();
}

#[test]
fn failed_cpu_is_reported_in_json_and_does_not_stop_the_others() {
    let machine = Machine::new();
    fs::remove_file(machine.switch(1)).unwrap();
    symlink("/dev/full", machine.switch(1)).unwrap();
    let outcome = machine.cpu(&["smt", "off", "--json"]).code(1).says(&[
        "CPU 1: ",
        "No space left",
        "1 of 2 CPUs did not go offline",
    ]);
    let answer: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!(answer["plan"]["order"], serde_json::json!([3, 1]));
    assert_eq!(answer["outcome"]["done"], "3");
    assert_eq!(answer["outcome"]["failed"][0]["cpu"], 1);
    assert_eq!(answer["outcome"]["took"].as_array().unwrap().len(), 1);
    assert_eq!(machine.says(&format!("{CPUS}/smt/control")), "off");
    machine.must_be_as_before();
}

#[test]
fn dry_run_and_rejected_commands_change_nothing() {
    let machine = Machine::new();
    let before = machine.files();
    let text = machine.cpu(&["smt", "off", "--dry-run"]).code(0).text();
    for line in [
        "offline in this order: 3 1\n",
        "write off to smt/control",
        "rcu_expedited is 1 instead of 0\n",
        "verbose is N instead of Y\n",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    for (words, said) in [
        (&["offline", "0-3"][..], "leaves none"),
        (&["offline", "0"], "CPUs 0 cannot go offline"),
        (
            &["offline", "2,7-9"],
            "CPUs 7-9 are not present; this machine has 0-3",
        ),
        (&["online", "4"], "CPUs 4 are not present"),
        (&["offline", ""], "no CPUs are named"),
        (&["online", ""], "no CPUs are named"),
    ] {
        machine.cpu(words).code(1).says(&[said]);
    }
    for words in [&["offline", "3-1"][..], &["online", "some"], &["smt", "0"]] {
        machine.cpu(words).code(2);
    }
    assert_eq!(machine.files(), before);
    let nowhere = ["cpu", "offline", "1", "--root", "/is/not/there"];
    run(&nowhere).code(1).says(&["/is/not/there/sys"]);
}

#[test]
fn list_shows_the_topology() {
    let machine = Machine::new();
    let text = machine.cpu(&["list"]).code(0).text();
    assert!(text.contains("always on  1 (0)\n"), "{text}");
    assert!(text.contains("2 per core; smt/control is on\n"), "{text}");
    let json = machine.cpu(&["list", "--json"]).code(0);
    let answer: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(answer["online"], "0-3");
    assert_eq!(answer["rows"][0]["cores"], 2);
}

#[test]
fn signal_ends_the_command_after_the_current_cpu() {
    for (name, code) in [("-TERM", 143), ("-INT", 130)] {
        let machine = Machine::new();
        let pipe = machine.hold(3);
        let child = machine.begin(&["offline", "1-3"]);
        signal(name, child.id());
        thread::sleep(Duration::from_millis(50));
        assert_eq!(read(&pipe), "0");
        finish(child)
            .code(code)
            .says(&["interrupted: CPUs 3 done; CPUs 1-2 unchanged"]);
        assert_eq!(machine.says(&format!("{CPUS}/cpu1/online")), "1");
        machine.must_be_as_before();
    }
}

#[test]
fn watchdog_restores_settings_of_a_killed_command() {
    let machine = Machine::new();
    machine.hold(3);
    for _ in 0..10 {
        let mut child = machine.begin(&["offline", "1-3"]);
        signal("-KILL", child.id());
        child.wait().unwrap();
        let before = || machine.settings() == ("0".into(), "Y".into(), false);
        wait("restored settings", before);
    }
}

#[test]
fn restore_and_the_next_command_restore_settings_if_the_watchdog_is_killed_too() {
    let machine = Machine::new();
    machine.hold(3);
    let both = || {
        let mut child = machine.begin(&["offline", "1-3"]);
        signal("-KILL", watchdog(&child));
        signal("-KILL", child.id());
        child.wait().unwrap();
        assert_eq!(machine.settings(), ("1".into(), "N".into(), true));
    };
    both();
    let text = machine.cpu(&["restore"]).code(0).text();
    assert!(text.contains("rcu_expedited restored to 0"), "{text}");
    machine.must_be_as_before();
    let text = machine.cpu(&["restore"]).code(0).text();
    assert_eq!(text, "nothing to restore\n");
    // The next command restores them too.
    both();
    machine
        .cpu(&["offline", "1"])
        .code(0)
        .says(&["an earlier command was killed", "verbose restored to Y"]);
    machine.must_be_as_before();
    // After a reboot there is nothing to restore.
    both();
    machine.write("proc/sys/kernel/random/boot_id", "another\n");
    let text = machine.cpu(&["restore"]).code(0).text();
    assert_eq!(text, "nothing to restore\n");
    assert_eq!(machine.settings(), ("1".into(), "N".into(), false));
}

#[test]
fn command_restores_settings_if_only_the_watchdog_is_killed() {
    let machine = Machine::new();
    let pipe = machine.hold(3);
    let child = machine.begin(&["offline", "3"]);
    signal("-KILL", watchdog(&child));
    read(&pipe);
    finish(child).code(0);
    machine.must_be_as_before();
}

#[test]
fn second_command_is_rejected_while_the_first_runs() {
    let machine = Machine::new();
    let pipe = machine.hold(3);
    let child = machine.begin(&["offline", "3"]);
    let who = format!(
        "`bigiron cpu offline 3`, process {}, is running",
        child.id()
    );
    machine.cpu(&["offline", "1"]).code(1).says(&[&who]);
    machine.cpu(&["restore"]).code(1).says(&[&who]);
    assert_eq!(machine.says(&format!("{CPUS}/cpu1/online")), "1");
    assert_eq!(machine.settings(), ("1".into(), "N".into(), true));
    read(&pipe);
    finish(child).code(0);
    machine.must_be_as_before();
}

#[test]
fn plain_mode_changes_no_settings() {
    let machine = Machine::new();
    let pipe = machine.hold(3);
    let child = command(&machine.words(&["offline", "3", "--plain"]))
        .spawn()
        .unwrap();
    assert_eq!(read(&pipe), "0");
    finish(child).code(0);
    machine.must_be_as_before();
    assert!(!machine.path("run").exists());
}
