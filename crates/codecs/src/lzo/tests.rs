use proptest::prelude::*;

use super::decode::{Error, decode};
use super::encode::Encoder;

fn encoded(src: &[u8]) -> Vec<u8> {
    let mut dst = vec![0; src.len() + src.len() / 16 + 64];
    let len = Encoder::new().encode(src, &mut dst).unwrap();
    dst.truncate(len);
    dst
}

fn decoded(stream: &[u8], room: usize) -> Result<Vec<u8>, Error> {
    let mut dst = vec![0; room];
    let len = decode(stream, &mut dst)?;
    dst.truncate(len);
    Ok(dst)
}

fn damaged(stream: &[u8], reason: &str) {
    match decoded(stream, 64) {
        Err(Error::Damaged(found)) => assert!(found.contains(reason), "{found}"),
        other => panic!("{other:?} instead of an error with {reason:?}"),
    }
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// Streams of liblzo2 2.10: `lzo1x_1_compress`, or `lzo1x_999_compress` for those marked "9".
#[test]
fn streams_of_liblzo2_decode() {
    let text = "the quick brown fox, the quick brown dog, the quick red fox and the brown dog";
    let mix = "abXabYabZcdefghij0123456789_cdeUVW0123Kcde";
    let mix = format!("{mix}{}abYcde", "p".repeat(30));
    let ramp: Vec<u8> = (0..40).map(|i: u8| i.wrapping_mul(7)).collect();
    // A match 20,040 bytes back.
    let far = [&ramp[..], &[b'x'; 20_000], &ramp].concat();
    let far_1 = "001800070e151c232a31383f464d545b626970777e858c939aa1a8afb6bdc4cbd2d9e0e7ee\
                 f5fc030a1178782000000000000000000000000000000000000000000000000000000000000000\
                 000000000000000000000000000000000000000000000000000000000000000000000000000000\
                 00000000000000004b0400100b203900028c939aa1a8afb6bdc4cbd2d9e0e7eef5fc030a111100\
                 00";
    for (name, stream, plain) in [
        ("empty", "110000", &b""[..]),
        ("three bytes", "14616263110000", b"abc"),
        (
            "a run",
            "02616161616120000000b610000c616161616161616161616161616161110000",
            &[b'a'; 1000],
        ),
        ("a run, 9", "126120000000c90000110000", &[b'a'; 1000]),
        (
            "text",
            "000374686520717569636b2062726f776e20666f782c202e5300646f672a53007265647c040f20\
             616e64207468652062726f776e20646f67110000",
            text.as_bytes(),
        ),
        (
            "text, 9",
            "2674686520717569636b2062726f776e20666f782c202e5300646f672a53007265647c04012061\
             6e649402279000110000",
            text.as_bytes(),
        ),
        (
            "mixed, 9",
            "2d61625861625961625a636465666768696a303132333435363738395f4b0255565761024b4901\
             703b000050084c04110000",
            mix.as_bytes(),
        ),
        ("far", far_1, &far),
    ] {
        assert_eq!(
            decoded(&hex(stream), plain.len()).as_deref(),
            Ok(plain),
            "{name}"
        );
    }
}

/// Instructions that the encoder above does not use.
#[test]
fn short_matches_after_literals_decode() {
    let two_bytes = [19, b'a', b'b', 0b0100, 0, 0x11, 0, 0];
    assert_eq!(decoded(&two_bytes, 4).unwrap(), b"abab");

    // 2105 bytes of "abcde", four literals, then 3 bytes from 2049 bytes back.
    let mut three_bytes = vec![22, b'a', b'b', b'c', b'd', b'e', 0x20];
    three_bytes.extend([0; 8]);
    three_bytes.extend([27, 4 << 2, 0, 1, b'w', b'x', b'y', b'z']);
    three_bytes.extend([1, 0, b'!', 0x11, 0, 0]);
    let plain = decoded(&three_bytes, 2113).unwrap();
    assert_eq!(plain.len(), 2113);
    assert_eq!(&plain[2100..], b"abcdewxyzabc!");
}

#[test]
fn kinds_of_broken_streams_are_distinguished() {
    damaged(&[], "end marker");
    damaged(&[0x11], "end marker");
    damaged(&[0x11, 0], "end marker");
    damaged(&[20, b'a'], "end marker");
    damaged(&[18, b'a'], "end marker");
    damaged(&[0], "end marker");
    damaged(&[0x11, 0, 0, 0], "follow");
    damaged(&[18, b'a', 0b0100_0100, 0, 0x11, 0, 0], "before the start");
    damaged(&[18, b'a', 0, 4, 0x11, 0, 0], "before the start");
    // First byte 16: a copy from an empty window.
    damaged(&[16, 1, 4, 0, 0x11, 0, 0], "before the start");
}

#[test]
fn length_beyond_the_destination_ends_early() {
    // 64 literals or 2^32: both are refused, the second one without being read.
    assert_eq!(decoded(&encoded(&[7; 65]), 64), Err(Error::TooLong));
    let mut bomb = vec![18, b'a', 0x20];
    bomb.resize(1 << 20, 0);
    bomb.extend([1, 0, 0, 0x11, 0, 0]);
    assert_eq!(decoded(&bomb, 4096), Err(Error::TooLong));
}

#[test]
fn every_length_of_literals_and_matches_round_trips() {
    let noise: Vec<u8> = (0..700u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for len in 0..noise.len() {
        let src = [&noise[..len], &[0xee; 20]].concat();
        assert_eq!(decoded(&encoded(&src), src.len()).unwrap(), src);
        let src = [&noise[..20], &vec![0xee; len], &noise[..20]].concat();
        assert_eq!(decoded(&encoded(&src), src.len()).unwrap(), src);
    }
}

#[test]
fn distances_around_every_limit_round_trip() {
    let start: Vec<u8> = (1..=60).collect();
    for limit in [2048, 16384, 49151, 65536, 131072] {
        for distance in limit - 40..limit + 3 {
            let mut src = start.clone();
            src.resize(distance, 0);
            src.extend(&start);
            assert_eq!(decoded(&encoded(&src), src.len()).unwrap(), src);
        }
    }
}

/// The table is not cleared between blocks: its old entries must not matter.
#[test]
fn reused_encoder_writes_the_same_as_a_new_one() {
    let mut encoder = Encoder::new();
    let mut dst = vec![0; 80_000];
    for round in 0..400usize {
        let len = [4096, 17, 65_536, 1000, 65_535, 65_530][round % 6] - round % 5;
        let src: Vec<u8> = (0..len)
            .map(|i| (i * (round + 3) / 11 % 13) as u8)
            .collect();
        let count = encoder.encode(&src, &mut dst).unwrap();
        assert_eq!(dst[..count], encoded(&src), "round {round}");
    }
}

/// Data as in pages: noise, runs, and repetitions.
fn structured() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..60).prop_map(Fragment::Noise),
        (any::<u8>(), 1..400usize).prop_map(|(byte, len)| Fragment::Run(byte, len)),
        (any::<prop::sample::Index>(), 1..300usize)
            .prop_map(|(back, len)| Fragment::Repeat(back, len)),
    ];
    prop::collection::vec(part, 0..60).prop_map(|parts| {
        let mut data = Vec::new();
        for part in parts {
            match part {
                Fragment::Noise(bytes) => data.extend(bytes),
                Fragment::Run(byte, len) => data.resize(data.len() + len, byte),
                Fragment::Repeat(back, len) if !data.is_empty() => {
                    let back = 1 + back.index(data.len());
                    for _ in 0..len {
                        data.push(data[data.len() - back]);
                    }
                }
                Fragment::Repeat(..) => {}
            }
        }
        data
    })
}

#[derive(Clone, Debug)]
enum Fragment {
    Noise(Vec<u8>),
    Run(u8, usize),
    Repeat(prop::sample::Index, usize),
}

proptest! {
    #[test]
    fn structured_data_round_trips(src in structured()) {
        prop_assert_eq!(decoded(&encoded(&src), src.len()).unwrap(), src);
    }

    #[test]
    fn incompressible_data_round_trips(src in prop::collection::vec(any::<u8>(), 0..5000)) {
        prop_assert_eq!(decoded(&encoded(&src), src.len()).unwrap(), src);
    }

    /// The stream is written if it fits exactly, and not with one byte less.
    #[test]
    fn destination_can_be_filled_completely(src in structured()) {
        let stream = encoded(&src);
        let mut dst = vec![0; stream.len()];
        prop_assert_eq!(Encoder::new().encode(&src, &mut dst), Some(stream.len()));
        prop_assert_eq!(&dst, &stream);
        prop_assert_eq!(Encoder::new().encode(&src, &mut dst[1..]), None);
    }

    #[test]
    fn any_bytes_decode_or_fail_within_the_destination(
        stream in prop::collection::vec(any::<u8>(), 0..300),
        room in 0..5000usize,
    ) {
        if let Ok(plain) = decoded(&stream, room) {
            prop_assert!(plain.len() <= room);
        }
    }

    /// A flipped bit, or a truncation, of a valid stream.
    #[test]
    fn damaged_streams_decode_or_fail(
        src in structured(),
        at in any::<prop::sample::Index>(),
        bit in 0..8,
    ) {
        let mut stream = encoded(&src);
        let at = at.index(stream.len());
        prop_assert!(decoded(&stream[..at], src.len()).is_err());
        stream[at] ^= 1u8 << bit;
        let _ = decoded(&stream, src.len());
    }
}
