//! `bigiron dump --split`: several parts, read and saved together.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use bigiron_format::kdump::KdumpHeaders;
use serde_json::Value;

use crate::common::{Lab, Outcome, SmallDisk, arg, run};

const PARTS: [&str; 3] = ["a", "b", "c"];

fn parts(lab: &Lab) -> Vec<PathBuf> {
    PARTS.map(|part| lab.path(part)).to_vec()
}

/// Returns `--split` with its parts as one argument.
fn split(parts: &[PathBuf]) -> String {
    let names: Vec<_> = parts.iter().map(|part| arg(part)).collect();
    format!("--split={}", names.join(","))
}

fn dump(lab: &Lab, options: &[&str], parts: &[PathBuf]) -> Outcome {
    let split = split(parts);
    let line = [&["dump"], options, &[&split, arg(lab.vmcore())]].concat();
    run(&line)
}

/// Asserts that the parts together have every page of the source.
#[track_caller]
fn complete_and_equal(lab: &Lab, parts: &[PathBuf]) {
    let mut line = vec!["verify", "--quiet"];
    line.extend(parts.iter().map(|part| arg(part)));
    line.extend(["--against", arg(lab.vmcore())]);
    run(&line).code(0);
}

#[test]
fn parts_are_read_as_one_dump_and_reassembled() {
    let lab = Lab::new();
    let parts = parts(&lab);
    for options in [
        &["-d31"][..],
        &["-d0", "-c", "zlib", "-j1"],
        &["-d1", "-c", "none", "-j8", "--memory-limit", "8M"],
        &["-d31", "-c", "adaptive", "--write-limit", "1G"],
    ] {
        let whole = lab.dump("whole", options);
        dump(
            &lab,
            &[options, &["--overwrite", "--quiet"]].concat(),
            &parts,
        )
        .code(0);
        complete_and_equal(&lab, &parts);
        let mut end = 0;
        for part in &parts {
            let headers = KdumpHeaders::read(&fs::read(part).unwrap()).unwrap();
            let (start, stop) = headers.split.unwrap();
            assert_eq!((start, headers.incomplete), (end, false));
            end = stop;
            let [size, of] = [part, &whole].map(|path| fs::metadata(path).unwrap().len());
            assert!(size < of * 7 / 10, "{part:?} has {size} of {of} bytes");
        }
        let saved = lab.path("saved/");
        let _ = fs::remove_dir_all(&saved);
        let names: Vec<_> = parts.iter().map(|part| arg(part)).collect();
        run(&[&["save", "-q"], &names[..], &[arg(&saved)]].concat()).code(0);
        let saved = saved.join("vmdump.0");
        run(&["verify", "-q", arg(&saved), "--against", arg(&whole)]).code(0);
        run(&["verify", "-q", arg(&whole), "--against", arg(&saved)]).code(0);
        // makedumpfile cannot read codecs that it was built without.
        if options.contains(&"zlib") {
            let theirs = lab.path("theirs");
            let mut program = Command::new("makedumpfile");
            program
                .args(["-f", "--reassemble"])
                .args(&parts)
                .arg(&theirs);
            match program.output() {
                Ok(output) => {
                    assert!(output.status.success(), "{output:?}");
                    run(&["verify", "-q", arg(&theirs), "--against", arg(&whole)]).code(0);
                }
                Err(_) => println!("skipped: makedumpfile is not installed"),
            }
        }
    }
}

#[test]
fn report_names_all_parts() {
    let lab = Lab::new();
    let parts = parts(&lab);
    let text = dump(&lab, &["-d31"], &parts).code(0).text();
    let names: Vec<_> = parts.iter().map(|part| arg(part)).collect();
    assert!(text.contains(&format!("{}: ", names.join(", "))), "{text}");
    let json = dump(&lab, &["--json", "--overwrite"], &parts).code(0);
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["output"], names[0]);
    assert_eq!(report["outputs"], serde_json::json!(names));
    let one = lab.path("one");
    let json = run(&["dump", "--json", arg(lab.vmcore()), arg(&one)]).code(0);
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["outputs"], Value::Null);
}

#[test]
fn conflicting_options_are_usage_errors_and_write_nothing() {
    let lab = Lab::new();
    let two = split(&[lab.path("a"), lab.path("b")]);
    let one = split(&[lab.path("a")]);
    let same = split(&[lab.path("a"), lab.path("b"), lab.path("a")]);
    let stream = format!("--split={},-", arg(&lab.path("a")));
    let vmcore = arg(lab.vmcore());
    for (options, part) in [
        (&[&two, "-f", "elf", vmcore][..], "kdump-compressed"),
        (&[&two, "-f", "vmdump", vmcore], "kdump-compressed"),
        (&[&two, "--encrypt", "x", vmcore], "cannot be used with"),
        (&[&two, "--device", vmcore], "cannot be used with"),
        (&[&one, vmcore], "two files"),
        (&[&same, vmcore], "twice"),
        (&[&stream, vmcore], "standard output"),
        (&[&two], "required"),
    ] {
        for command in ["dump", "live"] {
            // A running kernel has no source name.
            let options = match command {
                "live" => options.strip_suffix(&[vmcore]).unwrap_or(&["-d32"]),
                _ => options,
            };
            let outcome = run(&[&[command], options].concat()).code(2);
            if command == "dump" {
                outcome.says(&[part, "Usage"]);
            }
        }
    }
    run(&["live", &two, "out"])
        .code(2)
        .says(&["cannot be used"]);
    run(&["live"]).code(2).says(&["<OUTPUT>"]);
    run(&["dump", vmcore]).code(2).says(&["2 values"]);
    assert!(!lab.path("a").exists() && !lab.path("a.incomplete").exists());
}

#[test]
fn part_that_exists_or_is_on_a_full_disk_is_named() {
    let lab = Lab::new();
    let mut parts = parts(&lab);
    lab.file("b", b"other data");
    dump(&lab, &[], &parts)
        .code(1)
        .says(&[arg(&parts[1]), "--overwrite"]);
    for name in ["a", "c", "a.incomplete", "b.incomplete"] {
        assert!(!lab.path(name).exists(), "{name}");
    }
    dump(&lab, &["--overwrite"], &parts).code(0);
    complete_and_equal(&lab, &parts);

    let small = lab.path("small");
    let Some(_disk) = SmallDisk::mount(&small, 1) else {
        println!("skipped: a full disk, since mounting is not permitted");
        return;
    };
    parts[1] = small.join("b");
    let outcome = dump(&lab, &["-d0", "-c", "none", "--overwrite"], &parts);
    outcome.code(1).says(&[arg(&parts[1]), "No space left"]);
    let left = small.join("b.incomplete");
    let headers = KdumpHeaders::read(&fs::read(left).unwrap()).unwrap();
    assert!(headers.incomplete);
}

#[test]
fn pages_of_a_running_kernel_are_selected_once_for_all_parts() {
    use bigiron_dump::{DumpOptions, DumpOutput, Progress, Reference, Subject, dump, verify};
    use bigiron_format::codec::{Codec, Compression};
    use bigiron_helpers::Stop;
    use bigiron_kernel::{IoMethod, Kernel, RUNNING_KERNEL, Source};

    let lab = Lab::new();
    let core = fs::read(lab.vmcore()).unwrap();
    let running = Source::from_bytes(Box::new(core), PathBuf::from(RUNNING_KERNEL)).unwrap();
    let kernel = Kernel::find(&running, None, IoMethod::Read, 16).unwrap();
    let subject = Subject::from(kernel);
    let (progress, stop) = (Progress::new(), Stop::new());
    let options = DumpOptions {
        threads: 2,
        ..DumpOptions::default()
    };
    let output = |files: &[PathBuf]| DumpOutput::Split {
        compression: Compression::new(Codec::Zstd).into(),
        granule: 1,
        files: files.to_vec(),
    };
    // The first output cannot be read back.
    let parts = [PathBuf::from("/dev/null"), lab.path("b"), lab.path("c")];
    dump(&subject, &output(&parts), &options, &progress, &stop).unwrap();
    let made = parts[1..].iter().map(|part| {
        let headers = KdumpHeaders::read(&fs::read(part).unwrap()).unwrap();
        assert!(!headers.incomplete);
        headers.split.unwrap()
    });
    let made: Vec<_> = made.collect();
    assert!(made[0].0 > 0 && made[0].1 == made[1].0, "{made:?}");
    let parts = ["x", "y"].map(|part| lab.path(part));
    dump(&subject, &output(&parts), &options, &progress, &stop).unwrap();
    let source = Source::open(&parts).unwrap();
    let reference = Reference::new(
        running.memory(),
        source.memory(),
        Ok(subject.kernel().unwrap()),
    );
    let found = verify(source.memory(), Some(&reference), 2, &progress, &stop).unwrap();
    assert_eq!((found.lost, found.damaged), (0, 0));
}
