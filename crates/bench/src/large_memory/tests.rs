//! A small run of the complete measurement.

use super::*;

fn options() -> Options {
    Options {
        size: 32 << 20,
        rounds: 1,
        allow_huge: false,
        threshold: true,
        peers: false,
        small: Duration::from_millis(60),
        program: None,
    }
}

#[test]
fn small_run_fills_all_tables_and_leaves_nothing() {
    let mut told = Vec::new();
    let results = measure(&options(), &Machine::here(), &Stop::new(), &mut |text| {
        told.push(text.to_owned())
    })
    .unwrap();
    assert_eq!(results.size, 48 << 20);
    assert!(told.contains(&"round 1 of 1".to_owned()));
    // A trial whose memory was not present, not locked or not released fails, so these were
    // checked. Without permission to lock memory only the unlocked rows exist.
    let kinds = |kind| {
        results
            .rows
            .iter()
            .filter(|row| row.row.kind == kind)
            .count()
    };
    assert!(kinds(rows::Kind::Other) >= 5);
    if kinds(rows::Kind::Ism) == 0 || kinds(rows::Kind::Dism) == 0 {
        assert!(
            results.skipped.iter().any(|text| text.contains("lock")),
            "{:?}",
            results.skipped
        );
        eprintln!("SKIP: rows of locked memory: {:?}", results.skipped);
    }
    for row in &results.rows {
        for figures in [&row.plain, &row.ours] {
            assert_eq!(figures.rounds.len(), 1, "{}", row.row.what);
            assert!(figures.middle.create > 0.0 && figures.middle.destroy > 0.0);
            assert!(figures.middle.helpers >= 1);
        }
        assert!(row.row.after.wants_huge() || row.ours.middle.huge == 0.0);
    }
    let text = table::table(&results);
    let parts = ["ISM", "DISM", "Create and destroy apart", "Small requests"];
    for part in parts {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert_eq!(results.small.len(), 6);
    if results.model.is_some() {
        assert!(text.contains("MODEL"), "{text}");
        assert_eq!(results.checks.len(), 4);
    }
}

#[test]
fn stop_request_ends_the_measurement_between_trials() {
    let stop = Stop::new();
    stop.set();
    let error = measure(&options(), &Machine::here(), &stop, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
}

#[test]
fn size_above_available_memory_is_an_error() {
    let options = Options {
        size: 1 << 50,
        ..options()
    };
    let error = measure(&options, &Machine::here(), &Stop::new(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("--size"), "{error}");
}
