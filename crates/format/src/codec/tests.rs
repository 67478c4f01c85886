use proptest::prelude::*;

use super::*;

fn all() -> impl Iterator<Item = Compression> {
    Codec::ALL
        .map(Compression::new)
        .into_iter()
        .chain(["zlib:12", "zstd:-7", "zstd:3", "zstd:19"].map(|text| text.parse().unwrap()))
}

fn page(seed: usize) -> Vec<u8> {
    (0..4096)
        .map(|i| (i * seed / 37 % 11 * (i / 512)) as u8)
        .collect()
}

#[test]
fn names_round_trip() {
    for codec in Codec::ALL {
        assert_eq!(codec.name().parse(), Ok(codec));
        assert_eq!(codec.to_string(), codec.name());
    }
    for compression in all() {
        assert_eq!(compression.to_string().parse(), Ok(compression));
    }
    for text in [
        "none", "lzo", "snappy", "zlib:1", "zlib:12", "zstd:22", "zstd:-3",
    ] {
        assert_eq!(text.parse::<Compression>().unwrap().to_string(), text);
    }
    assert_eq!("zstd".parse(), Ok(Compression::new(Codec::Zstd)));
    assert_eq!("zlib".parse::<Compression>().unwrap().level, 1);
}

#[test]
fn invalid_names_and_levels_list_the_valid_ones() {
    for (text, message) in [
        (
            "lz4",
            "unknown codec \"lz4\": expected none, zlib, lzo, snappy or zstd",
        ),
        (
            "Zstd",
            "unknown codec \"Zstd\": expected none, zlib, lzo, snappy or zstd",
        ),
        (
            "",
            "unknown codec \"\": expected none, zlib, lzo, snappy or zstd",
        ),
        ("zlib:0", "zlib has no level \"0\": expected 1 to 12"),
        ("zlib:x", "zlib has no level \"x\": expected 1 to 12"),
        ("zstd:", "zstd has no level \"\": expected -131072 to 22"),
        (
            "zstd:23",
            "zstd has no level \"23\": expected -131072 to 22",
        ),
        ("lzo:1", "lzo takes no level"),
        ("none:", "none takes no level"),
    ] {
        assert_eq!(
            text.parse::<Compression>().unwrap_err().to_string(),
            message
        );
    }
    // The fields are public: creating a compressor checks the level.
    let unchecked = Compression {
        codec: Codec::Zlib,
        level: 99,
    };
    assert!(unchecked.compressor().is_err());
}

#[test]
fn pages_round_trip_through_reused_contexts() {
    for compression in all() {
        let mut compressor = compression.compressor().unwrap();
        let mut decompressor = decompressor(compression.codec).unwrap();
        let (mut stored, mut back) = (vec![0; 8192], vec![0; 4096]);
        for seed in 0..40 {
            let page = page(seed);
            let len = compressor.compress(&page, &mut stored).unwrap();
            assert_eq!(decompressor.decompress(&stored[..len], &mut back), Ok(4096));
            assert_eq!(back, page, "{compression}");
        }
    }
}

/// A page that shrinks needs no more space than a page, and one that does not is refused; the
/// context keeps working.
#[test]
fn output_that_does_not_fit_is_refused() {
    let noise: Vec<u8> = (0..4096u32)
        .map(|i| (i.wrapping_mul(i ^ 0x9e37_79b9).wrapping_mul(0x85eb_ca6b) >> 23) as u8)
        .collect();
    for compression in all().filter(|compression| compression.codec != Codec::None) {
        let mut compressor = compression.compressor().unwrap();
        let mut stored = vec![0; 4095];
        assert_eq!(
            compressor.compress(&noise, &mut stored),
            None,
            "{compression}"
        );
        assert!(
            compressor.compress(&page(5), &mut stored).is_some(),
            "{compression}"
        );
    }
}

#[test]
fn data_larger_than_the_destination_is_an_error() {
    for compression in all() {
        let (mut stored, mut back) = (vec![0; 8192], vec![0; 4095]);
        let len = compression
            .compressor()
            .unwrap()
            .compress(&page(7), &mut stored)
            .unwrap();
        let error = decompressor(compression.codec)
            .unwrap()
            .decompress(&stored[..len], &mut back)
            .unwrap_err();
        let codec = compression.codec.name();
        assert_eq!(error, CodecError::TooLong { codec, room: 4095 });
    }
}

/// One frame with its size and without a checksum: descriptor byte 0x60 (single segment, two
/// bytes of size) for a page of 4 KiB.
#[test]
fn zstd_frames_have_the_expected_header() {
    let mut stored = vec![0; 4096];
    let mut compressor = Compression::new(Codec::Zstd).compressor().unwrap();
    compressor.compress(&page(3), &mut stored).unwrap();
    assert_eq!(stored[..4], 0xfd2f_b528_u32.to_le_bytes());
    assert_eq!(stored[4], 0x60);
    assert_eq!(u16::from_le_bytes([stored[5], stored[6]]), 4096 - 256);
}

/// Only zlib's level 1 uses our own encoder in place of a library; the library's output is read
/// just like ours.
#[test]
fn library_compressors_match_our_encoders() {
    for compression in all() {
        let library = compression.library_compressor().unwrap();
        let replaced = compression == Compression::new(Codec::Zlib);
        assert_eq!(library.is_some(), replaced, "{compression}");
        let Some(mut library) = library else { continue };
        let mut own = compression.compressor().unwrap();
        let (mut stored, mut other) = (vec![0; 8192], vec![0; 8192]);
        let page = page(5);
        let len = library.compress(&page, &mut stored).unwrap();
        let own_len = own.compress(&page, &mut other).unwrap();
        assert_ne!(stored[..len], other[..own_len], "{compression}");
        let mut back = vec![0; 4096];
        let mut decompressor = decompressor(compression.codec).unwrap();
        assert_eq!(decompressor.decompress(&stored[..len], &mut back), Ok(4096));
        assert_eq!(back, page, "{compression}");
    }
}

#[test]
fn contexts_take_the_stated_memory() {
    for compression in all() {
        let bytes = compression.context_bytes();
        assert_eq!(bytes == 0, compression.codec == Codec::None);
        assert!(bytes < 16 << 20, "{compression}: {bytes}");
    }
}

proptest! {
    #[test]
    fn any_data_round_trips(data in prop::collection::vec(any::<u8>(), 0..3000), copies in 1..4usize) {
        let data = data.repeat(copies);
        for codec in Codec::ALL {
            let (mut stored, mut back) = (vec![0; 16384], vec![0; data.len()]);
            let len = Compression::new(codec).compressor().unwrap().compress(&data, &mut stored).unwrap();
            let count = decompressor(codec).unwrap().decompress(&stored[..len], &mut back);
            prop_assert_eq!(count, Ok(data.len()));
            prop_assert_eq!(&back, &data);
        }
    }

    #[test]
    fn any_bytes_decompress_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut back = [0; 4096];
        for codec in Codec::ALL {
            if let Ok(len) = decompressor(codec).unwrap().decompress(&bytes, &mut back) {
                prop_assert!(len <= back.len());
            }
        }
    }
}
