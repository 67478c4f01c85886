//! The pairs that are compared: the rows of the tables, their figures and targets.

use serde::Serialize;

use super::method::{Destroy, Lock, Make, Memory, Method, Needs};
use super::run::Sample;
use super::settings::Facts;
use crate::results::median;

/// The default number of helpers.
const ALL: usize = bigiron_memory::engine::MAX_HELPERS;

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Segments locked by SHM_LOCK: Solaris' intimate shared memory (ISM).
    Ism,
    /// Segments locked by `mlock`: Solaris' dynamic intimate shared memory (DISM).
    Dism,
    /// Memory that is not a segment, and not locked.
    Other,
}

/// Minimum speedup on two processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Target {
    /// Speedup of create, lock and destroy together.
    pub total: Option<f64>,
    /// Speedup of destroy.
    pub destroy: Option<f64>,
    /// Maximum time that the caller waits for the destruction, in milliseconds per GiB.
    pub wait: Option<f64>,
}

/// A row: two methods to create and destroy the same memory.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Table of the row.
    pub kind: Kind,
    /// Kind of memory, and the reference if it is not the plain calls.
    pub what: String,
    /// The plain calls, in one thread.
    pub before: Method,
    /// The library's calls.
    pub after: Method,
    /// Required speedup.
    pub target: Target,
}

/// Returns all rows that can be measured on this system, and the reasons why others cannot.
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
    let after = |memory, make| Method {
        memory,
        make,
        destroy: Destroy::Helpers(ALL),
        ..Method::PLAIN
    };
    let best = Method {
        make: Make::OneCall,
        ..Method::PLAIN
    };
    let small = after(Memory::Segment, Make::Helpers(ALL));
    rows.push(row(
        Kind::Ism,
        "4 KiB, against one MADV_POPULATE_READ",
        best,
        small,
    ));
    let advised = Method {
        needs: Needs::ShmemAdvise,
        ..after(Memory::Segment, Make::HugeHelpers(ALL))
    };
    if facts.shmem_advised() || allow_huge {
        let what = "2 MiB, shmem_enabled=advise";
        rows.push(Row {
            target: Target::HUGE,
            ..row(Kind::Ism, what, Method::PLAIN, advised)
        });
        let one = Method {
            make: Make::OneCall,
            destroy: Destroy::Plain,
            advise_huge: true,
            ..advised
        };
        let what = "the same, against MADV_HUGEPAGE and one call";
        rows.push(row(Kind::Ism, what, one, advised));
    } else {
        skipped.push(format!(
            "2 MiB at the fault: shmem_enabled is {}; as root, --allow-huge temporarily sets it to advise",
            facts.shmem_enabled
        ));
    }
    if facts.pool.1 > 0 || allow_huge {
        let of_pool = |method| Method {
            memory: Memory::Hugetlb,
            needs: Needs::Pool,
            ..method
        };
        let what = "2 MiB hugetlb";
        rows.push(row(Kind::Ism, what, of_pool(Method::PLAIN), of_pool(small)));
    } else {
        skipped.push(
            "2 MiB hugetlb: there is no pool; as root, --allow-huge temporarily reserves one"
                .into(),
        );
    }
    others(&mut rows);
    if reaper {
        let reaped = |make| Method {
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
            ..row(Kind::Other, what, Method::PLAIN, after)
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

/// Adds the rows that ISM and DISM have in common.
fn segments(rows: &mut Vec<Row>, kind: Kind, before: Lock, after: Lock, plain: Make) {
    let before = Method {
        lock: before,
        make: plain,
        ..Method::PLAIN
    };
    let after = |memory, make| Method {
        memory,
        make,
        lock: after,
        destroy: Destroy::Helpers(ALL),
        ..Method::PLAIN
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

/// Adds the rows of memfd and anonymous memory.
fn others(rows: &mut Vec<Row>) {
    for (memory, name) in [(Memory::Memfd, "memfd"), (Memory::Anonymous, "anonymous")] {
        let before = Method {
            memory,
            lock: Lock::No,
            ..Method::PLAIN
        };
        let after = |make| Method {
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
            let advised = Method {
                advise_huge: true,
                ..before
            };
            let what = format!("{name}, 2 MiB, against MADV_HUGEPAGE");
            rows.push(row(what, advised, huge));
        }
    }
}

/// Returns all methods that the rows need, without duplicates.
pub(super) fn methods<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<Method> {
    let mut methods: Vec<Method> = Vec::new();
    for method in rows.flat_map(|row| [row.before, row.after]) {
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    methods
}

/// Medians of the rounds of one method.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Medians.
    pub middle: Sample,
    /// Interquartile range of the totals, as a fraction of the median.
    pub spread: f64,
    /// Results of each round.
    pub rounds: Vec<Sample>,
}

impl Figures {
    /// Computes the figures of `rounds`.
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

    /// Returns the median time of create, lock and destroy together.
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
    fn rows_without_the_required_kernel_setting_are_skipped_with_a_reason() {
        let (few, skipped) = rows(&facts("never", 0), false, false);
        assert_eq!(skipped.len(), 3);
        let (all, skipped) = rows(&facts("never", 0), true, true);
        assert!(skipped.is_empty());
        assert!(all.len() > few.len());
        assert!(rows(&facts("advise", 9), false, true).1.is_empty());
        // The rows that remain need no kernel setting.
        assert!(few.iter().all(|row| row.after.needs == Needs::Nothing));
    }

    #[test]
    fn plain_way_is_measured_once_for_all_its_rows() {
        let (all, _) = rows(&facts("never", 0), true, true);
        let methods = methods(all.iter());
        assert_eq!(
            methods
                .iter()
                .filter(|method| **method == Method::PLAIN)
                .count(),
            1
        );
        assert!(methods.len() < 2 * all.len());
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
        // The totals are 10, 11, 12.5, 32 and 307, so the middle half ranges from 11 to 32.
        assert_eq!(figures.spread, 21.0 / 12.5);
    }
}
