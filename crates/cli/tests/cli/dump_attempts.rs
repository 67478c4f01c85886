//! Dumps that do not fit: the next level, the next output; and memory that forgets.

use std::fs;

use crate::common::{arg, run};
use crate::save::{DEVICE_SIZE, SaveLab, complete_and_equal};

/// A device with room for an uncompressed dump at level 31, but not at level 1.
fn small_device() -> SaveLab {
    let place = SaveLab::new();
    let size = |level| {
        let plain = place.lab.dump(level, &["-c", "none", "-d", level]);
        fs::metadata(plain).unwrap().len() as usize
    };
    let room = (size("31") + (256 << 10)).next_multiple_of(4096);
    assert!(room < size("1"));
    place.patch(|bytes| bytes.truncate(room));
    place
}

#[test]
fn next_level_is_tried_and_nothing_of_the_first_stays() {
    let place = small_device();
    let levels = ["-c", "none", "-d", "0,31"];
    place
        .dump(&levels)
        .code(0)
        .says(&["No space left", "trying -d 31"]);
    let header = place.found().unwrap().header;
    assert!(header.valid && header.complete);
    let plain = place.lab.dump("plain", &["-c", "none", "-d", "31"]);
    complete_and_equal(&place.device, &plain);
    let report = run(&["info", "--json", arg(&place.device)]).code(0);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["dump"]["dump_level"], 31, "{report}");
}

#[test]
fn level_list_takes_only_levels() {
    let place = SaveLab::new();
    for wrong in ["32", "1,32", "1,", "-1"] {
        place.dump(&[&format!("-d={wrong}")]).code(2);
    }
    // The first level that fits ends the list.
    assert_eq!(place.dump(&["-d", "1,31"]).code(0).stderr, "");
    assert!(place.is_valid());
}

#[test]
fn second_output_takes_what_the_first_has_no_room_for() {
    let place = small_device();
    let then = place.lab.path("then");
    let options = ["-c", "none", "-d", "0,1", "--then", arg(&then)];
    let outcome = place.dump(&options).code(0);
    outcome.says(&["trying -d 1", "trying", "then"]);
    complete_and_equal(&then, place.lab.vmcore());
    assert!(!place.is_valid(), "the attempts left a dump to be saved");
    assert_eq!(place.save(&[]).code(0).stderr, "");
    assert!(place.names().is_empty());
}

#[test]
fn second_output_takes_a_dump_whose_device_holds_an_unsaved_one() {
    let place = SaveLab::with_dump(&[]);
    let before = fs::read(&place.device).unwrap();
    let then = place.lab.path("then");
    place
        .dump(&["--then", arg(&then)])
        .code(0)
        .says(&["never saved", "trying"]);
    assert_eq!(fs::read(&place.device).unwrap(), before);
    complete_and_equal(&then, place.lab.vmcore());
    // Without room in the second either, the reason is that of the last attempt.
    place
        .dump(&["--then", "/dev/full-of-nothing"])
        .code(1)
        .says(&["/dev/full-of-nothing", "No such file"]);
}

#[test]
fn missing_device_is_no_file_to_create() {
    let lab = SaveLab::new();
    let (vmcore, then) = (arg(lab.lab.vmcore()), lab.lab.path("then"));
    let missing = "/dev/pmem-that-is-not-there";
    run(&["dump", "--quiet", vmcore, missing])
        .code(1)
        .says(&[missing, "No such file"]);
    run(&["dump", "--quiet", vmcore, missing, "--then", arg(&then)])
        .code(0)
        .says(&["trying"]);
    complete_and_equal(&then, lab.lab.vmcore());
}

#[test]
fn flipped_bits_of_a_vmdump_in_memory_are_found_and_never_saved_as_sound() {
    let place = SaveLab::with_dump(&["-f", "vmdump"]);
    let length = place.contents().len();
    for at in (1..16).map(|part| (64 << 10) + part * (length - (64 << 10)) / 16) {
        let place = SaveLab::with_dump(&["-f", "vmdump"]);
        place.patch(|bytes| bytes[(64 << 10) + at % length] ^= 1 << (at % 8));
        run(&["verify", arg(&place.device)]).code(1);
    }
}

#[test]
fn memory_that_was_cleared_has_no_dump_and_half_of_it_no_whole_one() {
    let place = SaveLab::with_dump(&["-f", "vmdump"]);
    place.patch(|bytes| bytes[..DEVICE_SIZE / 2].fill(0));
    let report = place.saved(&[]);
    assert_eq!(report["complete"], false, "{report}");
    let place = SaveLab::with_dump(&["-f", "vmdump"]);
    place.patch(|bytes| bytes.fill(0));
    // A disk without a dump has nothing to save; a file is taken for a dump by itself.
    place.save(&[]).code(1).says(&["signature at offset 0x0"]);
    assert!(place.names().is_empty());
}

#[test]
fn production_kernel_is_started_from_a_capture_kernel_only() {
    let lab = SaveLab::new();
    let then = lab.lab.path("then");
    run(&[
        "dump",
        "--quiet",
        "--then-boot",
        "auto",
        arg(lab.lab.vmcore()),
        arg(&then),
    ])
    .code(0)
    .says(&["not started directly", "no capture kernel"]);
    complete_and_equal(&then, lab.lab.vmcore());
}
