//! Small requests: what they cost beside the plain call, and from which size on helpers win.

use std::time::{Duration, Instant};

use anyhow::Context;
use bigiron_memory::operation::{Access, advise, populate};
use bigiron_memory::{Region, Settings};
use rustix::mm::Advice;
use serde::Serialize;

use super::run::{plain_segment, with};
use crate::results::median;

/// Requests that are small.
const SIZES: [usize; 6] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];
/// Requests among which the threshold is looked for.
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
/// The least chunk of the search: helpers must have several each.
const MIN_CHUNK: usize = 64 << 10;
/// Helpers win where they are this much faster: less is not worth their processors.
const WIN: f64 = 0.95;

/// What a size of request costs in two ways, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Bytes.
    pub size: usize,
    /// By one plain call.
    pub plain: f64,
    /// By ours.
    pub ours: f64,
    /// The median of what ours took more than the plain call beside it, as a part of it.
    pub ratio: f64,
}

/// Makes the pages of small segments: the plain call and ours in turns, with the settings
/// that programs get, so that ours go straight to the kernel.
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

/// The same for larger ones, by helpers and by one.
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

/// The least size from which on helpers win; `None` if they do not.
pub fn threshold(pairs: &[Pair]) -> Option<usize> {
    let winning = pairs.iter().rev().take_while(|pair| pair.ratio < WIN);
    winning.last().map(|pair| pair.size)
}

/// Both ways in turns, each on a segment of its own, for about as long as `time`.
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
        // Who begins changes too: the second finds what the first left in the caches.
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
    fn the_threshold_is_where_helpers_win_for_good() {
        assert_eq!(threshold(&pairs([1.5, 0.9, 0.7, 0.5])), Some(2 << 20));
        assert_eq!(threshold(&pairs([0.9, 1.1, 0.99, 0.5])), Some(8 << 20));
        assert_eq!(threshold(&pairs([0.9, 0.8, 0.7, 1.0])), None);
    }
}
