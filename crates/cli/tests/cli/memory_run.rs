//! `bigiron mem run`: a program runs unchanged, with the preload library.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns any library: the test checks only the environment of the program.
fn library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps
        .lines()
        .find(|line| line.contains("libgcc_s.so"))
        .unwrap();
    PathBuf::from(line.split_whitespace().last().unwrap())
}

fn mem_run(options: &[&str], command: &[&str]) -> Command {
    let mut run = Command::new(env!("CARGO_BIN_EXE_bigiron"));
    run.args(["mem", "run"])
        .args(options)
        .arg("--")
        .args(command);
    run.env("BIGIRON_PRELOAD", library());
    run.env_remove("LD_PRELOAD").env_remove("BIGIRON_MEM");
    run.stdin(Stdio::null());
    run
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Copies a program in another process: a copy that is open for writing here could be inherited by
/// a program that another test starts at that moment, and then not be executed (ETXTBSY).
fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status().unwrap();
    assert!(copied.success());
}

#[track_caller]
fn said(output: &Output, code: i32, parts: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
}

fn variable(output: &Output, name: &str) -> Option<String> {
    let text = text(&output.stdout);
    let mut lines = text.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

#[test]
fn program_keeps_the_process_id_and_its_exit_code() {
    let child = mem_run(&[], &["/bin/sh", "-c", "echo $$; exit 7"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let number = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), format!("{number}\n"));
    assert_eq!(output.status.code(), Some(7));
    let killed = mem_run(&[], &["/bin/sh", "-c", "kill -9 $$"])
        .output()
        .unwrap();
    assert_eq!(killed.status.signal(), Some(9));
}

#[test]
fn signal_dispositions_and_mask_are_unchanged() {
    let run = mem_run(&[], &["grep", "^Sig[BI]", "/proc/self/status"]);
    let status = |prelude: &[&str], program: &[&OsStr]| {
        let (first, rest) = prelude.split_first().unwrap();
        let mut command = Command::new(first);
        command.args(rest).args(program);
        command.env("BIGIRON_PRELOAD", library());
        let output = command.output().unwrap();
        output.status.success().then(|| text(&output.stdout))
    };
    let plain: Vec<_> = run.get_args().skip(3).collect();
    let ours: Vec<_> = [run.get_program()]
        .into_iter()
        .chain(run.get_args())
        .collect();
    let preludes: [&[&str]; 4] = [
        &["env"],
        &["env", "--ignore-signal=PIPE", "--block-signal=PIPE,USR1"],
        &["env", "--default-signal=PIPE", "--ignore-signal=HUP"],
        &["sh", "-c", "trap '' PIPE INT; exec \"$@\"", "sh"],
    ];
    for prelude in preludes {
        let Some(plain) = status(prelude, &plain) else {
            println!("skipped: {prelude:?} is not supported on this machine");
            continue;
        };
        assert!(plain.contains("SigIgn"), "{plain}");
        assert_eq!(status(prelude, &ours), Some(plain), "{prelude:?}");
    }
}

#[test]
fn options_override_the_file_which_overrides_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy");
    fs::write(
        &policy,
        "# for the database\nhelpers = 3 # few\nattach=lock,exit=plain\n",
    )
    .unwrap();
    let policy = policy.to_str().unwrap();
    let options = [
        "--policy",
        policy,
        "--helpers",
        "2",
        "--threshold",
        "1M",
        "--destroy",
        "parallel",
        "--set",
        "huge=never",
        "--trace=t.log",
    ];
    let mut command = mem_run(&options, &["env"]);
    command.current_dir(directory.path());
    command
        .env("BIGIRON_MEM", "helpers=9")
        .env("LD_PRELOAD", library());
    let output = command.output().unwrap();
    said(&output, 0, &[]);
    let trace = directory.path().canonicalize().unwrap().join("t.log");
    let all = format!(
        "helpers=9,helpers = 3,attach=lock,exit=plain,helpers=2,threshold=1M,destroy=parallel,\
         huge=never,trace={}",
        trace.display()
    );
    assert_eq!(variable(&output, "BIGIRON_MEM"), Some(all));
    let library = fs::canonicalize(library()).unwrap();
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_bigiron")).unwrap();
    assert_eq!(
        variable(&output, "BIGIRON_MEM_PROGRAM"),
        Some(program.display().to_string())
    );
    assert!(
        variable(&output, "LD_PRELOAD")
            .unwrap()
            .starts_with(library.to_str().unwrap())
    );
}

#[test]
fn invalid_policies_are_rejected_with_the_expected_values() {
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy");
    fs::write(&policy, "helpers=4\nattach=glue\n").unwrap();
    let policy = policy.to_str().unwrap();
    let place = format!("{policy}, line 2: `attach=glue`: expected plain, huge, create or lock");
    for (options, parts) in [
        (&["--policy", policy][..], &[place.as_str()][..]),
        (
            &["--policy", "/no/such"],
            &["/no/such: cannot be read", "No such file"],
        ),
        (
            &["--helpers", "0"],
            &["--helpers: `helpers=0`: expected a number from 1 to 64"],
        ),
        (
            &["--set", "speed=11"],
            &["--set: `speed=11`: expected a key"],
        ),
        (
            &["--set", "lock=plain,exit=plain"],
            &["expected one assignment"],
        ),
        (&["--destroy", "now"], &["plain, parallel or reaper"]),
        (&["--trace=a,b"], &["--trace"]),
    ] {
        let output = mem_run(options, &["echo", "no"]).output().unwrap();
        said(&output, 125, parts);
        assert_eq!(output.stdout, b"");
    }
    let output = mem_run(&[], &["true"])
        .env("BIGIRON_MEM", "x")
        .output()
        .unwrap();
    said(&output, 125, &["BIGIRON_MEM: `x`: expected key=value"]);
}

#[test]
fn programs_that_cannot_be_executed_have_the_exit_codes_of_env() {
    let output = mem_run(&[], &["no-such-program"]).output().unwrap();
    said(&output, 127, &["no-such-program"]);
    let output = mem_run(&[], &["/etc/passwd"]).output().unwrap();
    said(&output, 126, &["/etc/passwd"]);
    let mut nothing = Command::new(env!("CARGO_BIN_EXE_bigiron"));
    said(
        &nothing.args(["mem", "run"]).output().unwrap(),
        2,
        &["COMMAND"],
    );
}

#[test]
fn missing_library_is_reported_with_the_searched_paths() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("bin/bigiron");
    fs::create_dir(directory.path().join("bin")).unwrap();
    copy_program(Path::new(env!("CARGO_BIN_EXE_bigiron")), &program);
    let run = || {
        let mut command = Command::new(&program);
        command
            .args(["mem", "run", "env"])
            .env_remove("BIGIRON_PRELOAD");
        command.output().unwrap()
    };
    let parts = [
        "bin/libbigiron_preload.so",
        "bin/../lib/bigiron/libbigiron_preload.so",
        "BIGIRON_PRELOAD",
    ];
    said(&run(), 125, &parts);
    let packaged = directory.path().join("lib/bigiron");
    fs::create_dir_all(&packaged).unwrap();
    let packaged = packaged.join("libbigiron_preload.so");
    fs::copy(library(), &packaged).unwrap();
    let packaged = fs::canonicalize(packaged).unwrap();
    assert_eq!(
        variable(&run(), "LD_PRELOAD"),
        Some(packaged.display().to_string())
    );
    let mut command = mem_run(&[], &["true"]);
    said(
        &command
            .env("BIGIRON_PRELOAD", "/no/lib.so")
            .output()
            .unwrap(),
        125,
        &["/no/lib.so"],
    );
}

#[test]
fn static_and_setuid_programs_run_unaccelerated_with_a_notice() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("a.c");
    fs::write(&source, "int main(void) { return 3; }\n").unwrap();
    let program = directory.path().join("static");
    let mut compile = Command::new("cc");
    compile.args(["-static", "-o"]).arg(&program).arg(&source);
    if compile.output().is_ok_and(|output| output.status.success()) {
        let output = mem_run(&[], &[program.to_str().unwrap()]).output().unwrap();
        said(&output, 3, &["static", "not accelerated"]);
    } else {
        println!("skipped: no C compiler that can link static programs");
    }
    let privileged = directory.path().join("privileged");
    copy_program(Path::new("/bin/true"), &privileged);
    let owner = Command::new("chown")
        .arg("65534")
        .arg(&privileged)
        .status()
        .unwrap();
    if !owner.success() {
        println!("skipped: no permission to change owners");
        return;
    }
    fs::set_permissions(&privileged, fs::Permissions::from_mode(0o4755)).unwrap();
    let output = mem_run(&[], &[privileged.to_str().unwrap()])
        .output()
        .unwrap();
    said(&output, 0, &["setuid"]);
    assert!(!Path::new("/no/lib.so").exists());
}
