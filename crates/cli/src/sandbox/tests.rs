//! What a confined process can and cannot do, tried by a process of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::fs::{self, File};
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::*;

/// Names the directory in which [`confined_process`] works.
const DIRECTORY: &str = "BIGIRON_TEST_CONFINED";

/// Runs [`confined_process`] in a process of its own, with or without a file to write.
fn run_confined(how: &str) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    if !status.contains("Seccomp:") {
        println!("skipped: the kernel has no seccomp");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for name in ["secret", "public", "out.incomplete"] {
        fs::write(directory.path().join(name), name).unwrap();
    }
    fs::create_dir(directory.path().join("elsewhere")).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sandbox::tests::confined_process", "--nocapture"])
        .env(DIRECTORY, directory.path())
        .env("HOW", how)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("tried"), "{text}");
}

#[test]
fn reader_opens_nothing_connects_to_nothing_and_starts_nothing() {
    run_confined("reader");
}

#[test]
fn writer_of_a_file_gives_it_its_name_and_no_more() {
    run_confined("writer");
}

#[cfg(feature = "objects")]
#[test]
fn helper_with_the_network_connects_and_reads_only_its_files() {
    run_confined("network");
}

#[cfg(feature = "inspect")]
#[test]
fn finder_of_debug_information_reads_its_folders_and_connects_to_nothing() {
    run_confined("folders");
}

#[cfg(feature = "inspect")]
#[test]
fn finder_with_servers_connects_and_writes_into_the_cache_alone() {
    run_confined("servers");
}

/// Does nothing unless started by [`run_confined`].
#[test]
fn confined_process() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let at = |name: &str| directory.join(name);
    let mut output = File::options()
        .write(true)
        .open(at("out.incomplete"))
        .unwrap();
    let final_name = at("out");
    let how = std::env::var("HOW").unwrap();
    let (is_writer, keeps) = (how == "writer", how == "servers");
    let has_network = keeps || how == "network";
    let reads = has_network || how == "folders";
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    #[cfg(any(feature = "inspect", feature = "objects"))]
    let public = [at("public")];
    #[cfg(feature = "inspect")]
    let cache = at("elsewhere");
    enter(&match how.as_str() {
        "writer" => Needs::Output(&final_name),
        #[cfg(feature = "objects")]
        "network" => Needs::Network(&public),
        #[cfg(feature = "inspect")]
        "folders" | "servers" => Needs::DebugInfo {
            reads: &public,
            keeps: keeps.then_some(cache.as_path()),
        },
        _ => Needs::Nothing,
    });
    // What an open file and threads allow stays possible.
    output.write_all(b"contents").unwrap();
    output.sync_all().unwrap();
    let sum = thread::spawn(|| vec![1_u8; 1 << 24].len()).join().unwrap();
    assert_eq!(sum, 1 << 24);
    refused_alike(&directory, &output);
    let renamed = fs::rename(at("out.incomplete"), &final_name);
    assert_eq!(renamed.is_ok(), is_writer, "{renamed:?}");
    let listed = fs::read_dir(&directory);
    assert_eq!(listed.is_ok(), is_writer, "{listed:?}");
    let connected = TcpStream::connect(address);
    assert_eq!(connected.is_ok(), has_network, "{connected:?}");
    let read = fs::read(at("public"));
    assert_eq!(read.is_ok(), reads, "{read:?}");
    let kept = fs::create_dir(at("elsewhere/new"))
        .and_then(|()| fs::write(at("elsewhere/new/file"), "kept"))
        .and_then(|()| fs::rename(at("elsewhere/new/file"), at("elsewhere/file")));
    assert_eq!(kept.is_ok(), keeps, "{kept:?}");
    println!("tried");
}

/// Asserts what no command that reads a dump may do.
fn refused_alike(directory: &Path, output: &File) {
    let at = |name: &str| directory.join(name);
    let denied = |what: &str, result: std::io::Result<()>| {
        let Err(error) = result else {
            panic!("{what}: allowed");
        };
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::PermissionDenied,
            "{what}: {error}"
        );
    };
    denied("read a file", File::open(at("secret")).map(drop));
    denied(
        "open its own again",
        File::open(format!("/proc/self/fd/{}", output.as_raw_fd())).map(drop),
    );
    denied("create a file", File::create(at("new")).map(drop));
    denied(
        "write to a file",
        File::options().append(true).open(at("secret")).map(drop),
    );
    denied("make a directory", fs::create_dir(at("made")));
    denied(
        "make a link",
        std::os::unix::fs::symlink("secret", at("link")),
    );
    denied(
        "change a mode",
        fs::set_permissions(
            at("secret"),
            std::os::unix::fs::PermissionsExt::from_mode(0o666),
        ),
    );
    // Landlock answers EXDEV, as between file systems: programs then copy.
    let moved = fs::rename(at("out.incomplete"), at("elsewhere/out"));
    assert!(moved.is_err(), "move out of the directory");
    denied("listen", TcpListener::bind("127.0.0.1:0").map(drop));
    denied("send", UdpSocket::bind("127.0.0.1:0").map(drop));
    denied(
        "start a program",
        Command::new("/bin/true").spawn().map(drop),
    );
    let result = |code: libc::c_long| match code {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    };
    // SAFETY: signal 0 only asks if the process could be signalled.
    denied(
        "send a signal",
        result(unsafe { libc::kill(libc::getppid(), 0) }.into()),
    );
    let byte = b'x';
    // SAFETY: the byte lives until the call returns; a file is no terminal.
    let injected = unsafe { libc::ioctl(output.as_raw_fd(), libc::TIOCSTI, &raw const byte) };
    denied("type into the terminal", result(injected.into()));
    // SAFETY: the kernel chooses the address, and the mapping is not used.
    let code = unsafe {
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0)
    };
    denied("map new code", result(code as libc::c_long));
}
