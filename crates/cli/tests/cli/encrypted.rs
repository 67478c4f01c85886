//! Encrypted dumps: written for public keys, and read with secret keys, by the program
//! and by age.

use std::fs;

use crate::common::age::{decrypted, keys};
use crate::common::{Lab, arg, run};

#[test]
fn age_decrypts_every_format() {
    let lab = Lab::new();
    let Some((public, secret)) = keys(&lab, "key") else {
        return;
    };
    let plain = lab.dump("plain", &["-d", "31"]);
    for format in ["kdump", "flattened", "elf", "vmdump"] {
        let encrypted = lab.path(&format!("{format}.age"));
        let line = ["dump", "-f", format, "--encrypt", &public];
        run(&[&line[..], &[arg(lab.vmcore()), arg(&encrypted)]].concat()).code(0);
        let opened = lab.file(&format!("{format}.opened"), &decrypted(&encrypted, &secret));
        run(&["verify", arg(&opened)]).code(0);
        if format != "elf" {
            run(&["diff", arg(&plain), arg(&opened)]).code(0);
        }
        // The same dump, read without decrypting it first.
        let identity = ["--identity", arg(&secret)];
        run(&[&["verify"][..], &identity, &[arg(&encrypted)]].concat()).code(0);
        run(&[&["diff"][..], &identity, &[arg(&opened), arg(&encrypted)]].concat()).code(0);
        let log = run(&[&["dmesg"][..], &identity, &[arg(&encrypted)]].concat());
        let plain_log = run(&["dmesg", arg(&opened)]);
        assert_eq!((log.code, log.stdout), (plain_log.code, plain_log.stdout));
    }
}

#[test]
fn without_the_right_key_no_contents_are_printed() {
    let lab = Lab::new();
    let (Some((public, secret)), Some((_, other))) = (keys(&lab, "key"), keys(&lab, "other"))
    else {
        return;
    };
    let encrypted = lab.path("encrypted");
    run(&[
        "dump",
        "-f",
        "vmdump",
        "--encrypt",
        &public,
        arg(lab.vmcore()),
        arg(&encrypted),
    ])
    .code(0);
    run(&["verify", arg(&encrypted)])
        .code(1)
        .says(&["is encrypted", "--identity"]);
    let wrong = run(&["verify", "--identity", arg(&other), arg(&encrypted)]);
    wrong.code(1).says(&["for others"]);
    let bytes = fs::read(&encrypted).unwrap();
    // Four bytes occur in random ones.
    assert!(
        !bytes
            .windows(7)
            .any(|seven| seven == b"\x7fELF\x02\x01\x01")
    );
    assert!(!bytes.windows(9).any(|nine| nine == b"OSRELEASE"));
    // A secret key is rejected as a public key.
    let text = fs::read_to_string(&secret).unwrap();
    let key = text
        .lines()
        .find(|line| line.starts_with("AGE-SECRET"))
        .unwrap();
    let refused = run(&[
        "dump",
        "--encrypt",
        key,
        arg(lab.vmcore()),
        arg(&lab.path("x")),
    ])
    .code(1);
    assert!(!refused.stderr.contains(&key[..30]), "{}", refused.stderr);
    refused.says(&["secret key"]);
}

#[test]
fn truncated_or_modified_encrypted_dump_is_detected() {
    let lab = Lab::new();
    let Some((public, secret)) = keys(&lab, "key") else {
        return;
    };
    let encrypted = lab.path("encrypted");
    run(&[
        "dump",
        "-f",
        "vmdump",
        "-d",
        "0",
        "--encrypt",
        &public,
        arg(lab.vmcore()),
        arg(&encrypted),
    ])
    .code(0);
    let bytes = fs::read(&encrypted).unwrap();
    let cut = lab.file("cut", &bytes[..bytes.len() / 4 * 3]);
    run(&["verify", "--identity", arg(&secret), arg(&cut)])
        .code(1)
        .says(&["truncated"]);
    let mut changed = bytes.clone();
    changed[bytes.len() / 2] ^= 1;
    let changed = lab.file("changed", &changed);
    run(&["verify", "--identity", arg(&secret), arg(&changed)]).code(1);
}
