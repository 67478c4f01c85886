//! vmdumps: making, unpacking, damaging and repairing them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use bigiron_format::PageFrame;
use bigiron_kernel::{IoMethod, Source};
use bigiron_synth::{ElfShape, Synth};

use crate::common::{
    Lab, arg, command, finish, incomplete_but_equal, present, run, run_with_input,
    wait_while_running,
};

/// Unpacks a dump with `program`; returns `None` if that is not installed.
fn unpacked(program: &str, dump: &Path) -> Option<Vec<u8>> {
    let output = Command::new(program).args(["-d", "-c"]).arg(dump).output();
    let output = output.ok()?;
    assert!(output.status.success(), "{program}: {output:?}");
    Some(output.stdout)
}

#[test]
fn zstd_and_bzip2_unpack_the_same_core() {
    let lab = Lab::new();
    let source = Source::open(&[lab.vmcore().to_owned()]).unwrap();
    let mut cores = Vec::new();
    for (codec, program) in [("zstd", "zstd"), ("bzip2", "bzip2")] {
        let dump = lab.dump(codec, &["-f", "vmdump", "-c", codec, "-d", "31"]);
        let Some(core) = unpacked(program, &dump) else {
            println!("skipped: {program} is not installed");
            continue;
        };
        let path = lab.file("core", &core);
        let kept = present(&dump);
        let unpacked = Source::open(&[path]).unwrap();
        let mut theirs = source.memory().reader(IoMethod::Read);
        let mut ours = unpacked.memory().reader(IoMethod::Read);
        let all = present(lab.vmcore());
        for frame in (0..all.len()).filter(|frame| all[*frame]) {
            let page = ours.pages(PageFrame(frame as u64), 1).unwrap();
            if kept.get(frame) == Some(&true) {
                let right = theirs.pages(PageFrame(frame as u64), 1).unwrap();
                assert!(page == right, "page frame {frame:#x}");
            } else {
                assert!(page.iter().all(|byte| *byte == 0), "page frame {frame:#x}");
            }
        }
        assert!(kept.iter().filter(|kept| **kept).count() > 1000);
        cores.push(core);
    }
    if let [zstd, bzip2] = &cores[..] {
        assert!(
            bzip2.starts_with(zstd),
            "bzip2 has the index after the core"
        );
    }
}

#[test]
fn streams_and_files_are_equal_as_source_and_output() {
    let lab = Lab::new();
    for codec in ["zstd:3", "bzip2"] {
        let arguments = ["dump", "-f", "vmdump", "-c", codec, "-d", "1", "-j3"];
        let made = run(&[&arguments[..], &[arg(lab.vmcore()), "-"]].concat()).code(0);
        let stream = lab.file("stream", &made.stdout);
        run(&["verify", arg(&stream), "--against", arg(lab.vmcore())]).code(0);
        let again = lab.path("again");
        let arguments = ["dump", "--overwrite", "-d", "0", "-", arg(&again)];
        run_with_input(&arguments, &made.stdout).code(0);
        run(&["verify", arg(&again), "--against", arg(&stream)]).code(0);
        run(&["verify", arg(&stream), "--against", arg(&again)]).code(0);
    }
}

#[test]
fn compression_that_the_format_does_not_take_is_a_usage_error() {
    let lab = Lab::new();
    let output = lab.path("out");
    for (format, codec) in [
        ("vmdump", "lzo"),
        ("vmdump", "adaptive"),
        ("kdump", "bzip2"),
    ] {
        let arguments = ["dump", "-f", format, "-c", codec];
        run(&[&arguments[..], &[arg(lab.vmcore()), arg(&output)]].concat())
            .code(2)
            .says(&[format, codec, "use -c"]);
    }
    assert!(!output.exists() && !lab.path("out.incomplete").exists());
}

#[test]
fn verify_locates_damage_and_repair_completes_a_truncated_dump() {
    let lab = Lab::new();
    let good = fs::read(lab.dump("good", &["-f", "vmdump", "-d", "0"])).unwrap();
    let mut bytes = good.clone();
    bytes[good.len() / 2] ^= 4;
    let damaged = lab.file("damaged", &bytes);
    run(&["verify", arg(&damaged)])
        .code(1)
        .says(&["damaged: offset 0x", "physical address 0x"]);

    let cut = lab.file("cut", &good[..good.len() * 2 / 3]);
    incomplete_but_equal(&cut, lab.vmcore());
    run(&["verify", arg(&cut)])
        .code(1)
        .says(&["no root", "missing", "physical address 0x"]);
    let before = present(&cut);
    run(&["verify", "--repair", arg(&cut)])
        .code(1)
        .says(&["index of", "incomplete"]);
    assert_eq!(present(&cut), before);
    run(&["verify", "--repair", arg(&cut)])
        .code(1)
        .says(&["nothing to repair"]);
    run(&["verify", "--repair", arg(lab.vmcore())])
        .code(1)
        .says(&["is not a vmdump"]);
}

/// Returns the number that a message of `verify` has before "damaged pages"; 0 without one.
fn damaged_pages(message: &str) -> u64 {
    message
        .split_once(" damaged page")
        .map_or(0, |(before, _)| {
            let number = before.rsplit(' ').next().unwrap();
            number.parse().unwrap()
        })
}

#[test]
fn vmdump_killed_at_any_size_loses_only_chunks_in_flight() {
    const CHUNKS_IN_FLIGHT: u64 = 2 * (3 + 2);
    const KILL_STEP: u64 = 270 << 10;
    let lab = Lab::new();
    let text = "kernel 6.12\nram 0x0-0x9f 0x100-0xfff\npages 0x400 slab n=2560 fill=random";
    lab.file(
        "vmcore",
        &Synth::from_text(text).unwrap().elf(&ElfShape::vmcore()),
    );
    let mut opened = 0;
    for round in 0..37 {
        let output = lab.path("out");
        let incomplete = lab.path("out.incomplete");
        let options = ["dump", "-q", "-f", "vmdump", "-c", "zstd:12", "-d0", "-j2"];
        let size = ["--chunk-size", "64K", "--overwrite"];
        let paths = [arg(lab.vmcore()), arg(&output)];
        let arguments = [&options[..], &size, &paths].concat();
        let mut child = command(&arguments).stdout(Stdio::null()).spawn().unwrap();
        // Killed when this many bytes are written, or at its end.
        let written = || fs::metadata(&incomplete).map_or(0, |file| file.len());
        wait_while_running(&mut child, || written() >= round * KILL_STEP);
        child.kill().unwrap();
        child.wait().unwrap();
        let left = if incomplete.exists() {
            &incomplete
        } else {
            &output
        };
        if !left.exists() {
            continue;
        }
        if let Ok(source) = Source::open(std::slice::from_ref(left)) {
            opened += 1;
            let file = source.memory().vmdump().unwrap().file();
            let chunk = file.header().chunk_bytes();
            if let Some((_, before)) = file.gaps().split_last() {
                let lost: u64 = before.iter().map(|gap| gap.end - gap.start).sum();
                assert!(
                    lost <= CHUNKS_IN_FLIGHT * chunk,
                    "round {round}: {lost} bytes"
                );
            }
            let outcome = run(&["verify", arg(left), "--against", arg(lab.vmcore())]);
            assert!(!outcome.stderr.contains("differ"), "{}", outcome.stderr);
            assert!(!outcome.stderr.contains("byte 0x"), "{}", outcome.stderr);
            // The kernel stops a write at a page boundary when the writer is killed
            // (generic_perform_write, mm/filemap.c): a chunk in flight may be there in part.
            let damaged = damaged_pages(&outcome.stderr) * 4096;
            assert!(
                damaged <= CHUNKS_IN_FLIGHT * chunk,
                "round {round}: {}",
                outcome.stderr
            );
        }
        fs::remove_file(left).unwrap();
    }
    assert!(opened > 33, "only {opened} of 37 can be opened");
    // A dump that is not killed is complete.
    let output = lab.path("out");
    let arguments = ["dump", "-f", "vmdump", arg(lab.vmcore()), arg(&output)];
    finish(command(&arguments).spawn().unwrap()).code(0);
}
