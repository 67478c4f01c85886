//! The stream parser accepts arbitrary bytes, in portions of any size.
#![no_main]

use std::io::{self, Read};

use bigiron_format::flattened::{header, unpack};
use libfuzzer_sys::fuzz_target;

/// Returns at most the given number of bytes at a time.
struct Portions<'a>(&'a [u8], usize);

impl Read for Portions<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf.len().min(self.1);
        self.0.read(&mut buf[..len])
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&portion, data)) = data.split_first() else {
        return;
    };
    // Half of the inputs have a valid header, so that the records are reached.
    let stream = match portion % 2 {
        0 => data.to_vec(),
        _ => [&header()[..], data].concat(),
    };
    let mut bytes = 0;
    let mut size = 0;
    let mut portions = Portions(&stream, 1 + usize::from(portion));
    let summary = unpack(&mut portions, |offset, piece| {
        assert!(!piece.is_empty() && piece.len() <= 1 << 20);
        bytes += piece.len() as u64;
        size = size.max(offset + piece.len() as u64);
        Ok(())
    });
    if let Ok(summary) = summary {
        assert_eq!((summary.bytes, summary.size), (bytes, size));
        assert!(bytes <= stream.len() as u64);
    }
});
