//! Buckets with similar stacks: perhaps one bug that is met in two ways.
//!
//! Frames of two stacks are matched by name, the first with the first, in time linear in their
//! number, as FaST does (Rodrigues et al., MSR 2022). A matched pair counts the more, the rarer
//! its function is among all buckets, the nearer it is to the blamed function, and the less its
//! two places differ.

use std::collections::HashMap;

use super::bucket::{Bucket, Similar};

/// Score from which on buckets are similar; equal stacks have 1.
const SIMILAR: f64 = 0.5;
/// Buckets named as similar to one.
const SHOWN: usize = 5;
/// A function in more buckets than this brings none together: the search stays linear.
const MAX_SHARED: usize = 64;
/// How fast the weight falls with the distance from the blamed function.
const DEPTH: f64 = 0.1;
/// How fast it falls with the difference of places.
const SHIFT: f64 = 0.2;

/// The frames of a stack: names by number and places, sorted, so that two are merged in one go.
struct Stack {
    frames: Vec<(usize, usize)>,
    weight: f64,
}

/// Finds the buckets that are similar to each.
pub fn find(buckets: &mut [Bucket]) {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut stacks: Vec<Vec<(usize, usize)>> = Vec::new();
    for bucket in buckets.iter() {
        let frames = bucket.frames.iter().enumerate().map(|(place, name)| {
            let next = numbers.len();
            (*numbers.entry(name).or_insert(next), place)
        });
        let mut frames: Vec<_> = frames.collect();
        frames.sort_unstable();
        stacks.push(frames);
    }
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); numbers.len()];
    for (bucket, frames) in stacks.iter().enumerate() {
        for (name, _) in frames {
            if users[*name].last() != Some(&bucket) {
                users[*name].push(bucket);
            }
        }
    }
    let all = buckets.len() as f64;
    let rarity: Vec<f64> = users
        .iter()
        .map(|users| (1.0 + all / users.len() as f64).ln())
        .collect();
    let stacks: Vec<Stack> = stacks
        .into_iter()
        .map(|frames| Stack {
            weight: frames.iter().map(|frame| weight(*frame, &rarity)).sum(),
            frames,
        })
        .collect();
    let found: Vec<Vec<Similar>> = (0..buckets.len())
        .map(|bucket| similar_to(bucket, buckets, &stacks, &users, &rarity))
        .collect();
    for (bucket, similar) in buckets.iter_mut().zip(found) {
        bucket.similar = similar;
    }
}

fn similar_to(
    bucket: usize,
    buckets: &[Bucket],
    stacks: &[Stack],
    users: &[Vec<usize>],
    rarity: &[f64],
) -> Vec<Similar> {
    let names = stacks[bucket].frames.iter().map(|(name, _)| &users[*name]);
    let rare = names.filter(|users| users.len() <= MAX_SHARED);
    let mut others: Vec<usize> = rare
        .flatten()
        .copied()
        .filter(|other| *other != bucket)
        .collect();
    others.sort_unstable();
    others.dedup();
    let scored = others
        .into_iter()
        .map(|other| (score(&stacks[bucket], &stacks[other], rarity), other));
    let mut scored: Vec<_> = scored.filter(|(score, _)| *score >= SIMILAR).collect();
    scored.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            .then_with(|| buckets[a.1].title.cmp(&buckets[b.1].title))
    });
    let shown = scored.into_iter().take(SHOWN);
    shown
        .map(|(score, other)| Similar {
            id: buckets[other].id.clone(),
            title: buckets[other].title.clone(),
            score: (score * 1000.0).round() / 1000.0,
        })
        .collect()
}

/// From 0 for stacks without a common function to 1 for equal ones.
fn score(a: &Stack, b: &Stack, rarity: &[f64]) -> f64 {
    let (mut i, mut j, mut common) = (0, 0, 0.0);
    while let (Some(x), Some(y)) = (a.frames.get(i), b.frames.get(j)) {
        match x.0.cmp(&y.0) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                let shift = x.1.abs_diff(y.1) as f64;
                common += (weight(*x, rarity) + weight(*y, rarity)) * (-SHIFT * shift).exp();
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    let whole = a.weight + b.weight;
    if whole > 0.0 { common / whole } else { 0.0 }
}

fn weight((name, place): (usize, usize), rarity: &[f64]) -> f64 {
    rarity[name] * (-DEPTH * place as f64).exp()
}
