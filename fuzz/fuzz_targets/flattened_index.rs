//! An index over arbitrary records takes no more memory than its limit, and reads the same
//! bytes as the stream parser.
#![no_main]

use bigiron_format::ReadAt;
use bigiron_format::flattened::{FlattenedFile, Limits, header, unpack};
use libfuzzer_sys::fuzz_target;

/// Maximum size of the dumps that are compared.
const MAX_DUMP: u64 = 1 << 16;

fuzz_target!(|records: &[u8]| {
    let file = [&header()[..], records].concat();
    let limits = Limits {
        index_bytes: 8 << 10,
    };
    let Ok(index) = FlattenedFile::open(file.as_slice().to_vec(), limits) else {
        return;
    };
    let mut end = [0; 64];
    let read = index.read_at(index.size().saturating_sub(64), &mut end);
    assert!(read.is_ok());
    if index.size() > MAX_DUMP {
        return;
    }

    let mut dump = vec![0; index.size() as usize];
    let summary = unpack(&mut &file[..], |offset, data| {
        let start = offset as usize;
        dump[start..start + data.len()].copy_from_slice(data);
        Ok(())
    });
    let summary = summary.expect("what the index takes, the stream parser takes");
    assert_eq!(summary.size, index.size());
    assert_eq!(summary.records, index.record_count());
    assert_eq!(summary.complete, index.is_complete());
    let read = index.read_vec_at("dump", 0, index.size());
    assert_eq!(read.expect("all of it can be read"), dump);
});
