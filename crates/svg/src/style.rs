//! Styles of lines and points, for light and dark backgrounds.

/// Drawing style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Coloured line with a label at its end.
    Line(Line),
    /// Thin grey line.
    Past,
    /// Measured points.
    Measured,
}

/// Style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Colour number; the six colours repeat.
    pub colour: usize,
    /// True if the line is thin.
    pub thin: bool,
    /// True if the line is dashed.
    pub dashed: bool,
}

/// Symbol in a legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Bold line.
    Bold,
    /// Thin line.
    Thin,
    /// Dashed line.
    Dashed,
    /// Thin grey line.
    Past,
    /// Point.
    Point,
}

/// Number of line colours.
pub const COLOURS: usize = 6;

impl Line {
    /// Returns a bold, solid line.
    pub const fn bold(colour: usize) -> Self {
        Self {
            colour,
            thin: false,
            dashed: false,
        }
    }

    /// Returns the style sheet classes of the line.
    pub(crate) fn class(self) -> String {
        let thin = if self.thin { " thin" } else { "" };
        let dashed = if self.dashed { " dashed" } else { "" };
        format!("line{thin}{dashed} k{}", self.colour % COLOURS)
    }

    /// Returns the style sheet classes of its label.
    pub(crate) fn label_class(self) -> String {
        let weight = if self.thin { "" } else { " bold" };
        format!("t{}{weight}", self.colour % COLOURS)
    }
}

impl Mark {
    pub(crate) fn shape(self) -> &'static str {
        match self {
            Self::Bold => "<path class=\"line axis\" d=\"M0 0H34\"/>",
            Self::Thin => "<path class=\"line thin axis\" d=\"M0 0H34\"/>",
            Self::Dashed => "<path class=\"line dashed axis\" d=\"M0 0H34\"/>",
            Self::Past => "<path class=\"past\" d=\"M0 0H34\"/>",
            Self::Point => "<circle class=\"point\" cx=\"17\" cy=\"0\" r=\"5\"/>",
        }
    }
}

/// Style sheet with one set of colours for light and one for dark backgrounds.
pub(crate) const STYLE: &str = "\
:root{--paper:#fff;--ink:#1b1f24;--soft:#5b6470;--grid:#e3e7ec;--c0:#c2410c;--c1:#0f766e;--c2:#1d4ed8;\
--c3:#7e22ce;--c4:#a16207;--c5:#be185d}
@media(prefers-color-scheme:dark){:root{--paper:#14171c;--ink:#eceff3;--soft:#a3adba;--grid:#2b313a;\
--c0:#fb923c;--c1:#2dd4bf;--c2:#7aa2ff;--c3:#c9a2ff;--c4:#facc15;--c5:#f9a8d4}}
text{font-family:'DejaVu Sans',Verdana,sans-serif;font-size:14px;fill:#1b1f24;fill:var(--ink)}
.halo{paint-order:stroke;stroke:#fff;stroke:var(--paper);stroke-width:4;stroke-linejoin:round}
.soft{fill:#5b6470;fill:var(--soft);font-size:13px}
.title{font-size:21px;font-weight:bold}
.paper{fill:#fff;fill:var(--paper)}
.grid{stroke:#e3e7ec;stroke:var(--grid);stroke-width:1}
.axis{stroke:#5b6470;stroke:var(--soft);stroke-width:1.2}
.line{fill:none;stroke-width:3.2;stroke-linejoin:round;stroke-linecap:round}
.thin{stroke-width:1.6}
.dashed{stroke-dasharray:7 6}
.past{fill:none;stroke:#5b6470;stroke:var(--soft);stroke-width:1.3;stroke-dasharray:5 4}
.point{fill:#fff;fill:var(--paper);stroke:#1b1f24;stroke:var(--ink);stroke-width:2}
.k0{stroke:#c2410c;stroke:var(--c0)}.k1{stroke:#0f766e;stroke:var(--c1)}.k2{stroke:#1d4ed8;stroke:var(--c2)}
.k3{stroke:#7e22ce;stroke:var(--c3)}.k4{stroke:#a16207;stroke:var(--c4)}.k5{stroke:#be185d;stroke:var(--c5)}
.t0{fill:#c2410c;fill:var(--c0)}.t1{fill:#0f766e;fill:var(--c1)}.t2{fill:#1d4ed8;fill:var(--c2)}
.t3{fill:#7e22ce;fill:var(--c3)}.t4{fill:#a16207;fill:var(--c4)}.t5{fill:#be185d;fill:var(--c5)}
.f0{fill:#c2410c;fill:var(--c0)}.f1{fill:#0f766e;fill:var(--c1)}.f2{fill:#1d4ed8;fill:var(--c2)}
.f3{fill:#7e22ce;fill:var(--c3)}.f4{fill:#a16207;fill:var(--c4)}.f5{fill:#be185d;fill:var(--c5)}
.in{fill:#fff;fill:var(--paper);font-weight:bold}
.bold{font-weight:bold}
";
