//! Stacked horizontal bars over a linear axis.

use std::fmt::Write as _;

use crate::escape;
use crate::frame::{WIDTH, begin};
use crate::style::COLOURS;

/// A picture of stacked bars.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Heading.
    pub title: String,
    /// Lines below the heading that state the assumptions.
    pub subtitle: String,
    /// Names of the parts that every bar has, for the legend.
    pub parts: Vec<String>,
    /// The bars from top to bottom.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Label at its left.
    pub name: String,
    /// Lengths of its parts, from left to right.
    pub values: Vec<f64>,
}

const LEFT: f64 = 260.0;
/// Room for the sum at the end of the longest bar.
const RIGHT: f64 = 900.0;
const MARGIN: f64 = 24.0;
const THICKNESS: f64 = 30.0;
const DISTANCE: f64 = 48.0;
/// Parts narrower than this have no number in them.
const NARROWEST: f64 = 34.0;

impl Bar {
    /// Returns the lengths that can be drawn: not negative, and finite.
    fn lengths(&self) -> impl Iterator<Item = f64> {
        let drawn = |value: &f64| {
            if value.is_finite() {
                value.max(0.0)
            } else {
                0.0
            }
        };
        self.values.iter().map(drawn)
    }

    fn sum(&self) -> f64 {
        self.lengths().sum()
    }
}

impl Bars {
    /// Returns the picture as SVG.
    pub fn svg(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.draw(&mut out);
        out
    }

    fn draw(&self, out: &mut String) -> std::fmt::Result {
        let legend = 66.0 + 18.0 * self.subtitle.lines().count() as f64;
        let top = legend + 32.0;
        let height = top + DISTANCE * self.bars.len() as f64;
        begin(out, height, MARGIN, &self.title, &self.subtitle)?;
        self.legend(out, legend)?;
        let longest = self.bars.iter().map(Bar::sum).fold(0.0, f64::max);
        let scale = if longest > 0.0 {
            (RIGHT - LEFT) / longest
        } else {
            0.0
        };
        for (number, bar) in self.bars.iter().enumerate() {
            draw_bar(out, bar, top + DISTANCE * number as f64, scale)?;
        }
        writeln!(out, "</svg>")
    }

    fn legend(&self, out: &mut String, y: f64) -> std::fmt::Result {
        let step = (WIDTH - 2.0 * MARGIN) / self.parts.len().max(1) as f64;
        for (number, part) in self.parts.iter().enumerate() {
            let x = MARGIN + step * number as f64;
            writeln!(
                out,
                "<rect class=\"f{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"14\" height=\"14\"/>\
                 <text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                number % COLOURS,
                y - 2.0,
                x + 20.0,
                y + 10.0,
                escape(part)
            )?;
        }
        Ok(())
    }
}

fn draw_bar(out: &mut String, bar: &Bar, top: f64, scale: f64) -> std::fmt::Result {
    let middle = top + THICKNESS / 2.0 + 5.0;
    writeln!(
        out,
        "<text text-anchor=\"end\" x=\"{:.1}\" y=\"{middle:.1}\">{}</text>",
        LEFT - 12.0,
        escape(&bar.name)
    )?;
    let mut x = LEFT;
    for (number, value) in bar.lengths().enumerate() {
        let width = value * scale;
        writeln!(
            out,
            "<rect class=\"f{}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{THICKNESS}\"/>",
            number % COLOURS
        )?;
        if width >= NARROWEST {
            writeln!(
                out,
                "<text class=\"in\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{middle:.1}\">{value:.0}</text>",
                x + width / 2.0
            )?;
        }
        x += width;
    }
    writeln!(
        out,
        "<text class=\"bold\" x=\"{:.1}\" y=\"{middle:.1}\">{:.0}</text>",
        x + 8.0,
        bar.sum()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(values: &[&[f64]]) -> Bars {
        let bar = |values: &&[f64]| Bar {
            name: "<way>".into(),
            values: values.to_vec(),
        };
        Bars {
            title: "a & b".into(),
            subtitle: "one\ntwo".into(),
            parts: vec!["first".into(), "second".into()],
            bars: values.iter().map(bar).collect(),
        }
    }

    fn widths(svg: &str) -> Vec<f64> {
        let rectangles = svg
            .lines()
            .filter(|line| line.starts_with("<rect class=\"f") && line.contains("height=\"30\""));
        let width = |line: &str| {
            let value = line.split(" width=\"").nth(1)?.split('"').next()?;
            value.parse().ok()
        };
        rectangles.filter_map(width).collect()
    }

    #[test]
    fn parts_have_lengths_in_proportion_and_the_longest_bar_fills_the_width() {
        let svg = bars(&[&[30.0, 10.0], &[10.0, 10.0]]).svg();
        assert_eq!(widths(&svg), [480.0, 160.0, 160.0, 160.0]);
        for sum in [">40</text>", ">20</text>"] {
            assert!(svg.contains(sum), "{svg}");
        }
        assert!(svg.contains("&lt;way&gt;") && svg.contains("a &amp; b"));
    }

    #[test]
    fn values_without_a_length_are_drawn_as_none() {
        for values in [&[0.0, 0.0], &[f64::NAN, f64::INFINITY], &[-1.0, 0.0]] {
            let svg = bars(&[values]).svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(widths(&svg), [0.0, 0.0]);
        }
    }
}
