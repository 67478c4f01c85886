use super::*;

fn settings(helpers: usize) -> Settings {
    Settings {
        helpers,
        straight_below: 0,
        slice: 4096,
        ..Settings::default()
    }
}

#[test]
fn every_slice_is_done_once_and_counted() {
    let mut regions = [
        Region::between(0, 1 << 20),
        Region::between(3 << 20, 4 << 20),
    ]
    .map(JobRegion::from);
    let sum = AtomicU64::new(0);
    let outcome = share(&mut regions, &settings(4), |region| {
        sum.fetch_add(region.start() as u64, Ordering::Relaxed);
        Ok(())
    });
    assert_eq!((outcome.bytes, outcome.wanted), (2 << 20, 2 << 20));
    assert_eq!(outcome.error, None);
    let starts = (0..256)
        .chain(768..1024)
        .map(|page| page * 4096)
        .sum::<u64>();
    assert_eq!(sum.into_inner(), starts);
}

#[test]
fn first_error_stops_the_work() {
    let mut regions = [Region::between(0, 1 << 30)].map(JobRegion::from);
    let outcome = share(&mut regions, &settings(4), |region| {
        if region.start() < 1 << 20 {
            Ok(())
        } else {
            Err(Errno::NOMEM)
        }
    });
    assert_eq!(outcome.result(), Err(Errno::NOMEM));
    assert!(outcome.bytes <= 1 << 20);
}

#[test]
fn slices_of_sparse_regions_are_bounded() {
    let count = AtomicU64::new(0);
    let mut regions = [Region::between(0, 16 << 40)].map(JobRegion::from);
    let outcome = share_if_long(&mut regions, &settings(4), |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    assert_eq!(outcome.bytes, 16 << 40);
    assert!(count.into_inner() <= 2 * MAX_SLICES as u64);
}

#[test]
fn small_requests_start_no_helper() {
    let mut regions = [Region::between(0, 1 << 20)].map(JobRegion::from);
    let big_enough = Settings {
        straight_below: (1 << 20) + 1,
        ..settings(4)
    };
    assert_eq!(share(&mut regions, &big_enough, |_| Ok(())).helpers, 1);
}

#[test]
fn reserved_helpers_are_released_on_drop() {
    const ROUNDS: u32 = 100_000;
    for _ in 0..ROUNDS {
        drop(Reserved::others(4, usize::MAX));
    }
    // Other tests run helpers at the same time, but far fewer.
    assert!((AT_WORK.load(Ordering::Relaxed) as u32) < ROUNDS);
}
