//! What is held against what: the rows of the tables, their figures and targets.

use serde::Serialize;

use super::run::Sample;
use super::settings::Facts;
use super::way::{Destroy, Lock, Make, Memory, Needs, Way};
use crate::results::median;

/// As many helpers as the library takes if nothing is said.
const ALL: usize = bigiron_memory::engine::MAX_HELPERS;

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Segments that are locked by SHM_LOCK: Solaris' intimate shared memory.
    Ism,
    /// Segments that are locked by `mlock`: its dynamic intimate shared memory.
    Dism,
    /// What is not a segment, and not locked.
    Other,
}

/// How many times faster something must be, on two processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Target {
    /// Create, lock and destroy.
    pub total: Option<f64>,
    /// Destroy.
    pub destroy: Option<f64>,
    /// What the caller waits for a destroy at most, in milliseconds for each GiB.
    pub wait: Option<f64>,
}

/// A row: two ways to the same memory.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its table.
    pub kind: Kind,
    /// What memory, and what is held against what where that is not the plain calls.
    pub what: String,
    /// The plain calls, one thread.
    pub before: Way,
    /// Ours.
    pub after: Way,
    /// What is wanted.
    pub target: Target,
}

/// All rows that can be measured here, and why the others cannot.
pub(super) fn rows(facts: &Facts, allow_huge: bool, reaper: bool) -> (Vec<Row>, Vec<String>) {
    let mut rows = Vec::new();
    let mut skipped = Vec::new();
    segments(&mut rows, Kind::Ism, Lock::Shm, Lock::Shm, Make::Touch);
    segments(
        &mut rows,
        Kind::Dism,
        Lock::Mlock,
        Lock::OnFault,
        Make::ByLock,
    );
    let row = |kind, what: &str, before, after| Row {
        kind,
        what: what.to_owned(),
        before,
        after,
        target: Target::default(),
    };
    let after = |memory, make| Way {
        memory,
        make,
        destroy: Destroy::Helpers(ALL),
        ..Way::PLAIN
    };
    let best = Way {
        make: Make::OneCall,
        ..Way::PLAIN
    };
    let small = after(Memory::Segment, Make::Helpers(ALL));
    rows.push(row(
        Kind::Ism,
        "4 KiB, against one MADV_POPULATE_READ",
        best,
        small,
    ));
    let advised = Way {
        needs: Needs::ShmemAdvise,
        ..after(Memory::Segment, Make::HugeHelpers(ALL))
    };
    if facts.shmem_advised() || allow_huge {
        let what = "2 MiB, shmem_enabled=advise";
        rows.push(Row {
            target: Target::HUGE,
            ..row(Kind::Ism, what, Way::PLAIN, advised)
        });
        let one = Way {
            make: Make::OneCall,
            destroy: Destroy::Plain,
            advise_huge: true,
            ..advised
        };
        let what = "the same, against MADV_HUGEPAGE and one call";
        rows.push(row(Kind::Ism, what, one, advised));
    } else {
        skipped.push(format!(
            "2 MiB at the fault: shmem_enabled is {}; as root, --allow-huge sets it to advise for a moment",
            facts.shmem_enabled
        ));
    }
    if facts.pool.1 > 0 || allow_huge {
        let of_pool = |way| Way {
            memory: Memory::Hugetlb,
            needs: Needs::Pool,
            ..way
        };
        let what = "2 MiB hugetlb";
        rows.push(row(Kind::Ism, what, of_pool(Way::PLAIN), of_pool(small)));
    } else {
        skipped.push(
            "2 MiB hugetlb: there is no pool; as root, --allow-huge reserves one for a moment"
                .into(),
        );
    }
    others(&mut rows);
    if reaper {
        let reaped = |make| Way {
            destroy: Destroy::Reaper(ALL),
            ..after(Memory::Segment, make)
        };
        let target = Target {
            wait: Some(1.0),
            ..Target::default()
        };
        let (small, huge) = (reaped(Make::Helpers(ALL)), reaped(Make::HugeHelpers(ALL)));
        let row = |what, after| Row {
            target,
            ..row(Kind::Other, what, Way::PLAIN, after)
        };
        rows.push(row("4 KiB segment, reaper", small));
        rows.push(row("2 MiB segment, reaper", huge));
    } else {
        skipped.push("reaper: the program was not found".into());
    }
    (rows, skipped)
}

impl Target {
    const SMALL: Self = Self {
        total: Some(1.5),
        destroy: None,
        wait: None,
    };
    const STRIPED: Self = Self {
        total: Some(1.7),
        destroy: Some(1.6),
        wait: None,
    };
    const HUGE: Self = Self {
        total: Some(6.0),
        destroy: Some(10.0),
        wait: None,
    };
}

/// The rows that ISM and DISM have alike.
fn segments(rows: &mut Vec<Row>, kind: Kind, before: Lock, after: Lock, plain: Make) {
    let before = Way {
        lock: before,
        make: plain,
        ..Way::PLAIN
    };
    let after = |memory, make| Way {
        memory,
        make,
        lock: after,
        destroy: Destroy::Helpers(ALL),
        ..Way::PLAIN
    };
    let small = Make::Helpers(ALL);
    let cases = [
        ("4 KiB", after(Memory::Segment, small), Target::SMALL),
        (
            "4 KiB, 2 segments side by side",
            after(Memory::Striped(2), small),
            Target::STRIPED,
        ),
        (
            "4 KiB, 4 segments side by side",
            after(Memory::Striped(4), small),
            Target::STRIPED,
        ),
        (
            "2 MiB, by MADV_COLLAPSE",
            after(Memory::Segment, Make::HugeHelpers(ALL)),
            Target::HUGE,
        ),
    ];
    rows.extend(cases.map(|(what, after, target)| Row {
        kind,
        what: what.into(),
        before,
        after,
        target,
    }));
}

/// memfd and anonymous memory.
fn others(rows: &mut Vec<Row>) {
    for (memory, name) in [(Memory::Memfd, "memfd"), (Memory::Anonymous, "anonymous")] {
        let before = Way {
            memory,
            lock: Lock::No,
            ..Way::PLAIN
        };
        let after = |make| Way {
            make,
            destroy: Destroy::Helpers(ALL),
            ..before
        };
        let row = |what: String, before, after| Row {
            kind: Kind::Other,
            what,
            before,
            after,
            target: Target::default(),
        };
        rows.push(row(
            format!("{name}, 4 KiB"),
            before,
            after(Make::Helpers(ALL)),
        ));
        let huge = after(Make::HugeHelpers(ALL));
        rows.push(row(format!("{name}, 2 MiB"), before, huge));
        if memory == Memory::Anonymous {
            let advised = Way {
                advise_huge: true,
                ..before
            };
            let what = format!("{name}, 2 MiB, against MADV_HUGEPAGE");
            rows.push(row(what, advised, huge));
        }
    }
}

/// All ways that rows need, each once.
pub(super) fn ways<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for way in rows.flat_map(|row| [row.before, row.after]) {
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    ways
}

/// Medians of the rounds of one way.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// The medians.
    pub middle: Sample,
    /// How far the middle half of all totals spreads, as a part of the median.
    pub spread: f64,
    /// Every round.
    pub rounds: Vec<Sample>,
}

impl Figures {
    /// Of what was measured.
    pub fn of(rounds: Vec<Sample>) -> Self {
        let middle =
            |field: fn(&Sample) -> f64| median(&rounds.iter().map(field).collect::<Vec<_>>());
        let complete: Vec<f64> = rounds.iter().filter_map(|round| round.complete).collect();
        let total = middle(Sample::total);
        Self {
            middle: Sample {
                create: middle(|round| round.create),
                destroy: middle(|round| round.destroy),
                unmap: middle(|round| round.unmap),
                complete: (!complete.is_empty()).then(|| median(&complete)),
                huge: middle(|round| round.huge),
                helpers: rounds.iter().map(|round| round.helpers).max().unwrap_or(0),
            },
            spread: spread(&rounds, total),
            rounds,
        }
    }

    /// The median of create, lock and destroy together.
    pub fn total(&self) -> f64 {
        median(&self.rounds.iter().map(Sample::total).collect::<Vec<_>>())
    }
}

fn spread(rounds: &[Sample], middle: f64) -> f64 {
    let mut totals: Vec<f64> = rounds.iter().map(Sample::total).collect();
    totals.sort_unstable_by(f64::total_cmp);
    let at = |quarter: usize| {
        let index = (totals.len().saturating_sub(1) * quarter + 2) / 4;
        totals.get(index).copied().unwrap_or(0.0)
    };
    (at(3) - at(1)) / middle.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(shmem_enabled: &str, pool: u64) -> Facts {
        Facts {
            enabled: "madvise".into(),
            shmem_enabled: shmem_enabled.into(),
            pool: (pool, pool),
            lock_limit: None,
            swap: 0,
        }
    }

    #[test]
    fn rows_are_left_out_with_a_reason_where_the_kernel_is_not_set_for_them() {
        let (few, skipped) = rows(&facts("never", 0), false, false);
        assert_eq!(skipped.len(), 3);
        let (all, skipped) = rows(&facts("never", 0), true, true);
        assert!(skipped.is_empty());
        assert!(all.len() > few.len());
        assert!(rows(&facts("advise", 9), false, true).1.is_empty());
        // Whatever is left out: nothing else changes settings.
        assert!(few.iter().all(|row| row.after.needs == Needs::Nothing));
    }

    #[test]
    fn the_plain_way_is_measured_once_for_all_its_rows() {
        let (all, _) = rows(&facts("never", 0), true, true);
        let ways = ways(all.iter());
        assert_eq!(ways.iter().filter(|way| **way == Way::PLAIN).count(), 1);
        assert!(ways.len() < 2 * all.len());
    }

    #[test]
    fn figures_are_medians() {
        let sample = |create, destroy| Sample {
            create,
            destroy,
            ..Sample::default()
        };
        let figures = Figures::of(vec![
            sample(1.0, 9.0),
            sample(2.0, 30.0),
            sample(300.0, 7.0),
            sample(3.0, 8.0),
            sample(4.0, 8.5),
        ]);
        assert_eq!((figures.middle.create, figures.middle.destroy), (3.0, 8.5));
        assert_eq!(figures.total(), 12.5);
        // The totals are 10, 11, 12.5, 32 and 307: the middle half is from 11 to 32.
        assert_eq!(figures.spread, 21.0 / 12.5);
    }
}
