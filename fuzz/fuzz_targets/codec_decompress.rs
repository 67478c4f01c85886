//! Every decompressor, especially that of LZO, accepts arbitrary bytes: it fails, or stays
//! within its output buffer. Encoded data, especially that of our own encoders, decodes to the
//! same bytes.
#![no_main]

use bigiron_format::codec::{Codec, Compression, decompressor};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, room], data)) = data.split_first_chunk() else {
        return;
    };
    let codec = Codec::ALL[usize::from(choice) % Codec::ALL.len()];
    let room = usize::from(room) * 257;
    // Bytes after the output buffer show whether its limit was kept.
    let mut out = vec![0x5a; room + 64];
    let mut reader = decompressor(codec).expect("a context");
    if let Ok(len) = reader.decompress(data, &mut out[..room]) {
        assert!(len <= room);
    }
    assert!(out[room..].iter().all(|&byte| byte == 0x5a));

    let mut compressor = Compression::new(codec).compressor().expect("a context");
    let mut stored = vec![0; data.len() + data.len() / 4 + 256];
    let len = compressor
        .compress(data, &mut stored)
        .expect("room for the worst case");
    let mut back = vec![0; data.len()];
    assert_eq!(reader.decompress(&stored[..len], &mut back), Ok(data.len()));
    assert_eq!(back, data);
});
