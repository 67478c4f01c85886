//! Keys and encrypted files made with age's own programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Lab;

/// Creates a key pair, and returns the public key and the file with the secret key.
/// Without age it prints a reason and returns `None`.
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

/// Decrypts a file with age.
pub fn decrypted(encrypted: &Path, key: &Path) -> Vec<u8> {
    let mut command = Command::new("age");
    let output = command.arg("-d").arg("-i").arg(key).arg(encrypted).output();
    let output = output.unwrap();
    assert!(output.status.success());
    output.stdout
}
