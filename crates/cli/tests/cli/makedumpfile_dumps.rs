//! Dumps made under the name makedumpfile, compared with makedumpfile's own.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use bigiron_kernel::Source;

use crate::common::{Outcome, SmallDisk, finish};
use crate::peer::{Lab, installed, said};

/// The last message of both programs.
const DONE: &str = "\nmakedumpfile Completed.\n";

#[test]
fn same_options_keep_the_same_pages_as_makedumpfile() {
    if !installed() {
        return;
    }
    let lab = Lab::new();
    for options in [
        "",
        "-d31",
        "-c -d 31",
        "-cd1",
        "-l -d 23",
        "-d 8 --num-threads 2",
        "-E",
        "-E -d 31",
        "--non-mmap -d16",
    ] {
        let ours = lab.ours(&format!("-f {options} @vmcore @dump")).code(0);
        fs::rename(lab.path("dump"), lab.path("ours")).unwrap();
        let theirs = lab.theirs(&format!("-f {options} @vmcore @dump")).code(0);
        assert_eq!(said(&ours), said(&theirs), "{options}");
        lab.same_pages("ours", "dump");
        let kind = |name| Source::open(&[lab.path(name)]).unwrap().kind();
        assert_eq!(kind("ours"), kind("dump"), "{options}");
    }
}

/// Returns the lines of the page table; times, cache and sizes differ between the programs.
fn table(outcome: &Outcome) -> Vec<String> {
    let text = said(outcome);
    let lines = text
        .lines()
        .skip_while(|line| !line.starts_with("Original"));
    let lines = lines.take_while(|line| !line.starts_with("Write bytes"));
    lines.map(str::to_owned).collect()
}

#[test]
fn statistics_equal_those_of_makedumpfile() {
    if !installed() {
        return;
    }
    let lab = Lab::new();
    for options in ["-d31", "-d 0", "-c -d 23", "-E -d31", "-d 31 --dry-run"] {
        let line = format!("-f {options} --show-stats @vmcore @dump");
        let (ours, theirs) = (lab.ours(&line).code(0), lab.theirs(&line).code(0));
        assert!(table(&ours).len() > 10, "{}", ours.text());
        assert_eq!(table(&ours), table(&theirs), "{options}");
        let more = lab.ours(&line.replace("--show-stats", "--message-level 23"));
        assert_eq!(table(&more), table(&ours));
    }
}

#[test]
fn dry_run_prints_the_same_and_writes_nothing() {
    let lab = Lab::new();
    let dry = lab
        .ours("--dry-run -cd31 --show-stats @vmcore @dump")
        .code(0);
    assert!(!lab.path("dump").exists());
    let wet = lab.ours("-cd31 --show-stats @vmcore @dump").code(0);
    assert_eq!(table(&dry), table(&wet));
    // It fails where a real run would.
    lab.ours("--dry-run -d31 @vmcore @dump")
        .code(1)
        .says(&["File exists"]);
}

/// Pipes one program's standard output into the other's standard input.
fn piped(mut from: Command, mut to: Command) {
    let mut sender = from.stderr(Stdio::null()).spawn().unwrap();
    to.stdin(sender.stdout.take().unwrap());
    let receiver = to.spawn().unwrap();
    let received = finish(receiver).code(0);
    assert!(received.text().ends_with(DONE), "{}", received.text());
    assert!(sender.wait().unwrap().success());
}

#[test]
fn flattened_streams_are_exchanged_with_makedumpfile_both_ways() {
    if !installed() {
        return;
    }
    let lab = Lab::new();
    for options in ["-cd31", "-E -d31", "-d0"] {
        let line = format!("-F {options} @vmcore");
        lab.theirs(&format!("-f {options} @vmcore @straight"))
            .code(0);
        piped(lab.our_command(&line), lab.their_command("-f -R @a"));
        lab.same_pages("a", "straight");
        piped(lab.their_command(&line), lab.our_command("-f -R @b"));
        lab.same_pages("b", "straight");
        assert!(!lab.path("b.incomplete").exists());
    }
    let outcome = lab.ours("-F -d31 @vmcore").code(0);
    outcome.says(&[
        "The dumpfile is saved to STDOUT.",
        "makedumpfile Completed.",
    ]);
}

#[test]
fn truncated_stream_fails_and_its_pages_are_kept() {
    let lab = Lab::new();
    let whole = lab.ours("-F -d31 @vmcore").code(0).stdout;
    for (part, kept) in [
        (&whole[..whole.len() / 2], true),
        (&whole[..100], false),
        (&[], false),
    ] {
        let mut child = lab
            .our_command("-f -R @dump")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(part).unwrap();
        drop(stdin);
        let outcome = finish(child).code(1);
        assert!(outcome.text().ends_with("\nmakedumpfile Failed.\n"));
        assert_eq!(lab.path("dump").exists(), kept);
        let _ = fs::remove_file(lab.path("dump"));
        assert!(!lab.path("dump.incomplete").exists());
    }
}

#[test]
fn existing_file_is_kept_without_f() {
    let lab = Lab::new();
    fs::write(lab.path("out"), b"precious").unwrap();
    for line in [
        "@vmcore @out",
        "-R @out",
        "--dump-dmesg @vmcore @out",
        "--reassemble @a @b @out",
    ] {
        let outcome = lab
            .ours(line)
            .code(1)
            .says(&["Can't open the dump file (", "File exists"]);
        assert_eq!(outcome.text(), "\nmakedumpfile Failed.\n");
        assert_eq!(fs::read(lab.path("out")).unwrap(), b"precious");
        if installed() {
            lab.theirs(line)
                .code(1)
                .says(&["Can't open the dump file (", "File exists"]);
        }
    }
    lab.ours("-fd31 @vmcore @out").code(0);
}

#[test]
fn next_level_is_tried_at_the_size_limit() {
    let lab = Lab::new();
    let exact = |level: &str| {
        lab.ours(&format!("-f -d {level} @vmcore @probe")).code(0);
        fs::metadata(lab.path("probe")).unwrap().len()
    };
    let (most, least) = (exact("0"), exact("31"));
    assert!(least + (1 << 20) < most);
    let limit = (least + most) / 2;
    let outcome = lab
        .ours(&format!("-L {limit} -d 0,31 @vmcore @dump"))
        .code(0);
    let text = outcome.text();
    assert!(
        text.contains(&format!("Size limit({limit}) reached.")),
        "{text}"
    );
    assert!(
        text.contains("Retry to create a dumpfile by dump_level(31).\n"),
        "{text}"
    );
    lab.same_pages("dump", "probe");
    // No level fits: the incomplete dump gets the final name.
    for options in ["-d 0", "-E -d 0", "-d 0,1"] {
        let outcome = lab.ours(&format!("-f -L {} {options} @vmcore @small", least / 2));
        let text = outcome.code(1).text();
        assert!(text.contains("This is an incomplete dumpfile"), "{text}");
        assert!(fs::metadata(lab.path("small")).unwrap().len() <= least / 2);
        let left = Source::open(&[lab.path("small")]).unwrap();
        assert!(left.damage().is_some());
        assert!(!lab.path("small.incomplete").exists());
        if installed() {
            let line = format!("-f -L {} {options} @vmcore @theirs", least / 2);
            let theirs = lab.theirs(&line).code(1).text();
            assert!(theirs.contains("Size limit("), "{theirs}");
        }
    }
}

#[test]
fn next_level_is_tried_on_a_full_disk() {
    let lab = Lab::new();
    let at = lab.path("disk");
    let Some(_disk) = SmallDisk::mount(&at, 32) else {
        println!("skipped: a full disk, since mounting is not permitted");
        return;
    };
    let outcome = lab.ours("-d 0,31 @vmcore @disk/dump").code(0);
    let text = outcome.text();
    assert!(text.contains("No space left on device"), "{text}");
    assert!(
        text.contains("Retry to create a dumpfile by dump_level(31).\n"),
        "{text}"
    );
    assert!(text.ends_with(DONE), "{text}");
    lab.ours("-d31 @vmcore @whole").code(0);
    lab.same_pages("disk/dump", "whole");
    let names = fs::read_dir(&at).unwrap().count();
    assert_eq!(names, 1, "left behind");
    if installed() {
        // makedumpfile then searches free lists, which this machine lacks.
        let theirs = lab.theirs("-f -d 0,31 @vmcore @disk/dump").text();
        assert!(
            theirs.contains("Retry to create a dumpfile by dump_level(31).\n"),
            "{theirs}"
        );
    }
}

#[test]
fn vmlinux_of_another_release_exits_with_2() {
    let lab = Lab::new();
    let source = Source::open(&[lab.path("vmcore")]).unwrap();
    let text = source.memory().vmcoreinfo_note().unwrap().text;
    let text = String::from_utf8_lossy(text).into_owned();
    fs::write(lab.path("own"), &text).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    fs::write(lab.path("other"), format!("{first}x\n{rest}")).unwrap();
    lab.ours("-d31 @vmcore @out").code(0);
    lab.ours("-d31 -i @own @vmcore @by").code(0);
    lab.same_pages("out", "by");
    lab.ours("-d31 -i @other @vmcore @no")
        .code(2)
        .says(&["Linux"]);
    // VMLINUX is identified by its release if there is no build ID.
    let release = first.strip_prefix("OSRELEASE=").unwrap();
    let mut elf = fs::read(lab.path("vmcore")).unwrap()[..64].to_vec();
    elf[56] = 0;
    let vmlinux = |release: &str| {
        let banner = format!("Linux version {release} (gcc)");
        fs::write(lab.path("vmlinux"), [&elf[..], banner.as_bytes()].concat()).unwrap();
    };
    vmlinux(release);
    lab.ours("-f -d31 -x @vmlinux @vmcore @by").code(0);
    vmlinux(&format!("{release}1"));
    lab.ours("-f -d31 -x @vmlinux @vmcore @by")
        .code(2)
        .says(&["is not the kernel of the dump"]);
    lab.ours("-f -d31 -x @nothing @vmcore @by")
        .code(1)
        .says(&["Can't open the kernel file("]);
    lab.ours("-f -d31 -i @nothing @vmcore @by").code(1);
}

#[test]
fn address_translation_prints_the_same_lines_as_makedumpfile() {
    let lab = Lab::new();
    let source = Source::open(&[lab.path("vmcore")]).unwrap();
    let text =
        String::from_utf8_lossy(source.memory().vmcoreinfo_note().unwrap().text).into_owned();
    let symbol = text
        .lines()
        .find_map(|line| line.strip_prefix("SYMBOL(swapper_pg_dir)="));
    for address in [symbol.unwrap(), "1234"] {
        let line = format!("-f --vtop 0x{address} -d0 @vmcore @out");
        let ours = lab.ours(&line).code(0).text();
        assert!(ours.contains("\nVIRTUAL           PHYSICAL\n"), "{ours}");
        let lines = |text: &str| {
            let begin = text.find("Translating").unwrap();
            let end = text.find("The dumpfile").unwrap();
            text[begin..end].to_owned()
        };
        if installed() {
            let theirs = lab.theirs(&line).code(0).text();
            assert_eq!(lines(&ours), lines(&theirs));
        }
    }
}

#[test]
fn mem_usage_counts_add_up() {
    let lab = Lab::new();
    let stats = lab.ours("--dry-run -d31 --show-stats @vmcore @out").code(0);
    let text = lab.ours("--mem-usage @vmcore").code(0).text();
    let count = |name: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace()
            .find_map(|word| word.parse().ok())
            .unwrap()
    };
    let kinds = [
        "ZERO",
        "NON_PRI_CACHE",
        "PRI_CACHE",
        "USER",
        "FREE",
        "KERN_DATA",
    ];
    let sum: u64 = kinds.into_iter().map(count).sum();
    assert_eq!(sum, count("Total pages on system:"), "{text}");
    let free = format!("Free pages              : 0x{:016x}", count("FREE"));
    assert!(stats.text().contains(&free), "{text}");
    assert!(!text.contains("Completed"), "{text}");
}

#[test]
fn filtering_a_dump_again_gives_the_same_pages_as_makedumpfile() {
    if !installed() {
        return;
    }
    let lab = Lab::new();
    lab.theirs("-l -d1 @vmcore @first").code(0);
    lab.ours("-c -d31 @first @ours").code(0);
    lab.theirs("-c -d31 @first @theirs").code(0);
    lab.same_pages("ours", "theirs");
    for run in [Lab::ours, Lab::theirs] {
        let text = run(&lab, "-f -d0 @theirs @again").code(0).text();
        let words = format!(
            "dump_level is changed to 31, because {} was created by dump_level(31).",
            lab.path("theirs").display()
        );
        assert!(text.contains(&words), "{text}");
        lab.same_pages("again", "theirs");
    }
}
