//! Plots with two logarithmic axes.

use std::fmt::Write as _;

use crate::escape;
use crate::frame::{WIDTH, begin};
use crate::style::{Mark, Style};

/// A line or a set of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// Label at its end; may be empty.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
    /// Drawing style.
    pub style: Style,
}

/// A logarithmic axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Label, with the unit.
    pub label: String,
    /// Values at the ends, above zero.
    pub ends: (f64, f64),
    /// Values with a grid line, and their labels.
    pub marks: Vec<(f64, String)>,
}

/// Corner that no series crosses, for the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// Top left.
    TopLeft,
    /// Top right.
    TopRight,
}

/// Plot of series over two logarithmic axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Heading.
    pub title: String,
    /// Lines below the heading that state the assumptions.
    pub subtitle: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Lines and points.
    pub series: Vec<Series>,
    /// Entries of the legend.
    pub legend: Vec<(Mark, String)>,
    /// Position of the legend.
    pub corner: Corner,
    /// Width reserved for the labels at the ends of the lines.
    pub names: f64,
}

const HEIGHT: f64 = 640.0;
const LEFT: f64 = 90.0;
const BOTTOM: f64 = 70.0;
/// Minimum vertical distance between labels.
const LEADING: f64 = 17.0;
/// Approximate width of a letter of the legend.
const LETTER: f64 = 7.2;

impl Axis {
    fn part(&self, value: f64) -> f64 {
        let (low, high) = self.ends;
        let part = (value / low).ln() / (high / low).ln();
        // Zero has no finite logarithm, and the picture must not contain NaN or infinity.
        if part.is_finite() {
            part.clamp(-0.05, 1.05)
        } else {
            0.0
        }
    }
}

impl Plot {
    /// Returns the plot as SVG.
    pub fn svg(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.draw(&mut out);
        out
    }

    fn right(&self) -> f64 {
        WIDTH - self.names
    }

    fn top(&self) -> f64 {
        74.0 + 18.0 * self.subtitle.lines().count() as f64
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let bottom = HEIGHT - BOTTOM;
        (
            LEFT + self.x.part(x) * (self.right() - LEFT),
            bottom - self.y.part(y) * (bottom - self.top()),
        )
    }

    fn draw(&self, out: &mut String) -> std::fmt::Result {
        begin(out, HEIGHT, LEFT, &self.title, &self.subtitle)?;
        self.axes(out)?;
        for series in &self.series {
            match series.style {
                Style::Line(line) => self.line(out, series, &line.class())?,
                Style::Past => self.line(out, series, "past")?,
                Style::Measured => {}
            }
        }
        for series in &self.series {
            if series.style == Style::Measured {
                self.points(out, series)?;
            }
        }
        self.names(out)?;
        self.explain(out)?;
        writeln!(out, "</svg>")
    }

    fn axes(&self, out: &mut String) -> std::fmt::Result {
        let (right, bottom, top) = (self.right(), HEIGHT - BOTTOM, self.top());
        for (value, name) in &self.x.marks {
            let (at, _) = self.at((*value, self.y.ends.0));
            writeln!(
                out,
                "<path class=\"grid\" d=\"M{at:.1} {top}V{bottom}\"/>\
                 <text text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 22.0,
                escape(name)
            )?;
        }
        for (value, name) in &self.y.marks {
            let (_, at) = self.at((self.x.ends.0, *value));
            writeln!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>\
                 <text text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 9.0,
                at + 5.0,
                escape(name)
            )?;
        }
        writeln!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} {top}V{bottom}H{right}\" fill=\"none\"/>\n\
             <text class=\"soft\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n\
             <text class=\"soft\" text-anchor=\"middle\" \
             transform=\"translate(22 {:.1}) rotate(-90)\">{}</text>",
            f64::midpoint(LEFT, right),
            bottom + 50.0,
            escape(&self.x.label),
            f64::midpoint(top, bottom),
            escape(&self.y.label)
        )
    }

    fn line(&self, out: &mut String, series: &Series, class: &str) -> std::fmt::Result {
        let path: Vec<String> = series
            .points
            .iter()
            .map(|point| {
                let (x, y) = self.at(*point);
                format!("{x:.1} {y:.1}")
            })
            .collect();
        match path.is_empty() {
            true => Ok(()),
            false => writeln!(out, "<path class=\"{class}\" d=\"M{}\"/>", path.join("L")),
        }
    }

    /// Writes the labels at the ends of the lines, without overlap.
    fn names(&self, out: &mut String) -> std::fmt::Result {
        let mut names: Vec<(f64, f64, &Series)> = self
            .series
            .iter()
            .filter(|series| matches!(series.style, Style::Line(_)) && !series.name.is_empty())
            .filter_map(|series| {
                let (x, y) = self.at(*series.points.last()?);
                Some((x, y, series))
            })
            .collect();
        names.sort_by(|one, other| one.1.total_cmp(&other.1));
        let mut above = f64::NEG_INFINITY;
        for (_, y, _) in &mut names {
            *y = y.max(above + LEADING);
            above = *y;
        }
        // Labels that were pushed below the axis move up, and push up those above them.
        let mut below = HEIGHT - BOTTOM + LEADING / 2.0;
        for (_, y, _) in names.iter_mut().rev() {
            *y = y.min(below);
            below = *y - LEADING;
        }
        for (x, y, series) in names {
            let Style::Line(line) = series.style else {
                continue;
            };
            writeln!(
                out,
                "<text class=\"{}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                line.label_class(),
                x + 10.0,
                y + 5.0,
                escape(&series.name)
            )?;
        }
        Ok(())
    }

    /// Writes points, with the label at the last one.
    fn points(&self, out: &mut String, series: &Series) -> std::fmt::Result {
        for point in &series.points {
            let (x, y) = self.at(*point);
            writeln!(
                out,
                "<circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>"
            )?;
        }
        let Some(last) = series.points.last().filter(|_| !series.name.is_empty()) else {
            return Ok(());
        };
        let (x, y) = self.at(*last);
        writeln!(
            out,
            "<text class=\"halo\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            y + 22.0,
            escape(&series.name)
        )
    }

    fn explain(&self, out: &mut String) -> std::fmt::Result {
        let longest = self.legend.iter().map(|(_, text)| text.chars().count());
        let width = 60.0 + LETTER * longest.max().unwrap_or(0) as f64;
        let height = 10.0 + 22.0 * self.legend.len() as f64;
        let (left, top) = match self.corner {
            Corner::TopLeft => (LEFT + 8.0, self.top() + 6.0),
            Corner::TopRight => (self.right() - width, self.top()),
        };
        writeln!(
            out,
            "<rect class=\"paper\" x=\"{left:.1}\" y=\"{top}\" width=\"{width:.1}\" \
             height=\"{height}\"/>"
        )?;
        for (row, (mark, text)) in self.legend.iter().enumerate() {
            let (x, y) = (left + 8.0, top + 16.0 + 22.0 * row as f64);
            writeln!(
                out,
                "<g transform=\"translate({x:.1} {y})\">{}\
                 <text class=\"soft\" x=\"44\" y=\"4.5\">{}</text></g>",
                mark.shape(),
                escape(text)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::Line;

    fn plot(series: Vec<Series>) -> Plot {
        let axis = |label: &str| Axis {
            label: label.into(),
            ends: (1.0, 100.0),
            marks: vec![(10.0, "ten".into())],
        };
        Plot {
            title: "a & b".into(),
            subtitle: "one\ntwo".into(),
            x: axis("across"),
            y: axis("up"),
            series,
            legend: vec![(Mark::Dashed, "<guess>".into())],
            corner: Corner::TopLeft,
            names: 150.0,
        }
    }

    fn line(name: &str, points: &[(f64, f64)]) -> Series {
        Series {
            name: name.into(),
            points: points.to_vec(),
            style: Style::Line(Line::bold(0)),
        }
    }

    fn heights(svg: &str) -> Vec<f64> {
        let names = svg.lines().filter(|line| line.contains("class=\"t0"));
        let y = |line: &str| line.split(" y=\"").nth(1)?.split('"').next()?.parse().ok();
        names.filter_map(y).collect()
    }

    #[test]
    fn labels_of_lines_that_end_together_do_not_overlap() {
        let ends = [(1.0, 1.0), (100.0, 1.0)];
        let svg = plot(vec![line("a", &ends), line("b", &ends), line("c", &ends)]).svg();
        let heights = heights(&svg);
        assert_eq!(heights.len(), 3);
        for pair in heights.windows(2) {
            assert!((pair[1] - pair[0]).abs() >= LEADING - 0.2, "{heights:?}");
        }
        assert!(heights.iter().all(|y| *y < HEIGHT - BOTTOM + LEADING + 5.0));
    }

    #[test]
    fn decades_have_equal_length() {
        let plot = plot(Vec::new());
        let at = |x| plot.at((x, 1.0)).0;
        assert!(((at(10.0) - at(1.0)) - (at(100.0) - at(10.0))).abs() < 1e-9);
    }

    #[test]
    fn values_without_a_logarithm_are_drawn() {
        let svg = plot(vec![line("none", &[(0.0, 0.0), (1.0, f64::NAN)])]).svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains("&lt;guess&gt;") && svg.contains("a &amp; b"));
    }
}
