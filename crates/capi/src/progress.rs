//! Operations in steps, so that their progress can be reported.

use std::time::Duration;

use bigiron_memory::{Errno, Outcome, Region};

use crate::options::ParsedOptions;

/// Size of the first step in bytes: less than half a second's work for one thread.
const FIRST: usize = 256 << 20;
/// Approximate time of one part; starting helpers for each part costs less than a thousandth of it.
const STEP: Duration = Duration::from_millis(250);

/// Applies `operation` to each region, in steps if progress is reported. Stops after an error,
/// or when the program's callback ends the operation.
pub fn in_steps<T: Copy>(
    how: &ParsedOptions,
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
            let part = Region::between(at, step_end(how, at, size).min(region.end()));
            let done = operation(part, with);
            add(&mut whole, done);
            size = next_size(size, done.elapsed);
            at = part.end();
            if let Some(errno) = report(how, &whole).filter(|_| whole.bytes < whole.wanted) {
                whole.error = whole.error.or(Some(errno));
            }
        }
    }
    whole
}

/// Returns the end of a step: at a multiple of all slice sizes, so that no huge page is cut.
fn step_end(how: &ParsedOptions, start: usize, size: usize) -> usize {
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

/// Calls the program's progress function. Returns ECANCELED if it ends the operation.
pub fn report(options: &ParsedOptions, all: &Outcome) -> Option<Errno> {
    let progress = options.progress?;
    let (done, wanted) = (all.bytes as u64, all.wanted as u64);
    // SAFETY: the program passed the function together with its data.
    let answer = unsafe { progress(options.progress_data, done, wanted) };
    (answer != 0).then_some(Errno::CANCELED)
}

/// Returns the size that takes [`STEP`] at the speed of the last step; at most four times as much.
fn next_size(last: usize, took: Duration) -> usize {
    let quarters = (4 * STEP.as_nanos() / took.as_nanos().max(1)).clamp(1, 16) as usize;
    (last / 4).saturating_mul(quarters).max(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_sizes_settle_at_the_wanted_time() {
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
