//! Small requests: their cost compared with the plain call, and the size from which helpers are
//! faster.

use std::time::{Duration, Instant};

use anyhow::Context;
use bigiron_memory::operation::{Access, advise, populate};
use bigiron_memory::{Region, Settings};
use rustix::mm::Advice;
use serde::Serialize;

use super::run::{plain_segment, with};
use crate::results::median;

/// Sizes of small requests.
const SIZES: [usize; 6] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];
/// Sizes of requests among which the threshold is searched.
const THRESHOLDS: [usize; 8] = [
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
    16 << 20,
    32 << 20,
    64 << 20,
];
/// Minimum chunk size in the search: each helper must have several chunks.
const MIN_CHUNK: usize = 64 << 10;
/// Time relative to one thread below which helpers count as faster. Smaller gains are not worth
/// the processors.
const WIN: f64 = 0.95;

/// Cost of a request with each of two methods, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Size of the request in bytes.
    pub size: usize,
    /// Time of one plain call.
    pub plain: f64,
    /// Time of the library's call.
    pub ours: f64,
    /// Median ratio of the library's time to that of the adjacent plain call.
    pub ratio: f64,
}

/// Populates small segments by the plain call and by the library in turns. The library has its
/// default settings, with which it passes small requests directly to the kernel.
pub(super) fn requests(time: Duration) -> anyhow::Result<Vec<Pair>> {
    let ours = |region: Region| {
        populate(&mut [region.into()], Access::Read, &Settings::default()).result()
    };
    let plain = |region| advise(region, Advice::LinuxPopulateRead);
    let pair = |size| {
        pair(
            size,
            time / SIZES.len() as u32,
            |region| plain(region).context("plain"),
            |region| ours(region).map(|_| ()).context("ours"),
        )
    };
    SIZES.into_iter().map(pair).collect()
}

/// Populates larger segments by one thread and by helpers.
pub(super) fn by_helpers(time: Duration) -> anyhow::Result<Vec<Pair>> {
    let make = |region: Region, settings: &Settings| {
        let outcome = populate(&mut [region.into()], Access::Read, settings);
        outcome.result().map(|_| ()).context("populate")
    };
    let pair = |size| {
        let all = Settings::default();
        let chunk: usize = size / (4 * bigiron_helpers::processor_count().min(all.helpers));
        let many = Settings {
            straight_below: 0,
            slice: chunk.next_power_of_two().clamp(MIN_CHUNK, all.slice),
            ..all
        };
        let one = with(1);
        let time = time / THRESHOLDS.len() as u32;
        pair(
            size,
            time,
            |region| make(region, &one),
            |region| make(region, &many),
        )
    };
    THRESHOLDS.into_iter().map(pair).collect()
}

/// Returns the size from which helpers are faster; `None` if they are not.
pub fn threshold(pairs: &[Pair]) -> Option<usize> {
    let winning = pairs.iter().rev().take_while(|pair| pair.ratio < WIN);
    winning.last().map(|pair| pair.size)
}

/// Runs both methods in turns for about `time`, each on a separate segment.
fn pair(
    size: usize,
    time: Duration,
    plain: impl Fn(Region) -> anyhow::Result<()>,
    ours: impl Fn(Region) -> anyhow::Result<()>,
) -> anyhow::Result<Pair> {
    let timed = |work: &dyn Fn(Region) -> anyhow::Result<()>| -> anyhow::Result<f64> {
        let (mut held, region) = plain_segment(size)?;
        let begin = Instant::now();
        work(region)?;
        let took = begin.elapsed();
        held.destroy()?;
        Ok(took.as_secs_f64() * 1e6)
    };
    let begin = Instant::now();
    let (mut plains, mut all_ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    while ratios.len() < 10 || begin.elapsed() < time {
        // The order alternates as well, because the second finds the caches as the first left
        // them.
        let (before, after) = if ratios.len() % 2 == 0 {
            let before = timed(&plain)?;
            (before, timed(&ours)?)
        } else {
            let after = timed(&ours)?;
            (timed(&plain)?, after)
        };
        plains.push(before);
        all_ours.push(after);
        ratios.push(after / before.max(1e-3));
    }
    Ok(Pair {
        size,
        plain: median(&plains),
        ours: median(&all_ours),
        ratio: median(&ratios),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ratios: [f64; 4]) -> Vec<Pair> {
        let sizes = [1 << 20, 2 << 20, 4 << 20, 8 << 20];
        let pair = |(size, ratio)| Pair {
            size,
            plain: 1.0,
            ours: ratio,
            ratio,
        };
        sizes.into_iter().zip(ratios).map(pair).collect()
    }

    #[test]
    fn threshold_is_where_helpers_stay_faster() {
        assert_eq!(threshold(&pairs([1.5, 0.9, 0.7, 0.5])), Some(2 << 20));
        assert_eq!(threshold(&pairs([0.9, 1.1, 0.99, 0.5])), Some(8 << 20));
        assert_eq!(threshold(&pairs([0.9, 0.8, 0.7, 1.0])), None);
    }
}
