//! Outputs that cannot be written, signals, and a killed program.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};

use bigiron_kernel::Source;
use bigiron_synth::{ElfShape, Synth};

use crate::common::{
    Lab, SmallDisk, arg, command, finish, incomplete_but_equal, run, shell, wait_while_running,
};

#[test]
fn existing_output_is_kept_without_overwrite_and_on_failure() {
    let lab = Lab::new();
    let (vmcore, output) = (lab.vmcore(), lab.file("out", b"precious"));
    for format in ["kdump", "flattened", "elf"] {
        run(&["dump", "-f", format, arg(vmcore), arg(&output)])
            .code(1)
            .says(&["out", "exists", "--overwrite"]);
        assert_eq!(fs::read(&output).unwrap(), b"precious");
    }
    let bad = lab.file("bad", b"bad");
    run(&["dump", "--overwrite", arg(&bad), arg(&output)]).code(1);
    assert_eq!(fs::read(&output).unwrap(), b"precious");
    run(&["dump", "--overwrite", arg(vmcore), arg(&output)]).code(0);
    run(&["verify", arg(&output), "--against", arg(vmcore)]).code(0);
    assert!(!lab.path("out.incomplete").exists());
    let link = lab.path("link");
    std::os::unix::fs::symlink(lab.path("nowhere"), &link).unwrap();
    run(&["dump", arg(vmcore), arg(&link)])
        .code(1)
        .says(&["link", "exists"]);
}

#[test]
fn dump_can_replace_its_own_source() {
    let lab = Lab::new();
    let (own, copy) = (lab.dump("own", &["-d", "0"]), lab.path("copy"));
    fs::copy(&own, &copy).unwrap();
    run(&["dump", "--overwrite", "-d", "31", arg(&own), arg(&own)]).code(0);
    run(&["verify", arg(&own), "--against", arg(&copy)]).code(0);
    assert!(fs::metadata(&own).unwrap().len() < fs::metadata(&copy).unwrap().len());
}

#[test]
fn output_that_cannot_be_created_is_named() {
    let lab = Lab::new();
    let vmcore = lab.vmcore();
    run(&["dump", arg(vmcore), arg(&lab.path("no/out"))])
        .code(1)
        .says(&["no/out", "the directory is not there"]);
    fs::create_dir(lab.path("dir")).unwrap();
    run(&["dump", "--overwrite", arg(vmcore), arg(&lab.path("dir"))])
        .code(1)
        .says(&["dir", "give the name of a file"]);
    run(&["dump", arg(vmcore), arg(&lab.path("vmcore/out"))])
        .code(1)
        .says(&["vmcore/out"]);
    run(&["dump", arg(vmcore), arg(&lab.path("dir/.."))]).code(1);
    fs::set_permissions(lab.path("dir"), fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(lab.path("dir/probe"), b"").is_ok() {
        println!("skipped: a read-only directory, since root can write to it");
    } else {
        run(&["dump", arg(vmcore), arg(&lab.path("dir/out"))])
            .code(1)
            .says(&["dir/out", "no permission"]);
    }
}

#[test]
fn character_devices_as_output_work_or_fail_with_a_reason() {
    let lab = Lab::new();
    for format in ["kdump", "flattened", "elf", "vmdump"] {
        run(&["dump", "-f", format, arg(lab.vmcore()), "/dev/null"]).code(0);
        run(&["dump", "-f", format, arg(lab.vmcore()), "/dev/full"])
            .code(1)
            .says(&["/dev/full", "No space left"]);
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let child = command(&["dump", arg(lab.vmcore()), "-"])
        .stdout(full)
        .spawn();
    finish(child.unwrap())
        .code(1)
        .says(&["standard output", "No space left"]);
}

#[test]
fn complete_dump_whose_summary_cannot_be_printed_is_a_success() {
    let lab = Lab::new();
    let output = lab.path("out");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let child = command(&["dump", arg(lab.vmcore()), arg(&output)])
        .stdout(full)
        .spawn();
    finish(child.unwrap())
        .code(0)
        .says(&["warning: ", "No space left"]);
    run(&["verify", arg(&output)]).code(0);
}

#[test]
fn file_size_limit_leaves_a_readable_incomplete_file() {
    let lab = Lab::new();
    let (vmcore, output) = (lab.vmcore(), lab.path("out"));
    // ulimit -f counts blocks of 512 bytes in every sh but counts of 1024 in some.
    let limit = "ulimit -f 4000;";
    let arguments = ["dump", "-d", "0", "-c", "none", arg(vmcore), arg(&output)];
    finish(shell(limit, &arguments).spawn().unwrap())
        .code(1)
        .says(&["out", "File too large", "out.incomplete and can be read"]);
    assert!(!output.exists());
    incomplete_but_equal(&lab.path("out.incomplete"), vmcore);
    // At this limit no page is written yet, and no file is left.
    let early = lab.path("early");
    let arguments = ["dump", arg(vmcore), arg(&early)];
    let outcome = finish(shell("ulimit -f 1;", &arguments).spawn().unwrap());
    let outcome = outcome.code(1).says(&["early", "File too large"]);
    assert!(!outcome.stderr.contains("can be read"));
    assert!(!lab.path("early.incomplete").exists());
}

#[test]
fn full_disk_leaves_a_readable_incomplete_file_and_the_old_output() {
    let lab = Lab::new();
    let at = lab.path("disk");
    let Some(_disk) = SmallDisk::mount(&at, 2) else {
        println!("skipped: a full disk, since mounting is not permitted");
        return;
    };
    let (vmcore, output) = (lab.vmcore(), at.join("out"));
    fs::write(&output, b"precious").unwrap();
    let options = ["-d", "0", "-c", "none", "--overwrite"];
    let mut arguments = vec!["dump"];
    arguments.extend(options);
    arguments.extend([arg(vmcore), arg(&output)]);
    run(&arguments)
        .code(1)
        .says(&["No space left", "out.incomplete"]);
    assert_eq!(fs::read(&output).unwrap(), b"precious");
    incomplete_but_equal(&at.join("out.incomplete"), vmcore);
}

#[test]
fn closed_pipe_ends_the_dump_with_a_message() {
    let lab = Lab::new();
    for format in ["flattened", "elf"] {
        let arguments = ["dump", "-d", "0", "-f", format, arg(lab.vmcore()), "-"];
        let mut child = command(&arguments).spawn().unwrap();
        let mut some = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        finish(child)
            .code(1)
            .says(&["standard output", "Broken pipe"]);
    }
    let mut child = command(&["completions", "bash"]).spawn().unwrap();
    drop(child.stdout.take());
    finish(child).code(0);
    let mut child = command(&["--help"]).spawn().unwrap();
    drop(child.stdout.take());
    finish(child);
}

/// Creates a vmcore with so many incompressible pages that a zstd:19 dump takes much longer than sending a
/// signal.
fn slow_lab() -> Lab {
    let lab = Lab::new();
    let text = "kernel 6.12\nram 0x0-0x9f 0x100-0x3eff\npages 0x800 slab n=12288 fill=random";
    let machine = Synth::from_text(text).unwrap();
    lab.file("vmcore", &machine.elf(&ElfShape::vmcore()));
    lab
}

/// Starts a slow dump and waits until it has written some pages.
fn begin_slow(lab: &Lab, output: &Path, incomplete: &Path) -> Child {
    let arguments = [
        "dump",
        "-d",
        "0",
        "-c",
        "zstd:19",
        "-j1",
        // Never reached: the deadline is a signal as well.
        "--timeout",
        "1000000",
        arg(lab.vmcore()),
        arg(output),
    ];
    let mut child = shell("umask 000;", &arguments).spawn().unwrap();
    let written = || fs::metadata(incomplete).map_or(0, |metadata| metadata.len());
    assert!(wait_while_running(&mut child, || written() >= 1 << 20));
    child
}

/// Asserts that the incomplete file is private, marked as incomplete, and has no wrong page.
#[track_caller]
fn incomplete_file_is_usable(lab: &Lab, output: &Path, incomplete: &Path) {
    assert!(!output.exists());
    let mode = fs::metadata(incomplete).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let source = Source::open(&[incomplete.to_owned()]).unwrap();
    assert!(source.damage().unwrap().contains("marked incomplete"));
    incomplete_but_equal(incomplete, lab.vmcore());
    let again = lab.path("again");
    let level_1 = [
        "dump",
        "-d",
        "1",
        "--overwrite",
        arg(incomplete),
        arg(&again),
    ];
    run(&level_1)
        .code(0)
        .says(&["marked incomplete", "cannot be read"]);
    incomplete_but_equal(&again, lab.vmcore());
    let counts = run(&["verify", "--json", arg(&again)]).code(1).text();
    assert!(!counts.contains("\"pages\": 0,"), "{counts}");
}

#[test]
fn signal_leaves_a_private_and_usable_file_marked_incomplete() {
    let lab = slow_lab();
    for (signal, code) in [("HUP", 129), ("INT", 130), ("TERM", 143), ("ALRM", 124)] {
        let (output, incomplete) = (lab.path(signal), lab.path(&format!("{signal}.incomplete")));
        let child = begin_slow(&lab, &output, &incomplete);
        let id = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &id])
                .status()
                .unwrap()
                .success()
        );
        finish(child)
            .code(code)
            .says(&["interrupted", arg(&incomplete), "can be read"]);
        incomplete_file_is_usable(&lab, &output, &incomplete);
    }
}

#[test]
fn file_left_by_a_killed_dump_is_usable_and_does_not_block_the_next() {
    let lab = slow_lab();
    let (output, incomplete) = (lab.path("out"), lab.path("out.incomplete"));
    let mut child = begin_slow(&lab, &output, &incomplete);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None);
    incomplete_file_is_usable(&lab, &output, &incomplete);
    let left = fs::read(&incomplete).unwrap();
    let arguments = ["dump", arg(lab.vmcore()), arg(&output)];
    finish(shell("umask 000;", &arguments).spawn().unwrap()).code(0);
    assert_eq!(
        fs::metadata(&output).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(fs::read(&incomplete).unwrap(), left);
    assert!(!lab.path("out.incomplete.1").exists());
    run(&["verify", arg(&output), "--against", arg(lab.vmcore())]).code(0);
}
