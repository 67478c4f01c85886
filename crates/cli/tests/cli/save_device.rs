//! Raw dump devices: writing, reading, rejecting and damaging them.

use std::fs;
use std::path::Path;
use std::process::Command;

use bigiron_format::device::{
    self, BLOCK_SIZE, BlockPosition as Block, CONTENTS_OFFSET, DeviceHeader,
};
use bigiron_kernel::Source;

use crate::common;
use crate::common::{arg, incomplete_but_equal, run};
use crate::save::{DEVICE_SIZE, SaveLab, complete_and_equal};

#[test]
fn device_holds_the_same_dump_as_a_file_and_is_read_like_one() {
    // With two helpers an equal page may be stored twice.
    for options in [
        &["-f", "kdump"][..],
        &["-d", "0", "-c", "none"],
        &["-f", "elf", "-d", "1"],
    ] {
        let options = &[&["-j", "1", "--without", "direct-writes"], options].concat();
        let place = SaveLab::with_dump(options);
        let header = place.found().unwrap().header;
        assert!(header.valid && header.complete);
        assert_eq!(header.utsname.release(), "6.12.0-synth");
        let plain = place.lab.dump("plain", options);
        assert_eq!(
            place.contents().len() as u64,
            fs::metadata(&plain).unwrap().len()
        );
        complete_and_equal(&place.device, &plain);
        complete_and_equal(&plain, &place.device);
        run(&["dmesg", arg(&place.device)]).code(0);
        let again = place.lab.path("again");
        run(&["dump", arg(&place.device), arg(&again)]).code(0);
        complete_and_equal(&again, place.lab.vmcore());
    }
}

#[test]
fn previous_contents_of_the_device_never_appear_in_the_dump() {
    // An older dump, whose pages and descriptors are where others are now.
    let place = SaveLab::with_dump(&["-d", "0", "-c", "none"]);
    for options in [
        &["-d", "31"][..],
        &["-d", "1", "-c", "none"],
        &["-f", "elf", "-d", "31"],
    ] {
        let newest = [&["--keep", "newest"], options].concat();
        place.dump(&newest).code(0);
        let plain = place.lab.dump("plain", options);
        complete_and_equal(&place.device, place.lab.vmcore());
        assert_eq!(common::present(&place.device), common::present(&plain));
    }
}

#[test]
fn unsaved_dump_is_kept_unless_the_newest_is_wanted() {
    let place = SaveLab::with_dump(&[]);
    let id = place.found().unwrap().header.id.to_string();
    let before = fs::read(&place.device).unwrap();
    place
        .dump(&[])
        .code(3)
        .says(&["never saved", &id, "--keep newest"]);
    assert_eq!(fs::read(&place.device).unwrap(), before);
    let generation = place.found().unwrap().header.generation;
    let newest = ["--keep", "newest"];
    place.dump(&newest).code(0).says(&["never saved", &id]);
    let header = place.found().unwrap().header;
    assert_ne!(header.id.to_string(), id);
    assert!(header.generation > generation);
    place.save(&[]).code(0);
    assert_eq!(place.dump(&[]).code(0).stderr, "");
}

#[test]
fn new_dump_follows_an_unsaved_one_if_both_are_wanted() {
    let place = SaveLab::with_dump(&["-f", "vmdump"]);
    let first = place.contents();
    let both = ["--keep", "both", "-j", "1", "-f"];
    for (format, level) in [("vmdump", "31"), ("kdump", "1"), ("elf", "31")] {
        place
            .dump(&[&both[..], &[format, "-d", level]].concat())
            .code(0);
    }
    // The first is as it was, and is the one that is read.
    assert!(place.contents() == first);
    let next = place
        .lab
        .dump("plain", &["-f", "kdump", "-d", "1", "-j", "1"]);
    let text = place.save(&[]).code(0).text();
    assert_eq!(text.matches("marked as saved").count(), 4, "{text}");
    for name in ["vmdump.0", "vmdump.1", "vmdump.2", "vmcore.3"] {
        complete_and_equal(&place.file(name), place.lab.vmcore());
    }
    complete_and_equal(&place.file("vmdump.2"), &next);
    assert!(place.save(&[]).code(0).text().contains("no unsaved dump"));
    // The next one begins at the start.
    place.dump(&[&both[..], &["kdump"]].concat()).code(0);
    assert_eq!(place.found().unwrap().header.next, 0);
    assert_eq!(place.saved(&[])["number"], 4);
}

#[test]
fn dump_that_follows_another_is_expanded_and_has_its_log_and_report() {
    let place = SaveLab::with_dump(&["-f", "kdump", "-d", "31"]);
    place
        .dump(&["--keep", "both", "-f", "vmdump", "-d", "1"])
        .code(0);
    place.save(&["-f"]).code(0);
    for number in 0..2 {
        complete_and_equal(&place.file(&format!("vmcore.{number}")), place.lab.vmcore());
        let log = run(&["dmesg", arg(place.lab.vmcore())]).code(0).stdout;
        assert!(fs::read(place.file(&format!("dmesg.{number}"))).unwrap() == log);
    }
}

#[test]
fn unsaved_dump_is_kept_alone_if_nothing_fits_behind_it() {
    let place = SaveLab::with_dump(&["-f", "kdump", "-d", "0", "-c", "none"]);
    let id = place.found().unwrap().header.id.to_string();
    let both = ["--keep", "both", "-f", "kdump", "-d", "0", "-c", "none"];
    // It is larger than the rest of the device.
    let then = place.lab.path("then");
    place
        .dump(&[&both[..], &["--then", arg(&then)]].concat())
        .code(0);
    complete_and_equal(&then, place.lab.vmcore());
    assert_eq!(place.saved(&[])["id"], id);
    assert_eq!(place.names(), ["dmesg.0", "info.0", "vmdump.0"]);
    // The end of an incomplete one is not known.
    let place = SaveLab::with_dump(&["-f", "kdump"]);
    place.patch(|bytes| {
        let mut header = device::find(bytes.as_slice()).unwrap().unwrap().header;
        (header.complete, header.length) = (false, 0);
        let end = bytes.len() - BLOCK_SIZE;
        bytes[..BLOCK_SIZE].copy_from_slice(&header.encode(Block::Start));
        bytes[end..].copy_from_slice(&header.encode(Block::End));
    });
    place
        .dump(&["--keep", "both"])
        .code(3)
        .says(&["never saved"]);
    place.dump(&["--keep", "newest"]).code(0);
}

#[test]
fn small_device_keeps_the_pages_that_fit() {
    let place = SaveLab::new();
    place.patch(|bytes| bytes.truncate(24 << 20));
    let options = ["-d", "0", "-c", "none"];
    place
        .dump(&options)
        .code(1)
        .says(&["No space left", "can be read"]);
    incomplete_but_equal(&place.device, place.lab.vmcore());
    place.patch(|bytes| bytes.truncate(1 << 16));
    place
        .dump(&options)
        .code(1)
        .says(&["needs at least 1048576"]);
    // The size of an ELF core is known in advance.
    let place = SaveLab::new();
    place.patch(|bytes| bytes.truncate(24 << 20));
    place
        .dump(&["-f", "elf", "-d", "0"])
        .code(1)
        .says(&["No space left"]);
}

#[test]
fn formats_and_files_unsuitable_for_a_device_are_rejected() {
    let place = SaveLab::with_dump(&[]);
    place
        .dump(&["-f", "flattened"])
        .code(1)
        .says(&["for pipes"]);
    let device = arg(&place.device);
    run(&["dump", "--device", device, device])
        .code(1)
        .says(&["is the source"]);
    let (vmcore, nowhere) = (arg(place.lab.vmcore()), place.lab.path("nowhere"));
    run(&["dump", "--device", vmcore, arg(&nowhere)])
        .code(1)
        .says(&["nowhere"]);
    run(&["dump", "--device", vmcore, "/dev/null"])
        .code(1)
        .says(&["neither a disk nor a file"]);
    assert!(place.is_valid());
    complete_and_equal(&place.device, place.lab.vmcore());
}

/// Creates a file system on the device with its own program; returns false if that
/// is not installed.
fn made_by(device: &Path, program: &[&str]) -> bool {
    let (name, options) = program.split_first().unwrap();
    let made = Command::new(name).args(options).arg(device).output();
    let made = made.is_ok_and(|output| output.status.success());
    if !made {
        println!("skipped: {name} is not installed");
    }
    made
}

#[test]
fn file_systems_and_swap_space_are_kept_without_overwrite_device() {
    for (program, name) in [
        (&["mkfs.ext4", "-q", "-F"][..], "ext4"),
        (&["mkfs.ext4", "-q", "-F", "-b", "1024"], "ext4"),
        (&["mkfs.xfs", "-q", "-f"], "XFS"),
        (&["mkfs.btrfs", "-q", "-f"], "Btrfs"),
        (&["mkfs.vfat"], "FAT"),
        (&["mkfs.f2fs", "-q", "-f"], "F2FS"),
        (&["mkswap"], "swap space"),
        (
            &[
                "cryptsetup",
                "-q",
                "luksFormat",
                "--key-file",
                "/dev/zero",
                "--keyfile-size",
                "8",
            ],
            "LUKS",
        ),
        (&["pvcreate", "-q"], "LVM"),
    ] {
        // mkfs leaves some of an earlier dump in place.
        let place = SaveLab::new();
        // The smallest size that holds an XFS file system.
        let size = if name == "XFS" {
            300 << 20
        } else {
            DEVICE_SIZE as u64
        };
        let file = fs::File::options().write(true).open(&place.device);
        file.unwrap().set_len(size).unwrap();
        place.dump(&[]).code(0);
        if !made_by(&place.device, program) {
            continue;
        }
        let before = fs::read(&place.device).unwrap();
        place.dump(&[]).code(1).says(&[name, "--overwrite-device"]);
        let outcome = place.save(&[]);
        assert!(
            outcome.code == Some(1) || outcome.text().contains("no dump"),
            "{outcome:?}"
        );
        assert!(
            fs::read(&place.device).unwrap() == before,
            "{name} was modified"
        );
        place.dump(&["--overwrite-device"]).code(0);
        assert!(place.is_valid());
        // No remains of it block the next dump.
        place.dump(&["--keep", "newest"]).code(0);
    }
}

#[test]
fn damaged_block_is_replaced_by_its_copy() {
    let place = SaveLab::with_dump(&[]);
    let whole = fs::read(&place.device).unwrap();
    for (block, good) in [(0, Block::End), (place.end_block(), Block::Start)] {
        for at in [0, 9, 20, 40, 64, 100, 700, 4000, BLOCK_SIZE - 1] {
            let mut bytes = whole.clone();
            bytes[block + at] ^= 0x10;
            fs::write(&place.device, &bytes).unwrap();
            assert_eq!(place.found().unwrap().good[0].0, good);
            complete_and_equal(&place.device, place.lab.vmcore());
        }
        place.empty_directory();
        let saved = place.saved(&[]);
        assert_eq!(saved["complete"], true);
        assert_eq!(fs::read(place.file("vmdump.0")).unwrap(), place.contents());
        assert!(!place.is_valid());
        assert!(place.saved(&[])["found"] == false);
    }
}

#[test]
fn two_damaged_blocks_are_an_error() {
    let place = SaveLab::with_dump(&[]);
    let end = place.end_block();
    place.patch(|bytes| {
        bytes[64] ^= 1;
        bytes[end + 64] ^= 1;
    });
    run(&["verify", arg(&place.device)])
        .code(1)
        .says(&["device", "both damaged"]);
    place.save(&[]).code(1).says(&["both damaged"]);
}

#[test]
fn truncated_device_is_saved_up_to_its_end() {
    let place = SaveLab::with_dump(&["-d", "0", "-c", "none"]);
    let length = 20 << 20;
    place.patch(|bytes| bytes.truncate(length));
    incomplete_but_equal(&place.device, place.lab.vmcore());
    let saved = place.saved(&[]);
    assert_eq!(saved["complete"], false);
    assert_eq!(saved["bytes"], length as u64 - CONTENTS_OFFSET);
    incomplete_but_equal(&place.file("vmdump.0"), place.lab.vmcore());
}

#[test]
fn corrupt_blocks_are_rejected_or_clamped_to_the_device() {
    let place = SaveLab::with_dump(&[]);
    let good = place.found().unwrap().header;
    let (size, end) = (DEVICE_SIZE as u64, place.end_block());
    for (offset, length) in [
        (0, good.length),
        (CONTENTS_OFFSET, size),
        (CONTENTS_OFFSET, u64::MAX),
        (u64::MAX, 1),
        (size, 0),
        (CONTENTS_OFFSET + 1, good.length),
        (CONTENTS_OFFSET, 1),
        (CONTENTS_OFFSET, 0),
    ] {
        for device_size in [size, u64::MAX, 0] {
            let header = DeviceHeader {
                offset,
                length,
                device_size,
                ..good.clone()
            };
            place.patch(|bytes| {
                bytes[..BLOCK_SIZE].copy_from_slice(&header.encode(Block::Start));
                bytes[end..].copy_from_slice(&header.encode(Block::End));
            });
            common::survives(&place.device);
            place.empty_directory();
            let outcome = place.save(&[]);
            assert!(matches!(outcome.code, Some(0 | 1)), "{}", outcome.stderr);
            let saved = place.file("vmdump.0");
            assert!(fs::metadata(saved).map_or(0, |file| file.len()) <= size);
        }
    }
}

#[test]
fn block_device_is_detected_and_rejected_if_in_use() {
    let place = SaveLab::new();
    let Some(disk) = Disk::of(&place.device) else {
        println!("skipped: a real disk, since no loop device is available");
        return;
    };
    let (vmcore, name) = (arg(place.lab.vmcore()), disk.name.as_str());
    run(&["dump", "-q", vmcore, name]).code(0);
    assert!(place.is_valid());
    let directory = arg(&place.directory);
    run(&["save", name, directory]).code(0).says(&[]);
    assert!(!place.is_valid());
    complete_and_equal(&place.file("vmdump.0"), place.lab.vmcore());
    // Under makedumpfile's name the dump starts at the beginning of the device, as makedumpfile's does.
    run(&["makedumpfile", "-f", "-d", "31", vmcore, name]).code(0);
    assert!(fs::read(&place.device).unwrap().starts_with(b"KDUMP"));
    complete_and_equal(Path::new(name), place.lab.vmcore());
    if made_by(Path::new(name), &["mkfs.ext4", "-q", "-F"]) {
        let at = place.lab.path("mounted");
        fs::create_dir(&at).unwrap();
        let mount = Command::new("mount").args([name, arg(&at)]).status();
        if mount.is_ok_and(|status| status.success()) {
            for command in ["dump", "save"] {
                let outcome = match command {
                    "dump" => run(&["dump", "--overwrite-device", vmcore, name]),
                    _ => run(&["save", name, directory]),
                };
                outcome.code(1).says(&[name, "mounted"]);
            }
            assert!(Command::new("umount").arg(&at).status().unwrap().success());
        }
    }
    assert!(Source::open(&[disk.name.clone().into()]).is_err());
}

/// A loop device over a file.
struct Disk {
    name: String,
}

impl Disk {
    fn of(file: &Path) -> Option<Self> {
        let made = Command::new("losetup")
            .args(["-f", "--show"])
            .arg(file)
            .output()
            .ok()?;
        let name = String::from_utf8(made.stdout).ok()?.trim().to_owned();
        (made.status.success() && !name.is_empty()).then_some(Self { name })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.name]).status();
    }
}
