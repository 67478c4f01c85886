//! Trees of boxes with two lines of text, below each other and indented.

use std::fmt::Write as _;

use crate::escape;
use crate::frame::{WIDTH, begin};

/// A picture of trees.
#[derive(Clone, Debug)]
pub struct Trees {
    /// Heading.
    pub title: String,
    /// Lines below the heading.
    pub subtitle: String,
    /// The boxes from top to bottom: each below the one that it belongs to.
    pub boxes: Vec<TreeBox>,
}

/// A box.
#[derive(Clone, Debug)]
pub struct TreeBox {
    /// Number of boxes from the first of its tree to it, 0 for that. It belongs to the last box
    /// above that has one less.
    pub depth: usize,
    /// The first line.
    pub name: String,
    /// The second line, smaller.
    pub detail: String,
    /// True for a box that stands out.
    pub strong: bool,
    /// Number of a box above to which an arrow leads back.
    pub back: Option<usize>,
}

const MARGIN: f64 = 24.0;
const INDENT: f64 = 32.0;
/// Room for arrows that lead back, at the right.
const BACK: f64 = 40.0;
const HEIGHT: f64 = 46.0;
const DISTANCE: f64 = 58.0;
/// Boxes deeper than this are not indented further.
const MAX_INDENT: usize = 12;
/// Average widths of a character of the two lines; longer lines are cut.
const NAME_WIDTH: f64 = 9.4;
const DETAIL_WIDTH: f64 = 7.1;

impl Trees {
    /// Returns the picture as SVG.
    pub fn svg(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.draw(&mut out);
        out
    }

    fn draw(&self, out: &mut String) -> std::fmt::Result {
        let top = 60.0 + 18.0 * self.subtitle.lines().count() as f64;
        let height = top + DISTANCE * self.boxes.len() as f64 + MARGIN;
        begin(out, height, MARGIN, &self.title, &self.subtitle)?;
        // The last box of each depth.
        let mut above: Vec<usize> = Vec::new();
        for (number, own) in self.boxes.iter().enumerate() {
            let y = top + DISTANCE * number as f64;
            // A depth that is skipped is no depth of its own.
            let depth = own.depth.min(above.len());
            above.truncate(depth);
            if let Some(parent) = above.last() {
                connect(out, depth, top + DISTANCE * *parent as f64, y)?;
            }
            above.push(number);
            own.draw(out, depth, y)?;
            if let Some(back) = own.back.filter(|back| *back < self.boxes.len()) {
                lead_back(out, y, top + DISTANCE * back as f64)?;
            }
        }
        writeln!(out, "</svg>")
    }
}

impl TreeBox {
    fn draw(&self, out: &mut String, depth: usize, y: f64) -> std::fmt::Result {
        let x = left(depth);
        let width = WIDTH - MARGIN - BACK - x;
        let class = if self.strong { "k0" } else { "axis" };
        writeln!(
            out,
            "<rect class=\"paper {class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{HEIGHT}\" rx=\"8\" stroke-width=\"{}\"/>",
            if self.strong { "2.4" } else { "1.2" }
        )?;
        let room = width - 24.0;
        writeln!(
            out,
            "<text class=\"bold\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"soft\" x=\"{0:.1}\" y=\"{:.1}\">{}</text>",
            x + 12.0,
            y + 19.0,
            escape(&cut(&self.name, room / NAME_WIDTH)),
            y + 37.0,
            escape(&cut(&self.detail, room / DETAIL_WIDTH)),
        )
    }
}

fn left(depth: usize) -> f64 {
    MARGIN + INDENT * depth.min(MAX_INDENT) as f64
}

/// Draws a line from the lower edge of a box to the left edge of one that belongs to it.
fn connect(out: &mut String, depth: usize, parent: f64, y: f64) -> std::fmt::Result {
    let (from, to) = (left(depth.saturating_sub(1)) + INDENT / 2.0, left(depth));
    // Where the indent ends, the line goes along the left edges.
    let from = from.min(to - INDENT / 2.0);
    let (start, end) = (parent + HEIGHT, y + HEIGHT / 2.0);
    writeln!(
        out,
        "<path class=\"axis\" fill=\"none\" d=\"M{from:.1} {start:.1}V{end:.1}H{to:.1}\"/>"
    )
}

/// Draws an arrow from the right edge of a box to that of one above.
fn lead_back(out: &mut String, from: f64, to: f64) -> std::fmt::Result {
    let right = WIDTH - MARGIN - BACK;
    let middle = HEIGHT / 2.0;
    // A box that leads to itself.
    let (from, to) = match from == to {
        true => (from + middle + 8.0, to + middle - 8.0),
        false => (from + middle, to + middle),
    };
    let far = right + BACK - 6.0;
    writeln!(
        out,
        "<path class=\"line thin k0\" d=\"M{right:.1} {from:.1}H{far:.1}V{to:.1}H{:.1}\"/>\
         <path class=\"f0\" d=\"M{right:.1} {to:.1}l11 -5.5v11z\"/>",
        right + 10.0
    )
}

/// Cuts a line to about as many characters.
fn cut(text: &str, most: f64) -> String {
    let most = most.max(1.0) as usize;
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => {
            let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
            short.push('…');
            short
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(boxes: &[(usize, &str, Option<usize>)]) -> String {
        let one = |(depth, name, back): &(usize, &str, Option<usize>)| TreeBox {
            depth: *depth,
            name: (*name).into(),
            detail: "<waits>".into(),
            strong: back.is_some(),
            back: *back,
        };
        let boxes = boxes.iter().map(one).collect();
        Trees {
            title: "a & b".into(),
            subtitle: "one".into(),
            boxes,
        }
        .svg()
    }

    /// Left edges of the boxes, from top to bottom.
    fn edges(svg: &str) -> Vec<f64> {
        let boxes = svg.lines().filter(|line| line.contains("rx=\"8\""));
        let x = |line: &str| line.split(" x=\"").nth(1)?.split('"').next()?.parse().ok();
        boxes.filter_map(x).collect()
    }

    #[test]
    fn boxes_are_indented_by_depth_and_connected_with_their_parent() {
        let svg = tree(&[
            (0, "a", None),
            (1, "b", None),
            (2, "c", None),
            (1, "d", None),
        ]);
        assert_eq!(edges(&svg), [24.0, 56.0, 88.0, 56.0]);
        let lines: Vec<_> = svg
            .lines()
            .filter(|line| line.contains("fill=\"none\""))
            .collect();
        assert_eq!(lines.len(), 3);
        // Both children begin at the lower edge of the first box.
        for line in [lines[0], lines[2]] {
            assert!(line.contains("d=\"M40.0 124.0V"), "{line}");
        }
    }

    #[test]
    fn arrow_leads_back_to_the_box_that_closes_a_cycle() {
        let svg = tree(&[(0, "a", None), (1, "b", Some(0))]);
        assert_eq!(svg.matches("l11 -5.5v11z").count(), 1);
        assert!(tree(&[(0, "a", Some(7))]).matches("l11").count() == 0);
    }

    #[test]
    fn texts_are_cut_and_escaped_and_depths_have_no_gaps() {
        let long = "<b>".repeat(1000);
        let svg = tree(&[(5, &long, None), (900, "x", None)]);
        assert_eq!(edges(&svg), [24.0, 56.0]);
        assert!(!svg.contains("<b>") && svg.contains("&lt;b&gt;"));
        assert!(svg.len() < 8000, "{}", svg.len());
        let deep: Vec<_> = (0..100).map(|depth| (depth, "x", None)).collect();
        assert!(edges(&tree(&deep)).iter().all(|x| *x < WIDTH / 2.0));
    }
}
