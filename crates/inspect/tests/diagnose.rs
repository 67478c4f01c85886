//! Diagnoses of the real vmcore in samples/, whose kernel was healthy.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod sample;

use bigiron_helpers::Stop;
use bigiron_inspect::diagnose::WEIGHTY;
use bigiron_inspect::{Diagnosis, Waits};

use sample::{sample, with_program};

#[test]
fn nothing_of_weight_is_found_in_a_healthy_kernel() {
    with_program(&sample(), |program| {
        let found = Diagnosis::of(program, &Stop::new());
        let weighty = |finding: &&bigiron_inspect::Finding| finding.weight >= WEIGHTY;
        assert_eq!(found.findings.iter().find(weighty), None);
        assert!(found.complete && !found.is_weighty());
        let skipped: Vec<_> = found.skipped.iter().map(|one| one.finding).collect();
        assert!(skipped.is_empty(), "{:?}", found.skipped);
    });
}

#[test]
fn every_kind_of_waiter_is_known_to_the_kernel() {
    with_program(&sample(), |program| {
        let waits = Waits::of(program, &Stop::new()).unwrap();
        assert_eq!(waits.gaps, Vec::<String>::new());
        assert!(waits.cycles.is_empty() && waits.roots.is_empty());
    });
}

#[test]
fn search_ends_when_the_time_is_over() {
    with_program(&sample(), |program| {
        let stop = Stop::new();
        stop.set();
        let found = Diagnosis::of(program, &stop);
        assert!(!found.complete && found.findings.is_empty());
        let waits = Waits::of(program, &stop).unwrap();
        assert!(waits.waits.is_empty());
        assert!(waits.gaps.iter().any(|gap| gap.contains("time")));
    });
}
