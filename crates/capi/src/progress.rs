//! Operations in parts, so that somebody can be told of them meanwhile.

use std::time::Duration;

use bigiron_memory::{Errno, Outcome, Region};

use crate::options::How;

/// What a first part has: less than half a second's work for one thread.
const FIRST: usize = 256 << 20;
/// How long a part takes, about: starting helpers for each costs less than a thousandth of it.
const PART: Duration = Duration::from_millis(250);

/// Does `operation` with regions, each as a whole or, where progress is to be told, in parts. What
/// is left after an error, or when the program wants it to end, is not done.
pub fn in_parts<T: Copy>(
    how: &How,
    regions: &[(Region, T)],
    operation: impl Fn(Region, T) -> Outcome,
) -> Outcome {
    let mut whole = Outcome {
        wanted: regions.iter().map(|(region, _)| region.length()).sum(),
        ..Outcome::default()
    };
    let mut size = FIRST;
    for &(region, with) in regions {
        let mut at = region.start();
        while at < region.end() && whole.error.is_none() {
            let part = Region::between(at, part_end(how, at, size).min(region.end()));
            let done = operation(part, with);
            add(&mut whole, done);
            size = next_size(size, done.elapsed);
            at = part.end();
            if let Some(errno) = tell(how, &whole).filter(|_| whole.bytes < whole.wanted) {
                whole.error = whole.error.or(Some(errno));
            }
        }
    }
    whole
}

/// Parts end where chunks of any size end, so that no huge page is cut.
fn part_end(how: &How, start: usize, size: usize) -> usize {
    match how.progress {
        Some(_) => start.saturating_add(size) & !(FIRST - 1),
        None => usize::MAX,
    }
}

fn add(whole: &mut Outcome, part: Outcome) {
    whole.bytes += part.bytes;
    whole.elapsed += part.elapsed;
    whole.busy += part.busy;
    whole.helpers = whole.helpers.max(part.helpers);
    whole.error = part.error;
}

/// Tells the program how far it is; an error if that wants it to end.
pub fn tell(how: &How, whole: &Outcome) -> Option<Errno> {
    let tell = how.progress?;
    let (done, wanted) = (whole.bytes as u64, whole.wanted as u64);
    // SAFETY: the program gave the function together with its data.
    let answer = unsafe { tell(how.progress_data, done, wanted) };
    (answer != 0).then_some(Errno::CANCELED)
}

/// What takes [`PART`] at the speed of the last part; at most four times as much as that.
fn next_size(last: usize, took: Duration) -> usize {
    let quarters = (4 * PART.as_nanos() / took.as_nanos().max(1)).clamp(1, 16) as usize;
    (last / 4).saturating_mul(quarters).max(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_to_take_their_time() {
        let at_speed = |bytes_a_second: u64| {
            let mut size = FIRST;
            for _ in 0..20 {
                let took = Duration::from_secs_f64(size as f64 / bytes_a_second as f64);
                size = next_size(size, took);
            }
            size as f64 / bytes_a_second as f64
        };
        for speed in [4_u64 << 30, 40 << 30] {
            assert!((0.1..0.5).contains(&at_speed(speed)), "{}", at_speed(speed));
        }
        assert_eq!(next_size(FIRST, Duration::from_secs(9)), FIRST);
        assert_eq!(next_size(FIRST, Duration::ZERO), 4 * FIRST);
    }
}
