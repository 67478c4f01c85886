//! Striped vmdumps: all parts together equal the dump in one file; missing pages are named and
//! lost, and no page is ever wrong.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod stripe;

use std::fs;
use std::path::{Path, PathBuf};

use bigiron_dump::{OutputTarget, Progress, compare};
use bigiron_format::vmdump::{Chunk, ChunkKind, VmdumpFile};
use bigiron_helpers::Stop;
use bigiron_kernel::Source;

use stripe::{
    ID, Random, chunks, core, findings, ones, open, options, parts, read_all, refused, save,
    stripe, two, whole,
};

#[test]
fn parts_in_any_order_equal_the_dump_in_one_file() {
    let whole_dump = open(&[whole()]).unwrap();
    let right = read_all(&whole_dump);
    for count in [2, 3, 7] {
        let parts = parts(count, ID);
        let mut order: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        order.rotate_left(count / 2);
        let dump = open(&order).unwrap();
        assert_eq!(
            (dump.damage(), dump.kind().as_str()),
            (None, "striped vmdump")
        );
        assert_eq!(findings(&dump), Vec::<String>::new());
        let found = read_all(&dump);
        assert_eq!(
            (found.pages, found.lost, found.damaged),
            (right.pages, 0, 0)
        );
        let (progress, stop) = (Progress::new(), Stop::new());
        let same = compare(dump.memory(), whole_dump.memory(), 2, &progress, &stop).unwrap();
        assert!(same.is_equal() && same.equal == right.pages);
        // Chunks with pages go to the parts in turn.
        let of_part = |bytes: &Vec<u8>| {
            let chunks = chunks(bytes);
            let with_pages = chunks.iter().filter(|chunk| chunk.kind == ChunkKind::Pages);
            with_pages.count()
        };
        let counts: Vec<_> = parts.iter().map(of_part).collect();
        assert!(
            counts[0] > 5 && counts[0] - counts[count - 1] <= 1,
            "{counts:?}"
        );
    }
}

#[test]
fn saved_parts_equal_the_dump_in_one_file_byte_for_byte() {
    for count in [2, 3, 7] {
        let parts = parts(count, ID);
        let order: Vec<&[u8]> = parts.iter().rev().map(Vec::as_slice).collect();
        let (_directory, saved) = save(&order, false);
        assert_eq!(saved.damage, None);
        assert!(fs::read(&saved.path).unwrap() == whole(), "{count} parts");
    }
    let (_one, of_parts) = save(&[&two()[1], &two()[0]], true);
    let (_other, of_whole) = save(&[whole()], true);
    assert_eq!(of_parts.damage, None);
    assert!(fs::read(of_parts.path).unwrap() == fs::read(of_whole.path).unwrap());
}

#[test]
fn parts_of_different_dumps_are_named() {
    let other = parts(2, *b"fedcba9876543210");
    let three = parts(3, ID);
    let [first, second] = two() else { panic!() };
    let said = refused(&[second, first, second]);
    assert!(
        said.contains("is part 2 of 2") && said.contains("once"),
        "{said}"
    );
    let said = refused(&[first, &other[1]]);
    assert!(said.contains("part 2 of 2 of another dump"), "{said}");
    assert!(said.contains("file1") && said.contains("file0"), "{said}");
    let said = refused(&[first, &three[1]]);
    assert!(said.contains("does not go with"), "{said}");
    let said = refused(&[first, whole()]);
    assert!(said.contains("whole vmdump"), "{said}");
    let said = refused(&[first, core()]);
    assert!(said.contains("ELF core"), "{said}");
}

#[test]
fn missing_part_loses_only_its_own_pages() {
    let parts = parts(3, ID);
    let right = read_all(&open(&[whole()]).unwrap());
    for missing in 0..3 {
        let given: Vec<&[u8]> = (0..3)
            .filter(|index| *index != missing)
            .map(|index| parts[index].as_slice())
            .collect();
        let dump = open(&given).unwrap();
        let damage = format!("part {} of 3 is missing; give it too", missing + 1);
        assert_eq!(dump.damage(), Some(damage.as_str()));
        assert_eq!(findings(&dump), Vec::<String>::new());
        let gone: u64 = chunks(&parts[missing])
            .iter()
            .map(|c| ones(&c.dumped))
            .sum();
        let found = read_all(&dump);
        assert_eq!((found.pages, found.damaged), (right.pages - gone, 0));
        assert!(found.lost >= gone && gone > 0);
        // Saved as one file, it has the same pages, all in their places.
        let (_directory, saved) = save(&given, false);
        let said = saved.damage.unwrap();
        assert!(
            said.contains(&damage) && said.contains("pages lost"),
            "{said}"
        );
        let merged = Source::open(std::slice::from_ref(&saved.path)).unwrap();
        assert!(merged.damage().unwrap().contains("lost"));
        assert_eq!(findings(&merged), Vec::<String>::new());
        let again = read_all(&merged);
        assert_eq!((again.pages, again.lost), (found.pages, found.lost));
        let (_directory, saved) = save(&given, true);
        let core = fs::read(saved.path).unwrap();
        let file = VmdumpFile::open(Box::new(whole().to_vec())).unwrap();
        assert_eq!(core.len() as u64, file.header().core_size);
    }
    let dump = open(&[&parts[1]]).unwrap();
    let both = "parts 1, 3 of 3 are missing; give them too";
    assert_eq!(dump.damage(), Some(both));
    assert!(read_all(&dump).pages > 0);
}

#[test]
fn truncated_part_loses_only_pages_after_its_end() {
    let mut random = Random(7);
    let right = read_all(&open(&[whole()]).unwrap());
    for round in 0..60 {
        let cut = round % 2;
        let (bytes, other) = (&two()[cut], &two()[1 - cut]);
        let len = random.below(bytes.len());
        let left = &bytes[..len];
        let dump = match open(&[left, other]) {
            Ok(dump) => dump,
            // Too little to identify the part.
            Err(error) => {
                assert!(len < 1000, "cut at {len}: {error}");
                continue;
            }
        };
        let lost_in = |chunk: &&Chunk| {
            let head = chunk.head_size(bigiron_format::vmdump::Container::Zstd) as u64;
            chunk.offset + head + u64::from(chunk.packed) > len as u64
        };
        let chunks = chunks(bytes);
        let gone: u64 = chunks.iter().filter(lost_in).map(|c| ones(&c.dumped)).sum();
        let found = read_all(&dump);
        assert_eq!(
            (found.pages, found.damaged),
            (right.pages - gone, 0),
            "{len}"
        );
        assert!(found.lost >= gone);
        if gone > 0 {
            let damage = dump.damage().unwrap();
            assert!(damage.contains("no root"), "{damage}");
        }
        if round < 10 {
            let (_directory, saved) = save(&[other, left], false);
            let merged = Source::open(std::slice::from_ref(&saved.path)).unwrap();
            assert_eq!(merged.damage().is_some(), gone > 0);
            assert_eq!(saved.damage.is_some(), gone > 0);
            assert_eq!(findings(&merged), Vec::<String>::new());
            let again = read_all(&merged);
            assert_eq!((again.pages, again.lost), (found.pages, found.lost));
        }
    }
}

#[test]
fn truncated_parts_are_read_to_their_ends() {
    let mut random = Random(11);
    for _ in 0..20 {
        let cut = |bytes: &'static [u8], random: &mut Random| {
            let least = 70_000;
            &bytes[..least + random.below(bytes.len() - least)]
        };
        let given = [cut(&two()[0], &mut random), cut(&two()[1], &mut random)];
        let dump = open(&given).unwrap();
        let found = read_all(&dump);
        assert_eq!(found.damaged, 0);
        assert!(found.pages > 0 && dump.damage().is_some());
        let (_directory, saved) = save(&given, false);
        let merged = Source::open(std::slice::from_ref(&saved.path)).unwrap();
        let again = read_all(&merged);
        assert_eq!((again.pages, again.lost), (found.pages, found.lost));
        assert!(merged.damage().is_some() && saved.damage.is_some());
    }
}

#[test]
fn every_flipped_bit_is_detected_or_harmless() {
    let mut random = Random(1);
    let right = read_all(&open(&[whole()]).unwrap());
    let mut harmless = 0;
    for round in 0..100 {
        let number = round % 2;
        let mut bytes = two()[number].clone();
        let bit = random.below(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let Ok(dump) = open(&[&bytes, &two()[1 - number]]) else {
            continue;
        };
        let found = findings(&dump);
        let name = format!("file{}", 0);
        assert!(
            found.iter().all(|line| line.starts_with(&name)),
            "{found:?}"
        );
        let pages = read_all(&dump);
        if dump.damage().is_none() && pages.damaged == 0 && found.is_empty() {
            assert_eq!((pages.pages, pages.lost), (right.pages, 0), "bit {bit}");
            harmless += 1;
        }
    }
    assert!(harmless < 3, "{harmless} not found");
}

#[test]
fn full_disk_of_one_part_is_named_and_other_parts_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("good");
    let targets = [
        OutputTarget::File(file.clone()),
        OutputTarget::File("/dev/full".into()),
    ];
    let error = stripe(&targets, &options(ID)).unwrap_err();
    assert!(error.is_output_full(), "{error}");
    assert!(error.to_string().contains("/dev/full"), "{error}");
    assert!(!file.exists());
    let left = fs::read(directory.path().join("good.incomplete")).unwrap();
    if let Ok(dump) = open(&[&left]) {
        assert_eq!(read_all(&dump).damaged, 0);
    }
    // A part that cannot be created leaves no parts.
    let targets = [
        OutputTarget::File(file.clone()),
        OutputTarget::File(directory.path().join("no/part")),
    ];
    fs::remove_file(directory.path().join("good.incomplete")).unwrap();
    stripe(&targets, &options(ID)).unwrap_err();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn invalid_striped_outputs_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let target = |name: &str| OutputTarget::File(directory.path().join(name));
    // The command line refuses to stripe other formats and bzip2: a `DumpOutput` cannot express
    // them.
    let error = |targets: &[OutputTarget]| stripe(targets, &options(ID)).unwrap_err().to_string();
    assert!(error(&[target("a")]).contains("2 to 64"));
    assert!(error(&[target("a"), target("../a"), target("a")]).contains("the same"));
    assert!(error(&[target("a"), OutputTarget::Stdout]).contains("files and devices"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// A file made by the first writer of striped dumps.
fn golden(index: usize) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    directory.join(format!("version-1.stripe-{}-of-2.vmdump", index + 1))
}

#[test]
fn stripes_of_version_1_are_read_and_written() {
    if std::env::var_os("BIGIRON_WRITE_GOLDEN").is_some() {
        for (index, bytes) in two().iter().enumerate() {
            fs::write(golden(index), bytes).unwrap();
        }
    }
    let old = [0, 1].map(|index| fs::read(golden(index)).unwrap());
    let dump = open(&[&old[0], &old[1]]).unwrap();
    assert_eq!(dump.damage(), None);
    assert_eq!(findings(&dump), Vec::<String>::new());
    assert!(read_all(&dump).pages > 200);
    assert!(old == two(), "other bytes are written today");
}
