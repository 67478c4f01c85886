//! Encrypted dumps on raw dump devices: read and saved with the key, saved unchanged
//! without it.

use std::fs;
use std::path::{Path, PathBuf};

use bigiron_format::device::{BLOCK_SIZE, CONTENTS_OFFSET, ContentsKind, DeviceHeader};
use bigiron_format::device::{BlockPosition as Block, end_block_offset};

use crate::common::age::{decrypted, keys};
use crate::common::{arg, command, run, wait_while_running};
use crate::save::{SaveLab, complete_and_equal};

/// Creates a device with a dump encrypted for a new key, and returns the key's file.
fn encrypted(options: &[&str]) -> Option<(SaveLab, PathBuf)> {
    let place = SaveLab::new();
    let (public, key) = keys(&place.lab, "key")?;
    place
        .dump(&[options, &["--encrypt", &public]].concat())
        .code(0);
    Some((place, key))
}

/// Returns the decrypted contents.
fn plain(place: &SaveLab, contents: &[u8], key: &Path) -> Vec<u8> {
    let file = place.lab.file("contents.age", contents);
    decrypted(&file, key)
}

#[test]
fn every_command_needs_the_key_to_read_the_device() {
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
        complete_and_equal(&again, place.lab.vmcore());
        // No memory contents are visible on the disk.
        let bytes = fs::read(&place.device).unwrap();
        let text = b"6.12.0-synth";
        let seen = bytes.windows(text.len()).filter(|window| window == text);
        // The two blocks name the kernel.
        assert_eq!(seen.count(), 2);
    }
}

#[test]
fn device_is_saved_unchanged_without_the_key_and_decrypted_with_it() {
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

    // It counts as another dump; --again ignores that the mark is cleared.
    let key = arg(&key);
    assert_eq!(place.saved(&["--identity", key])["found"], false);
    let saved = place.saved(&["--again", "--identity", key]);
    assert_eq!(
        (&saved["encrypted"], &saved["complete"]),
        (&false.into(), &true.into())
    );
    let inside = plain(&place, &contents, Path::new(key));
    assert!(fs::read(place.file("vmdump.1")).unwrap() == inside);
    complete_and_equal(&place.file("vmdump.1"), place.lab.vmcore());
    assert!(place.file("dmesg.1").exists());

    place.save(&["-f", "--again", "--identity", key]).code(0);
    let dump = place.lab.file("plain", &inside);
    let expanded = place.lab.path("expanded/");
    run(&["save", "-f", arg(&dump), arg(&expanded)]).code(0);
    let core = fs::read(expanded.join("vmcore.0")).unwrap();
    assert!(fs::read(place.file("vmcore.2")).unwrap() == core);
}

#[test]
fn wrong_key_saves_nothing_and_keeps_the_mark() {
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
fn recorded_length_is_saved_after_the_writer_was_interrupted() {
    let Some((place, key)) = encrypted(&["-f", "vmdump", "-d", "0"]) else {
        return;
    };
    let (contents, header) = (place.contents(), place.found().unwrap().header);
    let inside = plain(&place, &contents, &key);
    let written = fs::read(&place.device).unwrap();
    for noted in [contents.len() / 3, contents.len() * 3 / 4, 0] {
        // The rest of an older dump follows the recorded length.
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
fn small_device_keeps_the_pages_that_fit_and_records_their_length() {
    let place = SaveLab::new();
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
fn recorded_length_is_saved_after_the_writer_was_killed() {
    let place = SaveLab::new();
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
