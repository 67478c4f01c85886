//! Split dumps under the name makedumpfile, reassembled by both programs.

use std::fs;

use bigiron_format::kdump::KdumpHeaders;
use bigiron_kernel::Source;

use crate::peer::{Lab, compared, installed};

/// Reads the headers of the parts.
fn headers(lab: &Lab, parts: &[&str]) -> Vec<KdumpHeaders> {
    let read = |part: &&str| KdumpHeaders::read(&fs::read(lab.path(part)).unwrap()).unwrap();
    parts.iter().map(read).collect()
}

#[test]
fn parts_cover_all_page_frames_and_have_similar_sizes() {
    let lab = Lab::new();
    lab.ours("-d31 @vmcore @whole").code(0);
    let text = lab.ours("--split -d31 @vmcore @a @b @c").code(0).text();
    assert!(text.contains("The dumpfiles are saved to "), "{text}");
    assert!(text.contains(", and "), "{text}");
    let parts = headers(&lab, &["a", "b", "c"]);
    let mut covered = 0;
    for part in &parts {
        let (start, end) = part.split.unwrap();
        assert_eq!(start, covered);
        assert!(!part.incomplete);
        assert_eq!(
            part.timestamp, parts[0].timestamp,
            "makedumpfile compares it"
        );
        covered = end;
    }
    assert_eq!(covered, parts[0].end_frame);
    let whole = fs::metadata(lab.path("whole")).unwrap().len();
    for part in ["a", "b", "c"] {
        let size = fs::metadata(lab.path(part)).unwrap().len();
        assert!(size < whole * 6 / 10, "{part} has {size} of {whole} bytes");
    }
    let paths: Vec<_> = ["c", "a", "b"].iter().map(|part| lab.path(part)).collect();
    assert_eq!(Source::open(&paths).unwrap().damage(), None);
}

#[test]
fn both_programs_reassemble_what_either_has_split() {
    let lab = Lab::new();
    for options in [
        "-d31",
        "-c -d31",
        "-l -d 1",
        "-d0",
        "-c -d31 --splitblock-size 8192",
    ] {
        let single = options.split(" --splitblock").next().unwrap();
        lab.ours(&format!("-f {single} @vmcore @whole")).code(0);
        lab.ours(&format!("-f --split {options} @vmcore @a @b @c"))
            .code(0);
        lab.ours("-f --reassemble @a @b @c @ours").code(0);
        lab.same_pages("ours", "whole");
        let codecs = |name| headers(&lab, &[name])[0].codec_flags;
        assert_eq!(codecs("ours"), codecs("whole"), "{options}");
        assert_eq!(headers(&lab, &["ours"])[0].split, None);
        if !installed() {
            continue;
        }
        lab.theirs("-f --reassemble @a @b @c @theirs").code(0);
        lab.same_pages("theirs", "whole");
        lab.theirs(&format!("-f --split {options} @vmcore @d @e"))
            .code(0);
        lab.ours("-f --reassemble @e @d @ours").code(0);
        lab.same_pages("ours", "whole");
        assert_eq!(codecs("ours"), codecs("d"), "{options}");
    }
}

#[test]
fn part_that_is_missing_or_of_another_dump_is_rejected() {
    let lab = Lab::new();
    lab.ours("--split -d31 @vmcore @a @b @c").code(0);
    for (parts, why) in [
        ("@a @c", "There is not dumpfile corresponding to pfn 0x"),
        ("@a @b", "There is not dumpfile corresponding to pfn 0x"),
        ("@vmcore", "the signature"),
        ("@a @b @nothing", "Can't open a file("),
    ] {
        lab.ours(&format!("--reassemble {parts} @out"))
            .code(1)
            .says(&[why]);
        assert!(!lab.path("out").exists());
    }
    lab.ours("-d31 @vmcore @whole").code(0);
    lab.ours("--reassemble @whole @out")
        .code(1)
        .says(&["There is not dumpfile"]);
}

#[test]
fn more_parts_than_threads_lose_no_page() {
    let lab = Lab::new();
    lab.ours("-d31 @vmcore @whole").code(0);
    let parts: Vec<_> = (0..9).map(|part| format!("@part{part}")).collect();
    let parts = parts.join(" ");
    lab.ours(&format!("--split -cd31 @vmcore {parts}")).code(0);
    lab.ours(&format!("--reassemble {parts} @out")).code(0);
    assert!(compared(&lab.path("out"), &lab.path("whole")).is_equal());
}

#[test]
fn split_dump_that_does_not_fit_leaves_incomplete_parts_and_tries_the_next_level() {
    let lab = Lab::new();
    lab.ours("-d31 @vmcore @whole").code(0);
    let limit = fs::metadata(lab.path("whole")).unwrap().len();
    let outcome = lab.ours(&format!("--split -L {} -d0 @vmcore @a @b", limit / 2));
    outcome.code(1).says(&["incomplete"]);
    for part in ["a", "b"] {
        assert!(!lab.path(part).exists());
        let left = lab.path(&format!("{part}.incomplete"));
        assert!(
            KdumpHeaders::read(&fs::read(&left).unwrap())
                .unwrap()
                .incomplete
        );
        fs::remove_file(left).unwrap();
    }
    // All levels fit then.
    let outcome = lab
        .ours(&format!("--split -L {limit} -d 0,31 @vmcore @a @b"))
        .code(0);
    let text = outcome.text();
    assert!(
        text.contains("Retry to create a dumpfile by dump_level(31)"),
        "{text}"
    );
    for part in ["a", "b"] {
        assert!(!lab.path(&format!("{part}.incomplete")).exists());
    }
    lab.ours("--reassemble @a @b @out").code(0);
    lab.same_pages("out", "whole");
}
