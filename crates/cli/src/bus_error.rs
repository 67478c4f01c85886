//! SIGBUS, which the kernel sends on access to a mapped page that the file no longer has.

use std::path::Path;

use anyhow::Context;
use bigiron_kernel::IoMethod;
use signal_hook::consts::SIGBUS;
use signal_hook::low_level;

/// If `source` is mapped at the user's request, SIGBUS names it and what to do, and ends the
/// program with exit status 1. What was written until then stays as after any other end.
pub fn explain(source: &Path, io: IoMethod) -> anyhow::Result<()> {
    if io != IoMethod::Mmap {
        return Ok(());
    }
    let text = format!(
        "bigiron: {}: it shrank or could not be read while it was mapped (SIGBUS); use --io read\n",
        source.display()
    );
    let action = move || {
        let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
        low_level::exit(1);
    };
    // SAFETY: the action makes only the system calls write and _exit. It takes no lock and
    // allocates nothing.
    unsafe { low_level::register(SIGBUS, action) }.context("cannot catch SIGBUS")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::{env, fs, ptr};

    use rustix::mm::{MapFlags, ProtFlags, mmap};

    use super::*;

    /// The file that the child process maps.
    const VARIABLE: &str = "BIGIRON_TEST_SHRINKING_FILE";
    const PAGE: usize = 4096;

    #[test]
    fn sigbus_of_a_mapped_file_is_explained() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let child = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "bus_error::tests::child_reads_a_file_that_shrinks",
            ])
            .args(["--nocapture", "--ignored"])
            .env(VARIABLE, file.path())
            .output()
            .unwrap();
        assert_eq!(child.status.code(), Some(1), "{child:?}");
        let said = String::from_utf8_lossy(&child.stderr);
        let expected = format!("bigiron: {}: it shrank", file.path().display());
        assert!(said.contains(&expected), "{said}");
        assert!(said.contains("--io read"), "{said}");
    }

    #[test]
    #[ignore = "run by the test above in a process of its own"]
    fn child_reads_a_file_that_shrinks() {
        let Some(path) = env::var_os(VARIABLE) else {
            return;
        };
        let file = fs::File::options().read(true).write(true).open(&path);
        let file = file.unwrap();
        file.set_len(PAGE as u64).unwrap();
        // SAFETY: the kernel chooses a free range.
        let page = unsafe {
            let (access, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
            mmap(ptr::null_mut(), PAGE, access, flags, &file, 0).unwrap()
        };
        explain(path.as_ref(), IoMethod::Mmap).unwrap();
        file.set_len(0).unwrap();
        // SAFETY: the range is mapped; the access ends the process by the signal's action.
        unsafe { page.cast::<u8>().read_volatile() };
        unreachable!("the page can be read behind the end of its file");
    }
}
