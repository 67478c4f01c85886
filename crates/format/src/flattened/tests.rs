use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::bytes::ReadAt;

type Records = Vec<(u64, Vec<u8>)>;

fn flattened(records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = header().to_vec();
    for (offset, data) in records {
        file.extend(record_header(*offset, data.len() as u64));
        file.extend(data);
    }
    file.extend(end_record());
    file
}

/// Reference implementation.
fn model(records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut dump = Vec::new();
    for (offset, data) in records.iter().filter(|(_, data)| !data.is_empty()) {
        let start = *offset as usize;
        let end = start + data.len();
        if dump.len() < end {
            dump.resize(end, 0);
        }
        dump[start..end].copy_from_slice(data);
    }
    dump
}

fn open(file: Vec<u8>) -> Result<FlattenedFile<Vec<u8>>, FormatError> {
    FlattenedFile::open(file, Limits::default())
}

fn unpacked(stream: &[u8]) -> Result<(Vec<u8>, Summary), FormatError> {
    let mut records = Vec::new();
    let summary = unpack(&mut Dribble(stream, 1), |offset, data| {
        records.push((offset, data.to_vec()));
        Ok(())
    })?;
    Ok((model(&records), summary))
}

/// A stream that returns a few bytes at a time, as pipes do, and is interrupted.
struct Dribble<'a>(&'a [u8], usize);

impl Read for Dribble<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1 * 5 % 4093;
        if self.1.is_multiple_of(7) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = self.1.min(buf.len());
        self.0.read(&mut buf[..count])
    }
}

/// Counts reads.
struct Counted(Vec<u8>, AtomicU64, AtomicU64);

impl ReadAt for Counted {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.2.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.0.read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.0.size()
    }
}

fn counted(record_len: usize, count: usize) -> (FlattenedFile<Counted>, u64, u64) {
    let records: Records = (0..count)
        .map(|i| ((i * record_len) as u64, vec![i as u8; record_len]))
        .collect();
    let file = Counted(flattened(&records), AtomicU64::new(0), AtomicU64::new(0));
    // Memory for one range: the records must have been merged.
    let file = FlattenedFile::open(file, Limits { index_bytes: 100 }).unwrap();
    assert_eq!(
        file.read_vec_at("dump", 0, file.size()).unwrap(),
        model(&records)
    );
    let fresh = Counted(flattened(&records), AtomicU64::new(0), AtomicU64::new(0));
    let fresh = FlattenedFile::open(fresh, Limits::default()).unwrap();
    let reads = fresh.inner().1.load(Ordering::Relaxed);
    let bytes = fresh.inner().2.load(Ordering::Relaxed);
    (fresh, reads, bytes)
}

#[test]
fn header_equals_makedumpfile() {
    let header = header();
    assert_eq!(&header[..12], b"makedumpfile");
    assert_eq!(header[12..16], [0; 4]);
    assert_eq!(
        header[16..32],
        [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    );
    assert!(header[32..].iter().all(|&byte| byte == 0));
    assert!(is_flattened(&header) && is_flattened(&header[..16]));
    assert!(!is_flattened(&header[..15]) && !is_flattened(b"KDUMP   "));
    assert_eq!(end_record(), [0xff; 16]);
    assert_eq!(
        record_header(0x0102, 3),
        [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3]
    );
}

#[test]
fn later_records_win_and_holes_are_zeros() {
    let records = vec![
        (10, b"aaaaaaaaaa".to_vec()),
        (0, b"bbb".to_vec()),
        (14, b"cc".to_vec()),
        (30, b"d".to_vec()),
        (8, b"ee".to_vec()),
    ];
    let file = open(flattened(&records)).unwrap();
    let dump = file.read_vec_at("dump", 0, 31).unwrap();
    assert_eq!(dump, b"bbb\0\0\0\0\0eeaaaaccaaaa\0\0\0\0\0\0\0\0\0\0d");
    assert_eq!(
        (file.size(), file.record_count(), file.is_complete()),
        (31, 5, true)
    );
    assert_eq!(unpacked(&flattened(&records)).unwrap().0, dump);
}

#[test]
fn headers_are_read_together_or_alone() {
    let (file, reads, _) = counted(24, 10_000);
    assert!(file.is_complete());
    assert!(reads <= 10, "{reads} reads for 10,000 short records");
    let (_, reads, bytes) = counted(64 << 10, 50);
    assert!(reads <= 55, "{reads} reads for 50 long records");
    assert!(bytes < 75_000, "{bytes} bytes read for 50 headers");
}

#[test]
fn too_many_ranges_are_refused() {
    let records: Records = (0..1000).map(|i| (i * 2, vec![1])).collect();
    let limits = Limits {
        index_bytes: 50_000,
    };
    let error = FlattenedFile::open(flattened(&records), limits)
        .unwrap_err()
        .to_string();
    assert!(error.contains("unpack the file first"), "{error}");
    assert!(open(flattened(&records)).is_ok());
    assert_eq!(unpacked(&flattened(&records)).unwrap().1.records, 1000);
}

#[test]
fn invalid_files_are_errors_with_offset_and_field() {
    let (mut kind, mut version) = (header(), header());
    kind[23] = 2;
    version[31] = 9;
    let mut negative = header().to_vec();
    negative.extend(record_header(u64::MAX - 1, 5));
    let mut half_end = header().to_vec();
    half_end.extend(record_header(5, u64::MAX));
    let mut overflow = header().to_vec();
    overflow.extend(record_header(i64::MAX as u64 - 3, 5));
    for (file, message) in [
        (
            kind.to_vec(),
            "type of the flattened file at offset 0x10: expected 1, found 2",
        ),
        (
            version.to_vec(),
            "version of the flattened file at offset 0x18: expected 1, found 9",
        ),
        (
            vec![b'x'; 5000],
            "flattened signature at offset 0x0: expected",
        ),
        (header()[..4000].to_vec(), "truncated"),
        (
            negative,
            "offset of a flattened record at offset 0x1000: expected 0 or more, or -1 twice at the end, found -2",
        ),
        (
            half_end,
            "size of a flattened record at offset 0x1008: expected",
        ),
        (
            overflow,
            "expected 0 to 3, for its offset is 9223372036854775804, found 5",
        ),
    ] {
        let error = unpacked(&file).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        let error = open(file).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn failing_sink_ends_unpacking() {
    let file = flattened(&[(0, vec![1; 10])]);
    let error = unpack(
        &mut &file[..],
        |_, _| Err(io::ErrorKind::StorageFull.into()),
    )
    .unwrap_err();
    assert!(
        matches!(error, FormatError::Io { cause, .. } if cause.kind() == io::ErrorKind::StorageFull)
    );
}

/// Records that overlap, touch and leave holes, in a small dump.
fn records() -> impl Strategy<Value = Records> {
    let any_record = (0..400u64, prop::collection::vec(any::<u8>(), 0..60));
    // Runs of equal records, of which the last may be shorter.
    let row = (0..300u64, 1..20usize, 1..9u64, 0..20usize, any::<u8>()).prop_map(
        |(start, len, count, last, seed)| -> Records {
            (0..=count)
                .map(|i| {
                    let len = if i == count { last.min(len) } else { len };
                    let data = (0..len)
                        .map(|j| seed.wrapping_add((j * 7) as u8 ^ i as u8))
                        .collect();
                    (start + i * len.max(1) as u64, data)
                })
                .collect()
        },
    );
    let group = prop_oneof![any_record.prop_map(|record| vec![record]), row];
    prop::collection::vec(group, 0..12).prop_map(|groups| groups.concat())
}

proptest! {
    #[test]
    fn both_readers_agree_with_the_model(records in records(), at in 0..500u64, len in 0..200usize) {
        let dump = model(&records);
        let bytes = flattened(&records);
        let (streamed, summary) = unpacked(&bytes).unwrap();
        prop_assert_eq!(&streamed, &dump);
        prop_assert_eq!(summary.size, dump.len() as u64);
        prop_assert!(summary.complete);

        let file = open(bytes).unwrap();
        prop_assert_eq!(file.size(), dump.len() as u64);
        prop_assert_eq!(file.record_count(), records.len() as u64);
        prop_assert!(file.is_complete());
        prop_assert_eq!(&file.read_vec_at("dump", 0, file.size()).unwrap(), &dump);
        // A range, possibly beyond the end.
        let (mut part, mut expected) = (vec![0xaa; len], vec![0xaa; len]);
        prop_assert_eq!(file.read_at(at, &mut part).unwrap(), dump.read_at(at, &mut expected).unwrap());
        prop_assert_eq!(part, expected);
    }

    /// A file truncated anywhere reads as the complete records in it.
    #[test]
    fn truncated_files_are_read_to_their_end(records in records(), cut in any::<prop::sample::Index>()) {
        let bytes = flattened(&records);
        let cut = HEADER_LEN + cut.index(bytes.len() - HEADER_LEN);
        let mut left = cut - HEADER_LEN;
        let mut present = Vec::new();
        for (offset, data) in &records {
            let count = left.saturating_sub(RECORD_HEADER_LEN).min(data.len());
            left = left.saturating_sub(RECORD_HEADER_LEN + data.len());
            present.push((*offset, data[..count].to_vec()));
        }
        let dump = model(&present);
        let file = open(bytes[..cut].to_vec()).unwrap();
        prop_assert!(!file.is_complete());
        prop_assert_eq!(&file.read_vec_at("dump", 0, file.size()).unwrap(), &dump);
        let (streamed, summary) = unpacked(&bytes[..cut]).unwrap();
        prop_assert!(!summary.complete);
        prop_assert_eq!(summary.records, file.record_count());
        prop_assert_eq!(&streamed, &dump);
    }

    #[test]
    fn any_bytes_are_read_or_refused(tail in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = [&header()[..], &tail].concat();
        let read = open(bytes.clone()).map(|file| file.record_count()).ok();
        let streamed = unpacked_count(&bytes);
        prop_assert_eq!(read, streamed);
    }
}

fn unpacked_count(bytes: &[u8]) -> Option<u64> {
    unpack(&mut &bytes[..], |_, _| Ok(()))
        .map(|summary| summary.records)
        .ok()
}
