//! Saving encrypted dumps: unchanged without a key, decrypted with one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::common::age::{decrypted, keys};
use crate::common::{arg, finish, run, shell};
use crate::save::lab;

#[track_caller]
fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{:?}", entry.file_name());
            entry.file_name().into_string().unwrap()
        })
        .collect();
    names.sort();
    names
}

#[test]
fn encrypted_dump_is_saved_unchanged_without_a_key_and_decrypted_with_one() {
    let lab = lab();
    let Some((public, key)) = keys(&lab, "key") else {
        return;
    };
    let line = ["-f", "vmdump", "-d", "31", "--encrypt", &public];
    let encrypted = lab.dump("encrypted", &line);
    let directory = lab.path("saved/");

    let save = |options: &[&str]| {
        let line = [options, &[arg(&encrypted), arg(&directory)]].concat();
        finish(shell("umask 000;", &line).spawn().unwrap())
    };
    let kept = save(&["save", "--json"]).code(0);
    let report: Value = serde_json::from_slice(&kept.stdout).unwrap();
    assert_eq!(
        (&report["encrypted"], &report["number"]),
        (&true.into(), &0.into())
    );
    assert_eq!(report["damage"], Value::Null);
    let kept = kept.says(&["is encrypted", "--identity"]);
    assert!(!kept.stderr.contains("warning"), "{}", kept.stderr);
    assert_eq!(names(&directory), ["info.0", "vmdump.0"]);
    let bytes = fs::read(&encrypted).unwrap();
    assert!(fs::read(directory.join("vmdump.0")).unwrap() == bytes);
    let info = fs::read_to_string(directory.join("info.0")).unwrap();
    assert!(
        info.contains("\nencrypted: age") && !info.contains("incomplete"),
        "{info}"
    );
    assert!(save(&["save"]).code(0).text().contains("already saved"));
    save(&["save", "-f"])
        .code(1)
        .says(&["is encrypted", "--identity FILE"]);

    let with_key = ["save", "--identity", arg(&key)];
    save(&with_key).code(0);
    let plain = decrypted(&encrypted, &key);
    assert!(fs::read(directory.join("vmdump.1")).unwrap() == plain);
    assert!(directory.join("dmesg.1").exists());
    let info = fs::read_to_string(directory.join("info.1")).unwrap();
    assert!(info.contains("\ndecrypted: "), "{info}");
    assert!(save(&with_key).code(0).text().contains("already saved"));

    save(&[&with_key[..], &["-f"]].concat()).code(0);
    let dump = lab.file("plain", &plain);
    let expanded = lab.path("expanded/");
    run(&["save", "-f", arg(&dump), arg(&expanded)]).code(0);
    let core = fs::read(directory.join("vmcore.2")).unwrap();
    assert!(core == fs::read(expanded.join("vmcore.0")).unwrap());
    assert_eq!(
        names(&directory),
        [
            "dmesg.1", "dmesg.2", "info.0", "info.1", "info.2", "vmcore.2", "vmdump.0", "vmdump.1"
        ]
    );
}

#[test]
fn wrong_key_saves_nothing_and_a_truncated_dump_is_reported() {
    let lab = lab();
    let (Some((public, key)), Some((_, other))) = (keys(&lab, "key"), keys(&lab, "other")) else {
        return;
    };
    let line = ["-f", "vmdump", "-d", "0", "--encrypt", &public];
    let encrypted = lab.dump("encrypted", &line);
    let directory = lab.path("saved");
    fs::create_dir(&directory).unwrap();
    let save = |source: &Path, key: &Path| {
        run(&["save", "--identity", arg(key), arg(source), arg(&directory)])
    };
    save(&encrypted, &other).code(1).says(&["for others"]);
    assert!(names(&directory).is_empty());
    let two = [arg(&encrypted), arg(&encrypted), arg(&directory)];
    run(&[&["save", "--identity", arg(&key)], &two[..]].concat())
        .code(1)
        .says(&["is encrypted"]);
    assert!(names(&directory).is_empty());

    let bytes = fs::read(&encrypted).unwrap();
    let cut = lab.file("cut", &bytes[..bytes.len() / 4 * 3]);
    save(&cut, &key)
        .code(0)
        .says(&["not complete", "truncated"]);
    let whole = decrypted(&encrypted, &key);
    let part = fs::read(directory.join("vmdump.0")).unwrap();
    assert!(part.len() > whole.len() / 2 && whole.starts_with(&part));
}
