//! Costs of the operations of a domain build.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use fixedbitset::FixedBitSet;

use super::measured::{Basis, Measured, median};
use crate::build::pairs_are_sane;

/// Number of CPUs of the largest machine used for measuring; a larger one would need too much
/// memory.
const MAX_CPUS: usize = 8192;
/// Size of the timed masks, in bits.
const BITS: usize = 8192;
/// Sizes of struct sched_domain, sched_domain_shared, sched_group and sched_group_capacity, in
/// bytes and without masks, as reported by pahole for Linux 6.1 on x86; true if a mask follows.
const STRUCTURES: [(usize, bool); 4] = [(304, true), (16, false), (40, true), (48, true)];
/// Number of passes over words, members and generations.
const TIMES: usize = 2000;

pub(super) fn measure(cpus: usize, measured: &mut Measured) {
    let cpus = cpus.clamp(64, MAX_CPUS);
    let costs = &mut measured.costs;
    costs.mask_word = mask_word();
    costs.check_word = check_word();
    costs.member = member(cpus);
    costs.domain = domain(cpus);
    costs.sibling = sibling(cpus);
    costs.generation = generation();
    let by = format!("in user space, with the structures of {cpus} CPUs");
    let names = [
        "domain",
        "mask_word",
        "member",
        "sibling",
        "check_word",
        "generation",
    ];
    measured.say(&names, Basis::Measured, by);
}

/// Returns a mask of every other CPU.
fn half(bits: usize) -> FixedBitSet {
    let mut mask = FixedBitSet::with_capacity(bits);
    mask.extend((0..bits).step_by(2));
    mask
}

fn mask_word() -> f64 {
    let (mut one, other) = (half(BITS), half(BITS));
    let time = median(|| {
        for _ in 0..TIMES {
            black_box(&mut one).intersect_with(black_box(&other));
            black_box(black_box(&one).count_ones(..));
            black_box(black_box(&one) == black_box(&other));
            black_box(black_box(&one).is_subset(black_box(&other)));
        }
    });
    time / (4 * TIMES * BITS / 64) as f64
}

/// Measures the check itself, on cores with eight threads.
fn check_word() -> f64 {
    const CPUS: usize = 256;
    let mask = |cpu: usize| {
        let mut mask = FixedBitSet::with_capacity(BITS);
        mask.insert_range(cpu / 8 * 8..cpu / 8 * 8 + 8);
        mask
    };
    let masks: Vec<FixedBitSet> = (0..CPUS).map(mask).collect();
    let masks: Vec<_> = masks.iter().enumerate().collect();
    let time = median(|| {
        black_box(pairs_are_sane(black_box(&masks)));
    });
    time / (CPUS * (CPUS - 1) * BITS / 64) as f64
}

fn member(cpus: usize) -> f64 {
    let (mut all, covered) = (FixedBitSet::with_capacity(cpus), half(cpus));
    all.insert_range(..);
    let rounds = (TIMES * 64).div_ceil(cpus);
    let time = median(|| {
        for _ in 0..rounds {
            let members = black_box(&all).ones();
            let left = members.filter(|cpu| !black_box(&covered).contains(*cpu));
            black_box(left.count());
        }
    });
    time / (rounds * cpus) as f64
}

/// Allocates zeroed memory for a structure.
fn zeroed(bytes: usize) -> Vec<u64> {
    vec![0; bytes.div_ceil(8)]
}

/// Measures creating and freeing all structures of the domains of one level, without the time
/// for their masks.
fn domain(cpus: usize) -> f64 {
    let mask = cpus.div_ceil(64) * 8;
    let time = median(|| {
        let all: Vec<Vec<u64>> = (0..cpus)
            .flat_map(|_| STRUCTURES)
            .map(|(bytes, has_mask)| {
                let mut memory = zeroed(bytes + if has_mask { mask } else { 0 });
                // sd_init writes the nonzero members; pages must be present.
                let words = bytes / 8;
                memory.iter_mut().take(words).for_each(|word| *word = 1);
                memory
            })
            .collect();
        drop(black_box(all));
    });
    time / cpus as f64
}

/// Measures visiting the domains of all CPUs, which are scattered in memory.
fn sibling(cpus: usize) -> f64 {
    let bytes = STRUCTURES[0].0 + cpus.div_ceil(64) * 8;
    let domains: Vec<Vec<u64>> = (0..cpus).map(|_| zeroed(bytes)).collect();
    // A stride that visits each CPU once: odd, where the number of CPUs is even.
    let step = (cpus * 5 / 8) | 1;
    let time = median(|| {
        let mut sum = 0_u64;
        for number in 0..cpus {
            let at = domains.get((number * step) % cpus);
            // The address of the child, and the first word of its span.
            let words = at.map(|domain| (domain.first(), domain.get(38)));
            if let Some((Some(child), Some(span))) = black_box(words) {
                sum = sum.wrapping_add(*child).wrapping_add(*span);
            }
        }
        black_box(sum);
    });
    time / cpus as f64
}

fn generation() -> f64 {
    let generation = AtomicU64::new(0);
    let time = median(|| {
        for _ in 0..TIMES {
            black_box(&generation).fetch_add(1, Ordering::SeqCst);
        }
    });
    time / TIMES as f64
}
