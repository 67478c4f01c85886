//! A plot of time against helpers.

use bigiron_svg::{Axis, Corner, Mark, Plot};
pub use bigiron_svg::{Line, Series, Style};

/// Space for the names at the ends of the lines.
const NAMES: f64 = 150.0;
/// Range of the helper axis.
const HELPERS: (f64, f64) = (1.0, 1024.0);
/// Range of the time axis in seconds.
const SECONDS: (f64, f64) = (4.0, 86_400.0);
/// Ticks of the time axis.
const TIMES: [(f64, &str); 9] = [
    (5.0, "5 s"),
    (10.0, "10 s"),
    (30.0, "30 s"),
    (60.0, "1 min"),
    (300.0, "5 min"),
    (600.0, "10 min"),
    (3600.0, "1 h"),
    (14_400.0, "4 h"),
    (43_200.0, "12 h"),
];
/// The legend.
const LEGEND: [(Mark, &str); 3] = [
    (Mark::Bold, "model"),
    (Mark::Past, "model of a Solaris system, parallel bzip2"),
    (Mark::Point, "measured there, 2011"),
];

/// Draws the series as SVG. Lines are results of the model, those of style `Past` for
/// historical machines; points are the measurements made there.
pub fn svg(title: &str, subtitle: &str, series: Vec<Series>) -> String {
    let helpers = (0..=10).map(|power| 1_u32 << power);
    Plot {
        title: title.into(),
        subtitle: subtitle.into(),
        x: Axis {
            label: "helpers (CPUs that work on the dump)".into(),
            ends: HELPERS,
            marks: helpers
                .map(|helpers| (f64::from(helpers), helpers.to_string()))
                .collect(),
        },
        y: Axis {
            label: "time of the dump".into(),
            ends: SECONDS,
            marks: TIMES.map(|(time, name)| (time, name.to_owned())).to_vec(),
        },
        series,
        legend: LEGEND.map(|(mark, text)| (mark, text.to_owned())).to_vec(),
        corner: Corner::TopRight,
        names: NAMES,
    }
    .svg()
}
