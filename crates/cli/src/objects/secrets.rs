//! Secrets in the environment of a process that is about to read an untrusted dump.

use std::ffi::CStr;

/// Variables whose values sign requests.
const SECRETS: [&CStr; 6] = [
    c"AWS_SECRET_ACCESS_KEY",
    c"AWS_SESSION_TOKEN",
    c"AWS_CONTAINER_AUTHORIZATION_TOKEN",
    c"AZURE_STORAGE_KEY",
    c"AZURE_STORAGE_SAS_TOKEN",
    c"AZURE_STORAGE_CONNECTION_STRING",
];

/// Overwrites the values of the secret variables in this process. The helper, which was started
/// before, has its own copy.
pub fn forget_secrets() {
    for name in SECRETS {
        // SAFETY: the name ends with a zero. The result is null or points to the value in the
        // environment, a writable string that ends with a zero. Nothing in this process reads these
        // variables, and nothing keeps a reference to their values: the helper's process does
        // that with its own.
        unsafe {
            let value = libc::getenv(name.as_ptr());
            if !value.is_null() {
                let len = libc::strlen(value);
                std::ptr::write_bytes(value, b'x', len);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use std::process::Command;
    use std::{env, fs};

    use super::*;

    #[test]
    fn secrets_are_gone_from_the_memory_that_the_kernel_shows() {
        let output = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "objects::secrets::tests::child_forgets",
                "--nocapture",
                "--ignored",
            ])
            .env("AWS_SECRET_ACCESS_KEY", "a-secret-key")
            .env("AWS_SESSION_TOKEN", "a-secret-token")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    #[ignore = "run by the test above in a process of its own"]
    fn child_forgets() {
        let environment = || fs::read("/proc/self/environ").unwrap();
        let has = |secret: &[u8]| {
            environment()
                .windows(secret.len())
                .any(|part| part == secret)
        };
        assert!(has(b"a-secret-key") && has(b"a-secret-token"));
        forget_secrets();
        assert!(!has(b"a-secret-key") && !has(b"a-secret-token"));
        assert!(has(b"AWS_SESSION_TOKEN=x"));
    }
}
