//! Encrypted dumps on raw dump devices: read and saved with the key, kept as they are
//! without it.

use std::fs;
use std::path::{Path, PathBuf};

use bigiron_format::device::{BLOCK_SIZE, CONTENTS_OFFSET, ContentsKind, DeviceHeader};
use bigiron_format::device::{Place as Block, end_block_offset};

use crate::common::age::{decrypted, keys};
use crate::common::{arg, command, run, wait_while_running};
use crate::save::{Place, whole_and_right};

/// A device with a dump that is encrypted for the key in the file.
fn encrypted(options: &[&str]) -> Option<(Place, PathBuf)> {
    let place = Place::new();
    let (public, key) = keys(&place.lab, "key")?;
    place
        .dump(&[options, &["--encrypt", &public]].concat())
        .code(0);
    Some((place, key))
}

/// What is in the encrypted contents.
fn plain(place: &Place, contents: &[u8], key: &Path) -> Vec<u8> {
    let file = place.lab.file("contents.age", contents);
    decrypted(&file, key)
}

#[test]
fn every_command_reads_the_device_with_the_key_and_none_without() {
    for options in [
        &["-f", "vmdump", "-d", "0"][..],
        &["-f", "kdump", "-d", "31"],
        &["-f", "elf", "-d", "1"],
    ] {
        let Some((place, key)) = encrypted(options) else {
            return;
        };
        let header = place.found().unwrap().header;
        assert!(header.valid && header.complete);
        assert_eq!(header.contents, ContentsKind::Encrypted);
        assert!(place.contents().starts_with(b"age-encryption.org/v1\n"));
        let (device, key) = (arg(&place.device), arg(&key));
        run(&["verify", device])
            .code(1)
            .says(&["is encrypted", "--identity"]);
        let with = ["--identity", key];
        let vmcore = arg(place.lab.vmcore());
        run(&[&["verify", device, "--against", vmcore], &with[..]].concat()).code(0);
        let log = run(&[&["dmesg", device], &with[..]].concat())
            .code(0)
            .stdout;
        assert!(log == run(&["dmesg", vmcore]).code(0).stdout);
        let again = place.lab.path("again");
        let line = ["dump", "-q", device, arg(&again)];
        run(&[&line[..], &with[..]].concat()).code(0);
        whole_and_right(&again, place.lab.vmcore());
        // Nothing of the memory is to be seen on the disk.
        let bytes = fs::read(&place.device).unwrap();
        let text = b"6.12.0-synth";
        let seen = bytes.windows(text.len()).filter(|window| window == text);
        // The two blocks name the kernel.
        assert_eq!(seen.count(), 2);
    }
}

#[test]
fn without_the_key_it_is_saved_as_it_is_and_with_it_what_is_in_it() {
    let Some((place, key)) = encrypted(&["-f", "vmdump", "-d", "31"]) else {
        return;
    };
    let contents = place.contents();
    place
        .save(&["-f"])
        .code(1)
        .says(&["is encrypted", "--identity FILE"]);
    assert!(place.is_valid());

    let kept = place.saved(&[]);
    assert_eq!(
        (&kept["encrypted"], &kept["number"]),
        (&true.into(), &0.into())
    );
    assert!(!place.is_valid());
    assert_eq!(place.names(), ["info.0", "vmdump.0"]);
    assert!(fs::read(place.file("vmdump.0")).unwrap() == contents);
    let info = fs::read_to_string(place.file("info.0")).unwrap();
    for line in ["\nencrypted: age", "\nkernel: 6.12.0-synth\n"] {
        assert!(info.contains(line), "{info}");
    }

    // It is another dump, and --again disregards that the mark is cleared.
    let key = arg(&key);
    assert_eq!(place.saved(&["--identity", key])["found"], false);
    let saved = place.saved(&["--again", "--identity", key]);
    assert_eq!(
        (&saved["encrypted"], &saved["complete"]),
        (&false.into(), &true.into())
    );
    let inside = plain(&place, &contents, Path::new(key));
    assert!(fs::read(place.file("vmdump.1")).unwrap() == inside);
    whole_and_right(&place.file("vmdump.1"), place.lab.vmcore());
    assert!(place.file("dmesg.1").exists());

    place.save(&["-f", "--again", "--identity", key]).code(0);
    let dump = place.lab.file("plain", &inside);
    let expanded = place.lab.path("expanded/");
    run(&["save", "-f", arg(&dump), arg(&expanded)]).code(0);
    let core = fs::read(expanded.join("vmcore.0")).unwrap();
    assert!(fs::read(place.file("vmcore.2")).unwrap() == core);
}

#[test]
fn the_wrong_key_saves_nothing_and_leaves_the_mark() {
    let Some((place, _)) = encrypted(&["-f", "vmdump", "-d", "31"]) else {
        return;
    };
    let Some((_, other)) = keys(&place.lab, "other") else {
        return;
    };
    let other = ["--identity", arg(&other)];
    place.save(&other).code(1).says(&["device", "for others"]);
    assert_eq!(place.names(), [""; 0]);
    assert!(place.is_valid());
}

#[test]
fn of_one_whose_writer_was_stopped_what_the_device_notes_is_saved() {
    let Some((place, key)) = encrypted(&["-f", "vmdump", "-d", "0"]) else {
        return;
    };
    let (contents, header) = (place.contents(), place.found().unwrap().header);
    let inside = plain(&place, &contents, &key);
    let written = fs::read(&place.device).unwrap();
    for noted in [contents.len() / 3, contents.len() * 3 / 4, 0] {
        // Behind what was noted is the rest of an older dump.
        let mut bytes = written.clone();
        let at = CONTENTS_OFFSET as usize + noted.max(BLOCK_SIZE);
        bytes[at..].reverse();
        let header = DeviceHeader {
            complete: false,
            length: noted as u64,
            ended: 0,
            ..header.clone()
        };
        bytes[..BLOCK_SIZE].copy_from_slice(&header.encode(Block::Start));
        let end = end_block_offset(bytes.len() as u64) as usize;
        bytes[end..end + BLOCK_SIZE].copy_from_slice(&header.encode(Block::End));
        fs::write(&place.device, &bytes).unwrap();
        place.empty_directory();
        if noted == 0 {
            assert!(place.save(&[]).code(0).text().contains("nothing to save"));
            assert_eq!(place.names(), [""; 0]);
            continue;
        }
        let kept = place.saved(&[]);
        assert_eq!(
            (&kept["encrypted"], &kept["complete"]),
            (&true.into(), &false.into())
        );
        assert!(fs::read(place.file("vmdump.0")).unwrap() == contents[..noted]);
        let info = fs::read_to_string(place.file("info.0")).unwrap();
        assert!(info.contains("\nincomplete: the machine stopped"), "{info}");

        let vmcore = arg(place.lab.vmcore());
        let device = ["verify", arg(&place.device), "--identity", arg(&key)];
        run(&[&device[..], &["--against", vmcore]].concat())
            .code(1)
            .says(&["incomplete but usable"]);
        let saved = place.saved(&["--again", "--identity", arg(&key)]);
        assert_eq!(saved["complete"], false);
        let part = fs::read(place.file("vmdump.1")).unwrap();
        assert!(part.len() > noted - (1 << 17) && inside.starts_with(&part));
    }
}

#[test]
fn a_device_that_is_too_small_keeps_what_it_has_room_for_and_notes_it() {
    let place = Place::new();
    let Some((public, key)) = keys(&place.lab, "key") else {
        return;
    };
    place.patch(|bytes| bytes.truncate(16 << 20));
    let line = ["-f", "elf", "-d", "0", "--encrypt", &public];
    place
        .dump(&line)
        .code(1)
        .says(&["No space left", "can be read"]);
    let header = place.found().unwrap().header;
    assert!(header.valid && !header.complete);
    assert!(header.length > 15 << 20, "{}", header.length);
    let vmcore = arg(place.lab.vmcore());
    let verify = ["verify", arg(&place.device), "--identity", arg(&key)];
    run(&[&verify[..], &["--against", vmcore]].concat())
        .code(1)
        .says(&["incomplete but usable"]);
    assert_eq!(place.saved(&[])["bytes"], header.length);
}

#[test]
fn a_writer_that_is_killed_leaves_what_the_device_noted_of_it() {
    let place = Place::new();
    let Some((public, key)) = keys(&place.lab, "key") else {
        return;
    };
    let vmcore = arg(place.lab.vmcore());
    let line = [
        "dump",
        "-q",
        "-f",
        "vmdump",
        "-d",
        "0",
        "--write-limit",
        "1M",
    ];
    let rest = ["--device", "--encrypt", &public, vmcore, arg(&place.device)];
    let mut dump = command(&[&line[..], &rest].concat()).spawn().unwrap();
    let noted = || place.found().map_or(0, |found| found.header.length);
    assert!(wait_while_running(&mut dump, || noted() > 0));
    dump.kill().unwrap();
    dump.wait().unwrap();
    let header = place.found().unwrap().header;
    assert!(header.valid && !header.complete && header.length > 0);
    let kept = place.saved(&[]);
    assert_eq!(kept["bytes"], header.length);
    let saved = place.file("vmdump.0");
    let verify = ["verify", arg(&saved), "--identity", arg(&key)];
    run(&[&verify[..], &["--against", vmcore]].concat())
        .code(1)
        .says(&["incomplete but usable"]);
}
