//! Why the machine stopped: findings, and who waits for whom.

use bigiron_helpers::Stop;
use bigiron_inspect::{Diagnosis, Program, Waits};
use serde::Serialize;

use crate::report::Part;
use crate::report::wait_graph;

/// The findings of a report.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    diagnosis: Diagnosis,
    waits: Part<WaitPicture>,
}

/// The picture of who waits for whom.
#[derive(Debug, Serialize)]
struct WaitPicture {
    /// The picture, as SVG; `None` if nobody waits for another.
    #[serde(skip_serializing_if = "Option::is_none")]
    svg: Option<String>,
    /// Number of blocked tasks.
    waits: usize,
    /// Tasks in the picture.
    shown: usize,
}

impl Findings {
    /// Searches a kernel. If `stop` is set, ends with what was found until then.
    pub(crate) fn of(program: &Program, stop: &Stop) -> Self {
        let (diagnosis, waits) = Diagnosis::with_waits(program, stop);
        Self {
            diagnosis,
            waits: waits.map(|waits| WaitPicture::of(&waits)).into(),
        }
    }
}

impl WaitPicture {
    fn of(waits: &Waits) -> Self {
        let (svg, shown) = wait_graph::draw(waits);
        Self {
            svg,
            waits: waits.waits.len(),
            shown,
        }
    }
}
