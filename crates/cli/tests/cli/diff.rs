//! `bigiron diff`: the pages in which two dumps differ.

use std::fs;

use bigiron_format::elf::CoreHeaders;

use crate::common;
use crate::common::{Lab, PLAIN_FRAME, arg, run};

#[test]
fn dumps_of_the_same_pages_in_two_formats_are_equal() {
    let lab = Lab::new();
    let kdump = lab.dump("kdump", &["-d", "0"]);
    let outcome = run(&["diff", arg(lab.vmcore()), arg(&kdump)]).code(0);
    assert!(outcome.text().contains("pages are equal"));
    let json = run(&["diff", "--json", arg(lab.vmcore()), arg(&kdump)])
        .code(0)
        .text();
    assert!(json.contains("\"is_equal\": true"), "{json}");
}

#[test]
fn every_different_page_is_listed() {
    let lab = Lab::new();
    let kdump = lab.dump("kdump", &["-d", "0"]);
    let mut bytes = fs::read(lab.vmcore()).unwrap();
    let segments = CoreHeaders::read(bytes.as_slice()).unwrap().segments;
    let place = segments.iter().find_map(|segment| {
        let inside = (PLAIN_FRAME << 12).checked_sub(segment.physical.0)?;
        (inside < segment.file_size).then_some(segment.file_offset + inside)
    });
    bytes[place.unwrap() as usize + 100] ^= 1;
    let other = lab.file("other", &bytes);
    let listed = run(&["diff", "--list", arg(&kdump), arg(&other)])
        .code(1)
        .text();
    assert_eq!(listed.trim(), format!("different {PLAIN_FRAME:#x} 1"));
    let said = run(&["diff", arg(&kdump), arg(&other)]).code(1).text();
    assert!(
        said.contains(&format!(
            "1 differ, the first at page frame {PLAIN_FRAME:#x}"
        )),
        "{said}"
    );
}

#[test]
fn pages_excluded_from_one_dump_are_reported_as_only_in_the_other() {
    let lab = Lab::new();
    let all = lab.dump("all", &["-d", "0"]);
    let some = lab.dump("some", &["-d", "31"]);
    let listed = run(&["diff", "--list", arg(&some), arg(&all)])
        .code(1)
        .text();
    let left_out: usize = listed
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words[0], "only-second");
            words[2].parse::<usize>().unwrap()
        })
        .sum();
    let count = |path| common::present(path).iter().filter(|bit| **bit).count();
    assert_eq!(left_out, count(&all) - count(&some));
}

#[test]
fn dumps_that_cannot_be_compared_have_their_own_exit_status() {
    let lab = Lab::new();
    run(&["diff", arg(lab.vmcore()), "/nowhere"])
        .code(2)
        .says(&["/nowhere"]);
    let garbage = lab.file("garbage", &[7; 5000]);
    run(&["diff", arg(&garbage), arg(lab.vmcore())])
        .code(2)
        .says(&["garbage"]);
}
