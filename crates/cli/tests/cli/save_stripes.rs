//! Saving striped dumps: from files, from devices, and encrypted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bigiron_format::device::{self, BlockPosition, CONTENTS_OFFSET};
use serde_json::Value;

use crate::common;
use crate::common::age::keys;
use crate::common::{Lab, arg, run};
use crate::save::lab;
use crate::stripe::{list, refs, run_with, save_json, striped};

#[test]
fn saved_striped_dump_is_one_dump_that_zstd_unpacks_to_the_same_core() {
    let lab = lab();
    let parts = striped(&lab, 2, &["-d", "31"]);
    let whole = lab.dump("whole", &["-f", "vmdump", "-d", "31"]);
    let directory = lab.path("saved");
    fs::create_dir(&directory).unwrap();
    let saved = save_json(&[], &[&parts[1], &parts[0]], &directory);
    assert_eq!(
        (&saved["complete"], &saved["before"]),
        (&true.into(), &false.into())
    );
    let one = directory.join("vmdump.0");
    run(&["verify", arg(&one), "--against", arg(lab.vmcore())]).code(0);
    run(&["diff", arg(&one), arg(&whole)]).code(0);
    let core = |dump: &Path| {
        let output = Command::new("zstd").args(["-d", "-c"]).arg(dump).output();
        output.ok().map(|output| output.stdout)
    };
    match (core(&one), core(&whole)) {
        (Some(ours), Some(right)) => assert!(ours == right && !ours.is_empty()),
        _ => println!("skipped: zstd is not installed"),
    }
    assert!(directory.join("dmesg.0").exists());
    // The same parts in another order are recognised.
    let again = save_json(&[], &[&parts[0], &parts[1]], &directory);
    assert_eq!(again["before"], true);
    let expanded = save_json(&["-f"], &[&parts[0], &parts[1]], &directory);
    let of_one = save_json(&["-f"], &[&one], &directory);
    let bytes = |saved: &Value| fs::read(saved["file"].as_str().unwrap()).unwrap();
    assert!(bytes(&expanded) == bytes(&of_one));
}

/// Creates two devices with a striped dump, and a directory.
struct Devices {
    lab: Lab,
    devices: [PathBuf; 2],
    directory: PathBuf,
}

impl Devices {
    fn new() -> Self {
        let lab = lab();
        let old: Vec<u8> = (0..8_u32 << 20)
            .flat_map(|n| (n | 1).to_le_bytes())
            .collect();
        let devices = ["dev0", "dev1"].map(|name| lab.file(name, &old[..24 << 20]));
        let directory = lab.path("saved");
        fs::create_dir(&directory).unwrap();
        let list = list(&refs(&devices));
        let line = ["dump", "-q", "-d", "1", "--device", "--stripe", &list];
        run_with(&line, &[lab.vmcore()], &[]).code(0);
        Self {
            lab,
            devices,
            directory,
        }
    }

    fn is_valid(&self) -> [bool; 2] {
        self.devices.each_ref().map(|device| {
            let found = device::find(&fs::read(device).unwrap()).unwrap();
            found.unwrap().header.valid
        })
    }
}

#[test]
fn marks_of_devices_are_cleared_only_after_all_parts_are_saved() {
    let place = Devices::new();
    let [a, b] = place.devices.each_ref().map(PathBuf::as_path);
    let marked = [fs::read(a).unwrap(), fs::read(b).unwrap()];
    let against = ["verify", "--against", arg(place.lab.vmcore())];
    run_with(&against, &[b, a], &[]).code(0);
    // A single part is saved as incomplete, and keeps its mark.
    let half = save_json(&[], &[b], &place.directory);
    assert_eq!(
        (&half["complete"], &half["mark_cleared"]),
        (&false.into(), &false.into())
    );
    assert!(
        half["damage"]
            .as_str()
            .unwrap()
            .contains("part 1 of 2 is missing")
    );
    assert_eq!(place.is_valid(), [true, true]);
    let all = save_json(&[], &[b, a], &place.directory);
    assert_eq!(
        (&all["complete"], &all["mark_cleared"]),
        (&true.into(), &true.into())
    );
    assert_eq!(place.is_valid(), [false, false]);
    let one = place.directory.join("vmdump.1");
    run(&["verify", arg(&one), "--against", arg(place.lab.vmcore())]).code(0);
    assert_eq!(save_json(&[], &[a, b], &place.directory)["found"], false);
    // The next run completes one that was killed between clearing the two marks.
    fs::write(b, &marked[1]).unwrap();
    let again = save_json(&[], &[a, b], &place.directory);
    assert_eq!(
        (&again["before"], &again["mark_cleared"]),
        (&true.into(), &true.into())
    );
    assert_eq!(place.is_valid(), [false, false]);
    assert!(!place.directory.join("vmdump.2").exists());
}

#[test]
fn device_without_data_is_not_required_for_saving() {
    let place = Devices::new();
    let [a, b] = place.devices.each_ref().map(PathBuf::as_path);
    let mut bytes = fs::read(b).unwrap();
    let mut header = device::find(&bytes).unwrap().unwrap().header;
    (header.complete, header.length) = (false, 0);
    header.generation += 1;
    let end = device::end_block_offset(bytes.len() as u64) as usize;
    bytes[CONTENTS_OFFSET as usize..end].fill(0);
    for (place, at) in [(BlockPosition::Start, 0), (BlockPosition::End, end)] {
        let block = header.encode(place);
        bytes[at..at + block.len()].copy_from_slice(&block);
    }
    fs::write(b, bytes).unwrap();
    let saved = save_json(&[], &[a, b], &place.directory);
    assert_eq!(
        (&saved["complete"], &saved["mark_cleared"]),
        (&false.into(), &true.into())
    );
    assert_eq!(place.is_valid(), [false, false]);
    let one = place.directory.join("vmdump.0");
    common::incomplete_but_equal(&one, place.lab.vmcore());
}

#[test]
fn each_part_is_encrypted_separately() {
    let lab = lab();
    let Some((public, secret)) = keys(&lab, "key") else {
        return;
    };
    let parts = striped(&lab, 2, &["--encrypt", &public, "-d", "1"]);
    let identity = ["--identity", arg(&secret)];
    let parts = refs(&parts);
    run_with(&["verify"], &parts, &[])
        .code(1)
        .says(&["is encrypted"]);
    let line = ["verify", "--against", arg(lab.vmcore())];
    run_with(&[&line[..], &identity].concat(), &parts, &[]).code(0);
    let directory = lab.path("saved/");
    run_with(&["save"], &parts, &[&directory])
        .code(1)
        .says(&["is encrypted", "--identity"]);
    save_json(&identity, &parts, &directory);
    let one = directory.join("vmdump.0");
    run(&["verify", arg(&one), "--against", arg(lab.vmcore())]).code(0);
    // The same on devices.
    let devices = ["d0", "d1"].map(|name| lab.file(name, &[1; 24 << 20]));
    let devices = refs(&devices);
    let list = list(&devices);
    let line = ["dump", "-q", "--device", "--encrypt", &public];
    run_with(
        &[&line[..], &["-d1", "--stripe", &list]].concat(),
        &[lab.vmcore()],
        &[],
    )
    .code(0);
    let line = ["verify", "--against", arg(lab.vmcore())];
    run_with(&[&line[..], &identity].concat(), &devices, &[]).code(0);
    let saved = save_json(&identity, &devices, &directory);
    assert_eq!(
        (&saved["complete"], &saved["mark_cleared"]),
        (&true.into(), &true.into())
    );
    let one = directory.join("vmdump.1");
    run(&["verify", arg(&one), "--against", arg(lab.vmcore())]).code(0);
}
