//! A model that estimates the effect of more helpers, by the events of [`crate::scale`].
//!
//! A helper takes a piece of memory, zeroes it over the shared memory bus, and works on it. The
//! cost of zeroing is that of huge pages, which is almost all zeroing. Two helpers are less
//! than twice as fast as one, and two measurements cannot identify the cause, so the model has
//! two cases. In the worst case the loss is serial work (locks), and the memory feeds no more
//! helpers than measured. In the best case helpers slow each other down only as much as two do,
//! and the memory feeds all of them. In both cases the pages of an inode are freed by one
//! helper.

use serde::Serialize;

use super::method::{Destroy, Lock, Make, Memory, Method};
use super::rows::Figures;
use crate::scale::model::{Cost, Machine, Pass, WorkItem};
use crate::scale::simulate::simulate;

/// Numbers of helpers shown.
pub const HELPERS: [usize; 5] = [1, 2, 4, 8, 16];
/// Pieces per GiB.
const PIECES: u64 = 2048;
/// Variation of the work per piece.
const SPREAD: f64 = 0.3;
const NANOSECONDS: f64 = 1e6;

/// Returns the methods on which the model is calibrated: small and huge pages, with one helper and
/// with two.
pub(super) fn methods() -> [Method; 4] {
    let method = |make, helpers| Method {
        make,
        destroy: Destroy::Helpers(helpers),
        ..Method::PLAIN
    };
    [
        method(Make::Helpers(1), 1),
        method(Make::Helpers(2), 2),
        method(Make::HugeHelpers(1), 1),
        method(Make::HugeHelpers(2), 2),
    ]
}

/// Returns the methods with which the model is checked. It is not calibrated on any of them.
pub(super) fn checks() -> [(&'static str, usize, Method); 4] {
    let method = |memory, lock| Method {
        memory,
        make: Make::Helpers(2),
        lock,
        destroy: Destroy::Helpers(2),
        ..Method::PLAIN
    };
    [
        (
            "2 segments side by side",
            2,
            method(Memory::Striped(2), Lock::Shm),
        ),
        (
            "3 segments side by side",
            3,
            method(Memory::Striped(3), Lock::Shm),
        ),
        (
            "4 segments side by side",
            4,
            method(Memory::Striped(4), Lock::Shm),
        ),
        ("memfd, not locked", 1, method(Memory::Memfd, Lock::No)),
    ]
}

/// Milliseconds per GiB with one helper and with two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// With one helper.
    pub one: f64,
    /// With two helpers.
    pub two: f64,
}

/// A case of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Case {
    /// The loss of two helpers is serial, and the memory bandwidth is as measured.
    Worst,
    /// Each helper is as slow next to many others as next to one, and the memory feeds all of
    /// them.
    Best,
}

/// A step of the model, in milliseconds per GiB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Zeroing, over the memory bus.
    pub bus: f64,
    /// All other work, by one helper alone.
    pub alone: f64,
    /// Worst case: the serial part of that work.
    pub serial: f64,
    /// Best case: the factor by which that work takes longer next to another helper.
    pub beside: f64,
}

impl Step {
    /// Fits a step to the times of one helper and of two. `zeroing` is the part that uses a bus
    /// which feeds `bus` helpers.
    fn fit(pair: Pair, zeroing: f64, bus: f64) -> Self {
        let zeroing = zeroing.min(pair.one);
        let step = |serial, beside| Self {
            bus: zeroing,
            alone: pair.one - zeroing,
            serial,
            beside,
        };
        let rest = pair.one - zeroing;
        let serial = find(0.0, rest, |serial| {
            step(serial, 1.0).time(Case::Worst, 2, bus) < pair.two
        });
        let beside = find(1.0, 4.0, |beside| {
            step(0.0, beside).time(Case::Best, 2, bus) < pair.two
        });
        step(serial, beside)
    }

    /// Returns the time that `helpers` take; the memory feeds `bus` of them at full speed.
    fn time(&self, case: Case, helpers: usize, bus: f64) -> f64 {
        let machine = Machine {
            helpers,
            bus_helpers: bus,
            ..Machine::default()
        };
        let (serial, beside) = match case {
            Case::Worst => (self.serial, 1.0),
            Case::Best => (0.0, self.beside),
        };
        let each = |milliseconds: f64| milliseconds * NANOSECONDS / PIECES as f64;
        let alone = each(self.alone - serial);
        let pass = Pass {
            name: "pages",
            pieces: PIECES,
            piece: WorkItem {
                source: Cost::of(each(self.bus)),
                cpu: Cost {
                    alone,
                    beside: alone * beside,
                },
                ..WorkItem::default()
            },
            spread: SPREAD,
        };
        serial + simulate(&machine, &[pass]).seconds * 1e3
    }
}

/// Returns the largest value for which `is_less` returns true, by bisection.
fn find(mut least: f64, mut most: f64, is_less: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..30 {
        let middle = f64::midpoint(least, most);
        if is_less(middle) {
            least = middle;
        } else {
            most = middle;
        }
    }
    least
}

/// The costs, and the assumed memory bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Model {
    /// Population with small pages.
    pub create: Step,
    /// Population with huge pages.
    pub create_huge: Step,
    /// Removal of the page tables of small pages.
    pub unmap: Step,
    /// Time to free the small pages of one inode, in milliseconds per GiB.
    pub evict: f64,
    /// Time of the whole destruction of huge pages, in milliseconds per GiB.
    pub destroy_huge: f64,
    /// Number of helpers that the memory of this machine feeds while they zero pages.
    pub bus: f64,
}

/// A prediction and its measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Description of the case.
    pub what: &'static str,
    /// Predicted time to create, lock and destroy with two helpers, in milliseconds per GiB.
    pub predicted: f64,
    /// Measured time, in milliseconds per GiB.
    pub measured: f64,
}

impl Model {
    /// Calibrates the model on the figures of [`methods`], in their order.
    pub(super) fn of(figures: &[Figures; 4]) -> Self {
        let [small_one, small_two, huge_one, huge_two] = figures;
        let pair = |field: fn(&Figures) -> f64, one, two| Pair {
            one: field(one),
            two: field(two),
        };
        let create = |figures: &Figures| figures.middle.create;
        let huge = pair(create, huge_one, huge_two);
        let bus = (huge.one / huge.two.max(1e-9)).clamp(1.0, 2.0);
        let unmap = pair(|figures| figures.middle.unmap, small_one, small_two);
        let evict = |figures: &Figures| figures.middle.destroy - figures.middle.unmap;
        Self {
            create: Step::fit(pair(create, small_one, small_two), huge.one, bus),
            create_huge: Step {
                bus: huge.one,
                alone: 0.0,
                serial: 0.0,
                beside: 1.0,
            },
            unmap: Step::fit(unmap, 0.0, bus),
            evict: f64::midpoint(evict(small_one), evict(small_two)),
            destroy_huge: huge_two.middle.destroy,
            bus,
        }
    }

    /// Returns the time to create, lock and destroy small pages in `inodes` inodes, in
    /// milliseconds per GiB.
    pub fn small(&self, case: Case, helpers: usize, inodes: usize) -> f64 {
        let turns = inodes.div_ceil(helpers);
        let bus = self.fed(case, helpers);
        self.create.time(case, helpers, bus)
            + self.unmap.time(case, helpers, bus)
            + self.evict * turns as f64 / inodes as f64
    }

    /// Returns the same time for huge pages.
    pub fn huge(&self, case: Case, helpers: usize) -> f64 {
        let bus = self.fed(case, helpers);
        self.create_huge.time(case, helpers, bus) + self.destroy_huge
    }

    /// Returns the number of helpers that the memory feeds. For two helpers it is always the
    /// measured value.
    fn fed(&self, case: Case, helpers: usize) -> f64 {
        match case {
            Case::Best if helpers > 2 => helpers as f64,
            _ => self.bus,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) {
        assert!(
            (value - expected).abs() < 0.05 * expected,
            "{value}, expected {expected}"
        );
    }

    const NOTHING: Step = Step {
        bus: 0.0,
        alone: 0.0,
        serial: 0.0,
        beside: 1.0,
    };

    #[test]
    fn model_reproduces_the_fitted_times() {
        for (one, two) in [(460.0, 260.0), (460.0, 240.0), (100.0, 70.0)] {
            let step = Step::fit(Pair { one, two }, 30.0, 1.5);
            near(step.time(Case::Worst, 1, 1.5), one);
            for case in [Case::Worst, Case::Best] {
                near(step.time(case, 2, 1.5), two);
            }
        }
    }

    #[test]
    fn serial_work_and_bus_limit_many_helpers() {
        let step = Step {
            bus: 40.0,
            alone: 400.0,
            serial: 20.0,
            beside: 1.1,
        };
        near(step.time(Case::Worst, 16, 16.0), 20.0 + 420.0 / 16.0);
        near(step.time(Case::Worst, 16, 1.0), 20.0 + 40.0);
        near(step.time(Case::Best, 16, 16.0), 480.0 / 16.0);
    }

    #[test]
    fn pages_of_one_inode_are_freed_by_one_helper() {
        let model = Model {
            create: NOTHING,
            create_huge: NOTHING,
            unmap: NOTHING,
            evict: 120.0,
            destroy_huge: 3.0,
            bus: 2.0,
        };
        near(model.small(Case::Best, 16, 1), 120.0);
        near(model.small(Case::Best, 2, 3), 80.0);
        near(model.small(Case::Worst, 16, 16), 7.5);
        near(model.huge(Case::Best, 16), 3.0);
    }
}
