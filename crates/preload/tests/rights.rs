//! A program that has more rights than its user does not obey the user's environment.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use common::{Program, SMALL, library};

/// A user without rights.
const USER: u32 = 1000;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs a program whose environment names a trace, or a policy file.
fn run(program: &Path, variable: &str, value: &str, user: Option<u32>) -> Output {
    let mut command = Command::new(program);
    command.env(variable, value);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.output().unwrap()
}

#[test]
fn set_user_id_program_ignores_its_environment() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("skipped: only root can make a set-user-ID program of root");
        return;
    }
    let Some(program) = Program::compile("rights") else {
        return;
    };
    // The loader of such a program ignores LD_PRELOAD, so the program is linked with the library,
    // in a folder that the user may read.
    let folder = program.folder();
    let linked = folder.join("linked");
    fs::copy(library(), folder.join("libbigiron_preload.so")).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/rights.c");
    let compiler = Command::new("cc")
        .args(["-o".as_ref(), linked.as_os_str(), source.as_os_str()])
        .arg("-Wl,--no-as-needed")
        .arg(folder.join("libbigiron_preload.so"))
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .output()
        .unwrap();
    assert!(compiler.status.success(), "{compiler:?}");
    set_mode(folder, 0o755);
    set_mode(&linked, 0o4755);
    // Only root can make files there.
    let hidden = folder.join("hidden");
    fs::create_dir(&hidden).unwrap();
    set_mode(&hidden, 0o700);
    let trace = hidden.join("trace");
    let policy = format!("{SMALL},trace={}", trace.display());

    let as_user = run(&linked, "BIGIRON_MEM", &policy, Some(USER));
    let said = String::from_utf8_lossy(&as_user.stdout).into_owned();
    if said != "AT_SECURE 1\n" {
        println!(
            "skipped: {} allows no set-user-ID: {as_user:?}",
            folder.display()
        );
        return;
    }
    assert!(as_user.status.success(), "{as_user:?}");
    assert!(!trace.exists(), "a user made a file of root");
    let as_user = run(&linked, "BIGIRON_MEM_POLICY", "/nowhere", Some(USER));
    assert!(
        as_user.status.success() && as_user.stderr.is_empty(),
        "{as_user:?}"
    );

    // The same program obeys root.
    let as_root = run(&linked, "BIGIRON_MEM", &policy, None);
    assert_eq!(String::from_utf8_lossy(&as_root.stdout), "AT_SECURE 0\n");
    assert!(trace.exists(), "{as_root:?}");
}
