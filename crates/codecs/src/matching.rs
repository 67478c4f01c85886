//! Shared code of the match finders.

/// Number of equal bytes from `at` and from `from` on.
#[inline]
pub(crate) fn common(bytes: &[u8], at: usize, from: usize) -> usize {
    let (ahead, behind) = (&bytes[at..], &bytes[from..]);
    let mut count = 0;
    while let (Some(a), Some(b)) = (ahead[count..].first_chunk(), behind[count..].first_chunk()) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return count + (differ.trailing_zeros() / 8) as usize;
        }
        count += 8;
    }
    let same = ahead[count..].iter().zip(&behind[count..]);
    count + same.take_while(|(a, b)| a == b).count()
}
