//! Time against helpers as a picture.

use std::fmt::Write as _;

/// A line or a set of points: helpers and seconds.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it is called, at its end.
    pub name: String,
    /// Helpers and seconds.
    pub points: Vec<(f64, f64)>,
    /// How it is drawn.
    pub style: Style,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A bold line in the colour of this number: what the model says.
    Model(usize),
    /// A thin dashed line: the model of a machine of the past.
    Past,
    /// Points: measured.
    Measured,
}

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 640.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 70.0;
/// Helpers at the ends of the axis.
const HELPERS: (f64, f64) = (1.0, 1024.0);
/// Seconds at the ends of the axis.
const SECONDS: (f64, f64) = (4.0, 86_400.0);
/// Marks of the axis of time.
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
/// Readable on white and on black; each has its own set of colours.
const STYLE: &str = "\
:root{--paper:#fff;--ink:#1b1f24;--soft:#5b6470;--grid:#e3e7ec;--c0:#c2410c;--c1:#0f766e;--c2:#1d4ed8}
@media(prefers-color-scheme:dark){:root{--paper:#14171c;--ink:#eceff3;--soft:#a3adba;--grid:#2b313a;\
--c0:#fb923c;--c1:#2dd4bf;--c2:#7aa2ff}}
text{font-family:'DejaVu Sans',Verdana,sans-serif;font-size:14px;fill:#1b1f24;fill:var(--ink)}
.halo{paint-order:stroke;stroke:#fff;stroke:var(--paper);stroke-width:4;stroke-linejoin:round}
.soft{fill:#5b6470;fill:var(--soft);font-size:13px}
.title{font-size:21px;font-weight:bold}
.paper{fill:#fff;fill:var(--paper)}
.grid{stroke:#e3e7ec;stroke:var(--grid);stroke-width:1}
.axis{stroke:#5b6470;stroke:var(--soft);stroke-width:1.2}
.line{fill:none;stroke-width:3.2;stroke-linejoin:round;stroke-linecap:round}
.past{fill:none;stroke:#5b6470;stroke:var(--soft);stroke-width:1.3;stroke-dasharray:5 4}
.point{fill:#fff;fill:var(--paper);stroke:#1b1f24;stroke:var(--ink);stroke-width:2}
.k0{stroke:#c2410c;stroke:var(--c0)}.k1{stroke:#0f766e;stroke:var(--c1)}.k2{stroke:#1d4ed8;stroke:var(--c2)}
.t0{fill:#c2410c;fill:var(--c0);font-weight:bold}.t1{fill:#0f766e;fill:var(--c1);font-weight:bold}
.t2{fill:#1d4ed8;fill:var(--c2);font-weight:bold}
";

fn x(helpers: f64) -> f64 {
    let part = (helpers / HELPERS.0).ln() / (HELPERS.1 / HELPERS.0).ln();
    LEFT + part * (WIDTH - LEFT - RIGHT)
}

fn y(seconds: f64) -> f64 {
    let part = (seconds / SECONDS.0).ln() / (SECONDS.1 / SECONDS.0).ln();
    HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
}

/// Draws the series as SVG.
pub fn svg(title: &str, subtitle: &str, series: &[Series]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = draw(&mut out, title, subtitle, series);
    out
}

fn draw(out: &mut String, title: &str, subtitle: &str, series: &[Series]) -> std::fmt::Result {
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\n<title>{0}</title>\n\
         <style>\n{STYLE}</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"36\">{0}</text>\n\
         <text class=\"soft\" x=\"{LEFT}\" y=\"60\">{1}</text>",
        escape(title),
        escape(subtitle)
    )?;
    axes(out)?;
    for one in series {
        match one.style {
            Style::Model(colour) => line(out, one, &format!("line k{colour}"))?,
            Style::Past => line(out, one, "past")?,
            Style::Measured => {}
        }
    }
    for one in series {
        match one.style {
            Style::Measured => points(out, one)?,
            Style::Model(colour) => label(out, one, &format!("t{colour}"))?,
            Style::Past => {}
        }
    }
    legend(out)?;
    writeln!(out, "</svg>")
}

fn axes(out: &mut String) -> std::fmt::Result {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for power in 0..=10 {
        let helpers = 2_f64.powi(power);
        let at = x(helpers);
        writeln!(
            out,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/>\
             <text text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{helpers}</text>",
            bottom + 22.0
        )?;
    }
    for (seconds, name) in TIMES {
        let at = y(seconds);
        writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>\
             <text text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
            LEFT - 9.0,
            at + 5.0
        )?;
    }
    writeln!(
        out,
        "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\"/>\n\
         <text class=\"soft\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">\
         helpers (CPUs that work on the dump)</text>\n\
         <text class=\"soft\" text-anchor=\"middle\" transform=\"translate(22 {:.1}) rotate(-90)\">\
         time of the dump</text>",
        f64::midpoint(LEFT, right),
        bottom + 50.0,
        f64::midpoint(TOP, bottom)
    )
}

fn line(out: &mut String, series: &Series, class: &str) -> std::fmt::Result {
    let path: Vec<String> = series
        .points
        .iter()
        .map(|(helpers, seconds)| format!("{:.1} {:.1}", x(*helpers), y(*seconds)))
        .collect();
    writeln!(out, "<path class=\"{class}\" d=\"M{}\"/>", path.join("L"))
}

fn label(out: &mut String, series: &Series, class: &str) -> std::fmt::Result {
    let Some((helpers, seconds)) = series.points.last() else {
        return Ok(());
    };
    writeln!(
        out,
        "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        x(*helpers) + 10.0,
        y(*seconds) + 5.0,
        escape(&series.name)
    )
}

/// Points, the last of them with the name.
fn points(out: &mut String, series: &Series) -> std::fmt::Result {
    for (helpers, seconds) in &series.points {
        let (x, y) = (x(*helpers), y(*seconds));
        writeln!(
            out,
            "<circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>"
        )?;
    }
    let Some((helpers, seconds)) = series.points.last() else {
        return Ok(());
    };
    writeln!(
        out,
        "<text class=\"halo\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        x(*helpers),
        y(*seconds) + 22.0,
        escape(&series.name)
    )
}

fn legend(out: &mut String) -> std::fmt::Result {
    let at = WIDTH - RIGHT - 330.0;
    let rows = [
        ("<path class=\"line axis\" d=\"M0 0H34\"/>", "model"),
        (
            "<path class=\"past\" d=\"M0 0H34\"/>",
            "model of a Solaris system, parallel bzip2",
        ),
        (
            "<circle class=\"point\" cx=\"17\" cy=\"0\" r=\"5\"/>",
            "measured there, 2011",
        ),
    ];
    writeln!(
        out,
        "<rect class=\"paper\" x=\"{:.1}\" y=\"{TOP}\" width=\"326\" height=\"76\"/>",
        at - 8.0
    )?;
    for (row, (mark, text)) in rows.iter().enumerate() {
        let down = TOP + 16.0 + 22.0 * row as f64;
        writeln!(
            out,
            "<g transform=\"translate({at} {down})\">{mark}\
             <text class=\"soft\" x=\"44\" y=\"4.5\">{text}</text></g>"
        )?;
    }
    Ok(())
}
