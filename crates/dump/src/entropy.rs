//! Detects incompressible pages without running a codec.

/// Bytes per sample: one byte of each group of this size is read.
const GROUP: usize = 16;

/// Returns true if the bytes of a page look like encrypted or compressed data.
///
/// Of 256 random bytes about 162 are distinct, with a standard deviation of 6; of program code
/// or text, half as many. A page counts as random down to five deviations below 162.
pub fn looks_random(page: &[u8]) -> bool {
    const EXPECTED_OF_256: u32 = 162 - 5 * 6;
    let mut seen = [0_u64; 4];
    let mut samples = 0;
    for (index, group) in page.chunks_exact(GROUP).take(256).enumerate() {
        // A different byte of each group, because records often have this size.
        let byte = group[index % GROUP];
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
        samples += 1;
    }
    let different: u32 = seen.iter().map(|word| word.count_ones()).sum();
    samples == 256 && different >= EXPECTED_OF_256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_look_random_and_structured_bytes_do_not() {
        let mut state = 1_u64;
        let random: Vec<u8> = (0..4096)
            .map(|_| {
                // xorshift64*, by Vigna.
                state ^= state >> 12;
                state ^= state << 25;
                state ^= state >> 27;
                (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
            })
            .collect();
        assert!(looks_random(&random));
        let text: Vec<u8> = random.iter().map(|byte| b'a' + byte % 26).collect();
        assert!(!looks_random(&text));
        assert!(!looks_random(&[0xff; 4096]));
        assert!(!looks_random(&random[..1024]), "too short to tell");
    }
}
