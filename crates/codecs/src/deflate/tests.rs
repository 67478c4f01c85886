use proptest::prelude::*;

use super::Encoder;
use super::bits::MAX_INPUT;
use super::huffman::{Builder, Code};

/// Upper bound of the output size: stored blocks, header and checksum.
fn room(len: usize) -> usize {
    len + len / 4096 + 64
}

fn encoded_by(encoder: &mut Encoder, src: &[u8]) -> Vec<u8> {
    let mut dst = vec![0xaa; room(src.len())];
    let len = encoder.encode(src, &mut dst).unwrap();
    dst.truncate(len);
    dst
}

fn encoded(src: &[u8]) -> Vec<u8> {
    encoded_by(&mut Encoder::new(), src)
}

/// Checks that two independent decoders return `src`.
fn round_trips(src: &[u8]) -> Result<(), TestCaseError> {
    let stream = encoded(src);
    let mut back = vec![0; src.len()];
    let len = libdeflater::Decompressor::new().zlib_decompress(&stream, &mut back);
    prop_assert_eq!(len, Ok(src.len()));
    prop_assert!(back == src, "libdeflate decodes something else");
    let back = miniz_oxide::inflate::decompress_to_vec_zlib(&stream);
    prop_assert!(
        back.is_ok_and(|back| back == src),
        "miniz does not decode it"
    );
    Ok(())
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// The kind of the first block: 0 stored, 1 fixed codes, 2 dynamic codes.
fn kind(stream: &[u8]) -> u8 {
    stream[2] >> 1 & 3
}

/// Reference output of zlib 1.2.13 at level 1, for inputs with only one possible encoding.
#[test]
fn shortest_streams_equal_zlib() {
    for (plain, stream) in [
        (&b""[..], &[0x78, 0x01, 0x03, 0, 0, 0, 0, 1][..]),
        (b"a", &[0x78, 0x01, 0x4b, 0x04, 0, 0, 0x62, 0, 0x62]),
        (
            b"abc",
            &[
                0x78, 0x01, 0x4b, 0x4c, 0x4a, 0x06, 0, 0x02, 0x4d, 0x01, 0x27,
            ],
        ),
    ] {
        assert_eq!(encoded(plain), stream);
    }
}

#[test]
fn short_inputs_round_trip() {
    let noise = noise(80);
    for len in 0..noise.len() {
        round_trips(&noise[..len]).unwrap();
        round_trips(&vec![7; len]).unwrap();
        round_trips(&b"ab".repeat(len)).unwrap();
    }
}

/// Lengths around multiples of the maximum match: the remainder must not be shorter than the
/// minimum.
#[test]
fn runs_of_every_length_round_trip() {
    let noise = noise(24);
    for len in (1..600).chain(258 * 15 - 5..258 * 16 + 5) {
        round_trips(&[&noise[..], &vec![0xee; len], &noise].concat()).unwrap();
    }
}

#[test]
fn distances_around_every_symbol_round_trip() {
    let start: Vec<u8> = (1..=60).collect();
    for bits in 0..17 {
        for distance in [1 << bits, 3 << bits >> 1] {
            for distance in distance - 1..=distance + 2 {
                let mut src = start.clone();
                src.resize(60 + distance, 0);
                let repeated = src.len() - distance.min(src.len());
                src.extend_from_within(repeated..(repeated + 40).min(src.len()));
                src.extend_from_slice(&start);
                round_trips(&src).unwrap();
            }
        }
    }
}

#[test]
fn long_inputs_round_trip_in_several_blocks() {
    let noise = noise(3 * MAX_INPUT);
    let text: Vec<u8> = (0..3 * MAX_INPUT)
        .map(|i| (i * i / 7 % 251) as u8)
        .collect();
    for len in [
        MAX_INPUT - 1,
        MAX_INPUT,
        MAX_INPUT + 1,
        MAX_INPUT + 16,
        2 * MAX_INPUT,
        3 * MAX_INPUT,
    ] {
        round_trips(&noise[..len]).unwrap();
        round_trips(&text[..len]).unwrap();
        round_trips(&vec![0; len]).unwrap();
        // A stored block after one that does not end on a byte boundary, and vice versa.
        round_trips(&[&text[..MAX_INPUT], &noise[..len]].concat()).unwrap();
        round_trips(&[&noise[..MAX_INPUT], &text[..len]].concat()).unwrap();
    }
}

#[test]
fn shortest_kind_of_block_is_written() {
    assert_eq!(kind(&encoded(&noise(4096))), 0);
    assert_eq!(kind(&encoded(b"short")), 1);
    assert_eq!(kind(&encoded(&[0; 500])), 1);
    let few: Vec<u8> = noise(4096).iter().map(|byte| byte & 15).collect();
    assert_eq!(kind(&encoded(&few)), 2);
    // Nearly half: a code of four bits per byte.
    assert!(encoded(&few).len() < 2200);
}

#[test]
fn noise_grows_by_a_few_bytes_only() {
    let noise = noise(4096);
    assert_eq!(encoded(&noise).len(), 4096 + 2 + 5 + 4);
    for room in [0, 1, 2, 5, 6, 7, 4095, 4096, 4106] {
        assert_eq!(Encoder::new().encode(&noise, &mut vec![0; room]), None);
    }
}

/// No state of one page affects the next.
#[test]
fn reused_encoder_writes_the_same_as_a_new_one() {
    let mut encoder = Encoder::new();
    let noise = noise(5000);
    for round in 0..300usize {
        let len = [4096usize, 17, 65_536, 1000, 0, 65_530][round % 6].saturating_sub(round % 5);
        let src: Vec<u8> = (0..len)
            .map(|i| (i * (round + 3) / 11 % 13) as u8 ^ noise[i % (1 + round * 16)] & 3)
            .collect();
        if round % 7 == 0 {
            assert_eq!(encoder.encode(&noise, &mut [0; 4095]), None);
        }
        assert_eq!(encoded_by(&mut encoder, &src), encoded(&src), "{round}");
    }
}

/// Symbol counts that are Fibonacci numbers give the deepest trees, deeper than the maximum
/// code length.
#[test]
fn fibonacci_counts_round_trip() {
    for longest in 3..23 {
        let (mut count, mut next) = (1, 1);
        let mut src = Vec::new();
        for byte in 0..longest {
            src.resize(src.len() + count, byte);
            (count, next) = (next, count + next);
        }
        // Shuffled, so that there are no matches.
        let len = src.len();
        let step = (len / 2..).find(|step| gcd(*step, len) == 1).unwrap();
        let mixed: Vec<u8> = (0..len).map(|i| src[i * step % len]).collect();
        round_trips(&mixed).unwrap();
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Total number of bits of the code, after checking that it is a valid code.
fn bits(counts: &[u32], max_bits: usize) -> u64 {
    let mut code = Code::new();
    Builder::new().lengths(counts, max_bits, &mut code);
    let mut codes = Vec::new();
    code.each(|symbol, len, code| {
        assert_eq!(len, code_len(counts, symbol, len, max_bits));
        codes.push((len, code));
    });
    // Complete and prefix-free.
    let kraft: u32 = codes.iter().map(|(len, _)| 1 << (15 - len)).sum();
    assert_eq!(kraft, 1 << 15);
    for (index, &(len, code)) in codes.iter().enumerate() {
        for &(other_len, other) in &codes[..index] {
            let mask = (1u32 << len.min(other_len)) - 1;
            assert_ne!(u32::from(code) & mask, u32::from(other) & mask);
        }
    }
    let lengths = counts.iter().zip(code.lengths);
    lengths
        .map(|(&count, len)| u64::from(count) * u64::from(len))
        .sum()
}

fn code_len(counts: &[u32], symbol: usize, len: u8, max_bits: usize) -> u8 {
    assert!((1..=max_bits).contains(&usize::from(len)));
    let used = counts.iter().filter(|&&count| count > 0).count();
    assert!(counts[symbol] > 0 || used < 2);
    len
}

/// Reference implementation of Huffman's algorithm: total number of bits, and length of the
/// longest code.
fn huffman(counts: &[u32]) -> (u64, usize) {
    let used = counts.iter().filter(|&&count| count > 0);
    let mut left: Vec<(u64, usize)> = used.map(|&count| (count.into(), 0)).collect();
    let mut bits = 0;
    while left.len() > 1 {
        left.sort_unstable_by(|a, b| b.cmp(a));
        let (a, b) = (left.pop().unwrap(), left.pop().unwrap());
        bits += a.0 + b.0;
        left.push((a.0 + b.0, 1 + a.1.max(b.1)));
    }
    (bits, left.first().map_or(0, |node| node.1))
}

#[test]
fn codes_with_fewer_than_two_symbols_get_two() {
    assert_eq!(bits(&[0; 30], 7), 0);
    for symbol in 0..30 {
        let mut counts = [0; 30];
        counts[symbol] = 9;
        assert_eq!(bits(&counts, 12), 9);
    }
}

#[test]
fn code_lengths_are_limited() {
    let mut counts = [0; 24];
    let (mut count, mut next) = (1, 1);
    for place in &mut counts {
        *place = count;
        (count, next) = (next, count + next);
    }
    for max_bits in [5, 7, 12, 15] {
        let (limited, (least, depth)) = (bits(&counts, max_bits), huffman(&counts));
        assert_eq!(depth, 23);
        assert!(limited > least);
        assert!(
            max_bits < 12 || limited < least * 102 / 100,
            "{limited} {least}"
        );
    }
    assert_eq!(bits(&[1; 128], 7), 7 * 128);
}

/// Data as in pages: numbers, pointers, text, runs, and repetitions.
fn page_like() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        (any::<u16>(), 1..12usize).prop_map(|(seed, count)| Fragment::Pointers(seed, count)),
        prop::collection::vec(0..5u32, 1..20).prop_map(Fragment::Numbers),
        "[a-z_]{1,40}".prop_map(Fragment::Text),
        prop::collection::vec(any::<u8>(), 1..60).prop_map(Fragment::Noise),
        (0..3u8, 1..900usize).prop_map(|(byte, len)| Fragment::Run(byte, len)),
        (any::<prop::sample::Index>(), 1..300usize)
            .prop_map(|(back, len)| Fragment::Again(back, len)),
    ];
    prop::collection::vec(part, 0..80).prop_map(|parts| {
        let mut data = Vec::new();
        for part in parts {
            part.append(&mut data);
        }
        data
    })
}

#[derive(Clone, Debug)]
enum Fragment {
    Pointers(u16, usize),
    Numbers(Vec<u32>),
    Text(String),
    Noise(Vec<u8>),
    Run(u8, usize),
    Again(prop::sample::Index, usize),
}

impl Fragment {
    fn append(self, data: &mut Vec<u8>) {
        match self {
            Fragment::Pointers(seed, count) => {
                for index in 0..count {
                    let low = u64::from(seed) * 64 + index as u64 * 0x1240;
                    data.extend((0xffff_8880_0000_0000 | low).to_le_bytes());
                }
            }
            Fragment::Numbers(numbers) => data.extend(numbers.iter().flat_map(|n| n.to_le_bytes())),
            Fragment::Text(text) => data.extend(text.bytes()),
            Fragment::Noise(bytes) => data.extend(bytes),
            Fragment::Run(byte, len) => data.resize(data.len() + len, byte),
            Fragment::Again(back, len) if !data.is_empty() => {
                let back = 1 + back.index(data.len());
                for _ in 0..len {
                    data.push(data[data.len() - back]);
                }
            }
            Fragment::Again(..) => {}
        }
    }
}

proptest! {
    #[test]
    fn page_like_data_round_trips(src in page_like()) {
        round_trips(&src)?;
    }

    #[test]
    fn any_bytes_round_trip(src in prop::collection::vec(any::<u8>(), 0..5000)) {
        round_trips(&src)?;
    }

    /// From two byte values, which compress best, to all.
    #[test]
    fn bytes_of_few_values_round_trip(
        src in prop::collection::vec(any::<u8>(), 0..9000),
        mask in any::<u8>(),
    ) {
        let src: Vec<u8> = src.iter().map(|byte| byte & mask).collect();
        round_trips(&src)?;
    }

    /// The stream is written if it fits exactly, and not with one byte less.
    #[test]
    fn destination_can_be_filled_completely(src in page_like()) {
        let stream = encoded(&src);
        let mut dst = vec![0; stream.len()];
        prop_assert_eq!(Encoder::new().encode(&src, &mut dst), Some(stream.len()));
        prop_assert_eq!(&dst, &stream);
        prop_assert_eq!(Encoder::new().encode(&src, &mut dst[1..]), None);
    }

    #[test]
    fn codes_are_complete_and_optimal(
        counts in prop::collection::vec(prop_oneof![Just(0), 1..9u32, 1..2000u32], 2..286),
    ) {
        prop_assume!(counts.iter().filter(|&&count| count > 0).count() > 1);
        let (least, depth) = huffman(&counts);
        for max_bits in [9, 12, 15] {
            let bits = bits(&counts, max_bits);
            prop_assert!(bits >= least);
            prop_assert_eq!(bits == least, depth <= max_bits);
        }
    }
}
