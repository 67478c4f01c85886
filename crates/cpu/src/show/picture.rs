//! Scheduler domains as a picture: CPUs from left to right, levels from top to bottom.

use std::collections::HashMap;
use std::fmt::Write as _;

use bigiron_svg::escape;

use crate::tree::{DomainTree, Forest, Node};

const WIDTH: f64 = 1600.0;
const LEFT: f64 = 20.0;
const TOP: f64 = 70.0;
const ROW: f64 = 64.0;
const GAP: f64 = 4.0;
/// Minimum width of a box with text.
const WORDS: f64 = 64.0;
/// Maximum number of boxes. More could not be distinguished: each would be less than a tenth of
/// a pixel wide.
const MOST: usize = 1 << 14;
/// Colours of the levels, outermost first, repeated as needed. They are also distinguishable to
/// people with red blindness.
const COLOURS: [&str; 6] = [
    "#dbe9f6", "#b7d7e8", "#cfe8cf", "#fde3b5", "#f6cfc0", "#e2d4ee",
];

/// Returns an SVG picture of all domains, without scripts, fonts or external images.
pub fn picture(tree: &DomainTree) -> String {
    let Forest { roots, warnings } = tree.forest(MOST);
    let places = places(&roots, tree);
    let depth = roots.iter().map(depth).max().unwrap_or(0);
    let cpus = places.len().max(1);
    let height = TOP + ROW * (depth as f64 + 1.0) + 30.0;
    let scale = (WIDTH - 2.0 * LEFT) / cpus as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"32\" font-size=\"22\">Scheduler domains of {cpus} CPUs</text>\n\
         <text x=\"{LEFT}\" y=\"54\" fill=\"#555555\">{}</text>\n",
        escape(&tree.source)
    );
    let mut drawing = Drawing {
        out: &mut out,
        places: &places,
        scale,
    };
    for root in &roots {
        drawing.draw(root, 0);
    }
    if !warnings.is_empty() {
        let (y, text) = (height - 10.0, warnings.join("; "));
        let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"{y:.0}\">{text}</text>");
    }
    out.push_str("</svg>\n");
    out
}

/// Returns the column of each CPU, from left to right. CPUs that share a small domain are
/// adjacent.
fn places(roots: &[Node], tree: &DomainTree) -> HashMap<u32, usize> {
    fn visit(node: &Node, places: &mut HashMap<u32, usize>) {
        for child in &node.children {
            visit(child, places);
        }
        for cpu in node.span.iter() {
            let next = places.len();
            places.entry(cpu).or_insert(next);
        }
    }
    let mut places = HashMap::new();
    for root in roots {
        visit(root, &mut places);
    }
    for cpu in tree.cpus.keys() {
        let next = places.len();
        places.entry(*cpu).or_insert(next);
    }
    places
}

fn depth(node: &Node) -> usize {
    1 + node.children.iter().map(depth).max().unwrap_or(0)
}

struct Drawing<'a> {
    out: &'a mut String,
    places: &'a HashMap<u32, usize>,
    scale: f64,
}

impl Drawing<'_> {
    fn draw(&mut self, node: &Node, level: usize) {
        // The columns of a domain may be apart: draw a box for each run of adjacent columns.
        let mut columns: Vec<usize> = node
            .span
            .iter()
            .filter_map(|cpu| self.places.get(&cpu).copied())
            .collect();
        columns.sort_unstable();
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for column in columns {
            match runs.last_mut() {
                Some((_, end)) if *end == column => *end = column + 1,
                _ => runs.push((column, column + 1)),
            }
        }
        let colour = COLOURS
            .get(level % COLOURS.len())
            .copied()
            .unwrap_or("#ffffff");
        let y = TOP + ROW * level as f64;
        for (start, end) in runs {
            let x = LEFT + start as f64 * self.scale;
            let width = ((end - start) as f64 * self.scale - GAP.min(self.scale / 4.0)).max(0.1);
            let height = ROW - GAP;
            let title = escape(&format!("{} {}", node.name, node.span));
            let _ = write!(
                self.out,
                "<g><title>{title}</title><rect x=\"{x:.2}\" y=\"{y:.0}\" width=\"{width:.2}\" \
                 height=\"{height:.0}\" rx=\"3\" fill=\"{colour}\" stroke=\"#5a6b7b\" \
                 stroke-width=\"{:.2}\"/>",
                (self.scale / 20.0).clamp(0.05, 1.0)
            );
            if width >= WORDS {
                self.words(node, x + 8.0, y, width - 16.0);
            }
            self.out.push_str("</g>\n");
        }
        for child in &node.children {
            self.draw(child, level + 1);
        }
    }

    fn words(&mut self, node: &Node, x: f64, y: f64, room: f64) {
        /// Approximate width of a letter.
        const LETTER: f64 = 8.0;
        let most = (room / LETTER) as usize;
        let cut = |text: &str| match text.chars().count() > most {
            true => text
                .chars()
                .take(most.saturating_sub(1))
                .chain(['…'])
                .collect(),
            false => text.to_owned(),
        };
        let name = escape(&cut(&node.name));
        let span = escape(&cut(&node.span.to_string()));
        let (first, second) = (y + 24.0, y + 44.0);
        let _ = write!(
            self.out,
            "<text x=\"{x:.2}\" y=\"{first:.0}\" font-weight=\"bold\">{name}</text>\
             <text x=\"{x:.2}\" y=\"{second:.0}\" fill=\"#333333\">{span}</text>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domains::SchedDomain;

    fn one(name: &str, span: &str) -> DomainTree {
        let domain = SchedDomain {
            name: Some(name.into()),
            span: Some(span.parse().unwrap()),
            ..SchedDomain::default()
        };
        DomainTree {
            source: "here & there".into(),
            cpus: [(0, vec![domain])].into(),
            ..DomainTree::default()
        }
    }

    #[test]
    fn names_cannot_become_markup() {
        let picture = picture(&one("<script>\u{1b}", "0-3"));
        assert!(picture.contains("&lt;script&gt;?"), "{picture}");
        assert!(!picture.contains("<script"));
        assert!(picture.contains("here &amp; there"));
    }

    #[test]
    fn cpus_of_a_domain_are_adjacent() {
        let picture = picture(&one("MC", "0,8,16"));
        assert_eq!(picture.matches("<rect x=").count(), 1);
        assert!(picture.contains("of 3 CPUs"));
    }
}
