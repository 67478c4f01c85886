//! Keys and encrypted files of age, by its own programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Lab;

/// A pair of keys: the public one, and the file that holds the secret one.
/// `None`, and a reason, where age is not installed.
pub fn keys(lab: &Lab, name: &str) -> Option<(String, PathBuf)> {
    let file = lab.path(name);
    let Ok(made) = Command::new("age-keygen").arg("-o").arg(&file).output() else {
        println!("skipped: age is not installed");
        return None;
    };
    assert!(made.status.success());
    let public = Command::new("age-keygen").arg("-y").arg(&file).output();
    let public = String::from_utf8(public.unwrap().stdout).unwrap();
    Some((public.trim().to_owned(), file))
}

/// What age makes of an encrypted file.
pub fn decrypted(encrypted: &Path, key: &Path) -> Vec<u8> {
    let mut command = Command::new("age");
    let output = command.arg("-d").arg("-i").arg(key).arg(encrypted).output();
    let output = output.unwrap();
    assert!(output.status.success());
    output.stdout
}
