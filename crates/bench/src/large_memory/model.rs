//! What more helpers would give: a model, by the events of [`crate::scale`].
//!
//! A helper takes a piece of memory, zeroes it over the shared memory bus, and works on it.
//! What is zeroing is the cost of huge pages, which is hardly anything else. Two helpers are
//! less than twice as fast as one, and two measurements cannot tell why, so that there are two
//! answers. At worst what they lose is work that only one can do at a time (locks), and the
//! memory feeds no more helpers than it is seen to. At best they only slow each other down as
//! two do, and the memory feeds all. The pages of one inode are given back by one helper in any case.

use serde::Serialize;

use super::rows::Figures;
use super::way::{Destroy, Lock, Make, Memory, Way};
use crate::scale::model::{Cost, Machine, Pass, Piece};
use crate::scale::simulate::simulate;

/// Numbers of helpers that are shown.
pub const HELPERS: [usize; 5] = [1, 2, 4, 8, 16];
/// Pieces of a GiB.
const PIECES: u64 = 2048;
/// How far pieces differ.
const SPREAD: f64 = 0.3;
const NANOSECONDS: f64 = 1e6;

/// The ways that the model is made from: small pages and huge ones, with one helper and with two.
pub(super) fn ways() -> [Way; 4] {
    let way = |make, helpers| Way {
        make,
        destroy: Destroy::Helpers(helpers),
        ..Way::PLAIN
    };
    [
        way(Make::Helpers(1), 1),
        way(Make::Helpers(2), 2),
        way(Make::HugeHelpers(1), 1),
        way(Make::HugeHelpers(2), 2),
    ]
}

/// The ways that it is held against, none of which it is made from.
pub(super) fn checks() -> [(&'static str, usize, Way); 4] {
    let way = |memory, lock| Way {
        memory,
        make: Make::Helpers(2),
        lock,
        destroy: Destroy::Helpers(2),
        ..Way::PLAIN
    };
    [
        (
            "2 segments side by side",
            2,
            way(Memory::Striped(2), Lock::Shm),
        ),
        (
            "3 segments side by side",
            3,
            way(Memory::Striped(3), Lock::Shm),
        ),
        (
            "4 segments side by side",
            4,
            way(Memory::Striped(4), Lock::Shm),
        ),
        ("memfd, not locked", 1, way(Memory::Memfd, Lock::No)),
    ]
}

/// Milliseconds for each GiB with one helper and with two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// With one.
    pub one: f64,
    /// With two.
    pub two: f64,
}

/// Which of the two answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Case {
    /// What two helpers lose is serial, and the memory is as fast as it is seen to be.
    Worst,
    /// Each is as slow beside many as beside one, and the memory feeds them all.
    Best,
}

/// One step, as the model has it: milliseconds for each GiB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Zeroing, over the memory bus.
    pub bus: f64,
    /// All else, by one helper alone.
    pub alone: f64,
    /// At worst: what of that only one can do at a time.
    pub serial: f64,
    /// At best: how many times longer it takes beside another helper.
    pub beside: f64,
}

impl Step {
    /// What one helper takes, and two; `zeroing` of it is over a bus that feeds `bus` helpers.
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

    /// What so many helpers take; the memory feeds `bus` of them at full speed.
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
            piece: Piece {
                source: Cost::of(each(self.bus)),
                cpu: Cost {
                    alone,
                    beside: alone * beside,
                },
                ..Piece::default()
            },
            spread: SPREAD,
        };
        serial + simulate(&machine, &[pass]).seconds * 1e3
    }
}

/// The largest value for which `is_less` holds.
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

/// The costs, and what is assumed of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Model {
    /// Making small pages.
    pub create: Step,
    /// Making huge pages.
    pub create_huge: Step,
    /// Taking the page tables of small pages down.
    pub unmap: Step,
    /// Giving back the small pages of one inode, in milliseconds for each GiB.
    pub evict: f64,
    /// All of the destruction of huge pages.
    pub destroy_huge: f64,
    /// How many helpers the memory of this machine feeds while they zero pages.
    pub bus: f64,
}

/// A prediction beside what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What.
    pub what: &'static str,
    /// Milliseconds for each GiB: create, lock and destroy with two helpers.
    pub predicted: f64,
    /// The same, measured.
    pub measured: f64,
}

impl Model {
    /// From the figures of [`ways`], in their order.
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

    /// Create, lock and destroy of small pages in so many inodes, in milliseconds for each GiB.
    pub fn small(&self, case: Case, helpers: usize, inodes: usize) -> f64 {
        let turns = inodes.div_ceil(helpers);
        let bus = self.fed(case, helpers);
        self.create.time(case, helpers, bus)
            + self.unmap.time(case, helpers, bus)
            + self.evict * turns as f64 / inodes as f64
    }

    /// The same of huge pages.
    pub fn huge(&self, case: Case, helpers: usize) -> f64 {
        let bus = self.fed(case, helpers);
        self.create_huge.time(case, helpers, bus) + self.destroy_huge
    }

    /// How many helpers the memory feeds. Two are always as they were measured.
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
            "{value} for {expected}"
        );
    }

    const NOTHING: Step = Step {
        bus: 0.0,
        alone: 0.0,
        serial: 0.0,
        beside: 1.0,
    };

    #[test]
    fn what_is_fitted_comes_out_again() {
        for (one, two) in [(460.0, 260.0), (460.0, 240.0), (100.0, 70.0)] {
            let step = Step::fit(Pair { one, two }, 30.0, 1.5);
            near(step.time(Case::Worst, 1, 1.5), one);
            for case in [Case::Worst, Case::Best] {
                near(step.time(case, 2, 1.5), two);
            }
        }
    }

    #[test]
    fn what_is_serial_and_the_bus_bound_what_many_helpers_can_do() {
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
    fn one_inode_is_given_back_by_one_helper() {
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
