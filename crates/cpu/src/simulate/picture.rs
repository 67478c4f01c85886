//! Plot of times by machine size.

use bigiron_svg::{Axis, Corner, Line, Mark, Plot, Series, Style};

use super::answer::NEWEST;
use super::growth::Growth;
use super::strategy::Rcu;

/// Relative distance below which two lines, at all sizes, are drawn as one line with both
/// names.
const TOGETHER: f64 = 0.06;
/// Ticks of the time axis.
const TIMES: [(f64, &str); 11] = [
    (1e-3, "1 ms"),
    (1e-2, "10 ms"),
    (0.1, "0.1 s"),
    (1.0, "1 s"),
    (10.0, "10 s"),
    (60.0, "1 min"),
    (600.0, "10 min"),
    (3600.0, "1 h"),
    (36_000.0, "10 h"),
    (360_000.0, "100 h"),
    (3_600_000.0, "1000 h"),
];

/// Methods that take the same time.
struct Bundle {
    names: Vec<&'static str>,
    rcu: Rcu,
    /// Index of the first method.
    way: usize,
}

/// Returns an SVG of seconds against CPUs, both logarithmic, with a line for each strategy and
/// RCU mode. Extrapolated parts are dashed. `published` contains points of CPUs and seconds;
/// `origin` names the source of the costs.
pub fn picture(growth: &Growth, published: &[(f64, f64)], origin: &str) -> String {
    let bundles = bundles(growth);
    let mut series = Vec::new();
    for bundle in &bundles {
        let colour = bundle.names.first().map_or(0, |name| colour(name));
        let line = |dashed| Line {
            colour,
            thin: bundle.rcu == Rcu::Expedited,
            dashed,
        };
        let parts = parts(growth, bundle.way);
        let last = parts.len().saturating_sub(1);
        for (number, (extrapolated, points)) in parts.into_iter().enumerate() {
            let name = if number == last {
                bundle.names.join(", ")
            } else {
                String::new()
            };
            series.push(Series {
                name,
                points,
                style: Style::Line(line(extrapolated)),
            });
        }
    }
    if !published.is_empty() {
        series.push(Series {
            name: String::new(),
            points: published.to_vec(),
            style: Style::Measured,
        });
    }
    let mut legend = vec![
        (Mark::Bold, "model, normal RCU".to_owned()),
        (Mark::Thin, "model, expedited RCU".to_owned()),
        (Mark::Dashed, "extrapolated".to_owned()),
    ];
    if !published.is_empty() {
        legend.push((Mark::Point, "published times of 1920 CPUs".to_owned()));
    }
    let of = |growth: &Growth, last: bool| {
        let point = if last {
            growth.points.last()
        } else {
            growth.points.first()
        };
        point.map_or(1.0, |point| point.cpus as f64)
    };
    let machine = growth
        .points
        .last()
        .map_or("", |point| point.machine.as_str());
    Plot {
        title: "Time to leave one thread per core online".into(),
        subtitle: format!("Largest machine: {machine}\n{origin}"),
        x: Axis {
            label: "CPUs of the machine".into(),
            ends: (of(growth, false), of(growth, true)),
            marks: marks(growth),
        },
        y: Axis {
            label: "time for all CPUs taken offline".into(),
            ends: ends(growth),
            marks: times(ends(growth)),
        },
        series,
        legend,
        corner: Corner::TopLeft,
        names: 290.0,
    }
    .svg()
}

/// Returns the colour of a strategy, which does not depend on the RCU mode.
fn colour(strategy: &str) -> usize {
    match strategy {
        "debugfs" => 0,
        "sysctl" => 1,
        "batched" | "batched-off" => 3,
        NEWEST => 4,
        _ => 2,
    }
}

/// Groups methods whose lines are indistinguishable.
fn bundles(growth: &Growth) -> Vec<Bundle> {
    let close = |one: usize, other: usize| {
        growth.points.iter().all(
            |point| match (point.seconds.get(one), point.seconds.get(other)) {
                (Some(one), Some(other)) => (one / other - 1.0).abs() < TOGETHER,
                _ => false,
            },
        )
    };
    let mut bundles: Vec<Bundle> = Vec::new();
    for (number, way) in growth.ways.iter().enumerate() {
        let rcu = way.kernel.rcu;
        let found = bundles
            .iter_mut()
            .find(|bundle| bundle.rcu == rcu && close(bundle.way, number));
        match found {
            Some(bundle) => bundle.names.push(way.strategy),
            None => bundles.push(Bundle {
                names: vec![way.strategy],
                rcu,
                way: number,
            }),
        }
    }
    bundles
}

/// Returns the line of a method, split where extrapolation begins and ends. A segment between a
/// known and an unknown size is extrapolated.
fn parts(growth: &Growth, way: usize) -> Vec<(bool, Vec<(f64, f64)>)> {
    let mut parts: Vec<(bool, Vec<(f64, f64)>)> = Vec::new();
    for pair in growth.points.windows(2) {
        let [from, to] = pair else {
            continue;
        };
        let at = |point: &super::growth::Point| {
            let seconds = point.seconds.get(way).copied().unwrap_or(0.0);
            (point.cpus as f64, seconds)
        };
        let extrapolated = from.extrapolated || to.extrapolated;
        match parts.last_mut() {
            Some((same, points)) if *same == extrapolated => points.push(at(to)),
            _ => parts.push((extrapolated, vec![at(from), at(to)])),
        }
    }
    parts
}

/// Returns the sizes that have room for a label.
fn marks(growth: &Growth) -> Vec<(f64, String)> {
    let sizes = growth.points.iter().map(|point| point.cpus);
    let two = sizes.filter(|cpus| cpus.is_power_of_two());
    two.map(|cpus| (cpus as f64, cpus.to_string())).collect()
}

/// Returns the range of times, with room above for the legend.
fn ends(growth: &Growth) -> (f64, f64) {
    let all = || {
        growth
            .points
            .iter()
            .flat_map(|point| point.seconds.iter().copied())
    };
    let above_zero = || all().filter(|seconds| *seconds > 0.0 && seconds.is_finite());
    let least = above_zero().fold(f64::INFINITY, f64::min);
    let most = above_zero().fold(0.0, f64::max);
    if least > most {
        return (1.0, 10.0);
    }
    (least / 1.5, most * 2.0)
}

fn times((least, most): (f64, f64)) -> Vec<(f64, String)> {
    let within = TIMES
        .iter()
        .filter(|(time, _)| (least..=most).contains(time));
    within
        .map(|(time, name)| (*time, (*name).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::growth::{OfflineMethod, Point};
    use super::super::strategy::KernelName;
    use super::*;

    #[test]
    fn extrapolation_is_dashed_and_equal_methods_share_a_line() {
        let way = |strategy| OfflineMethod {
            strategy,
            kernel: KernelName::Linux6_1.kernel(),
        };
        let point = |cpus, extrapolated, seconds: [f64; 3]| Point {
            machine: "sockets=<1>".into(),
            cpus,
            offlined: cpus / 2,
            extrapolated,
            seconds: seconds.to_vec(),
        };
        let growth = Growth {
            ways: vec![way("one"), way("two"), way("three")],
            points: vec![
                point(64, false, [1.0, 1.01, 3.0]),
                point(128, false, [4.0, 4.01, 9.0]),
                point(256, true, [8.0, 8.01, 30.0]),
            ],
        };
        let svg = picture(&growth, &[(128.0, 5.0)], "costs & more");
        // Two lines of two parts each; the others are in the style sheet and the legend.
        assert_eq!(svg.matches("<path class=\"line k").count(), 2);
        assert_eq!(svg.matches("<path class=\"line dashed k").count(), 2);
        assert!(
            svg.contains(">one, two</text>") && svg.contains(">three</text>"),
            "{svg}"
        );
        assert!(svg.contains("sockets=&lt;1&gt;") && svg.contains("costs &amp; more"));
        assert!(svg.contains("published") && svg.contains("CPUs of the machine"));
    }
}
