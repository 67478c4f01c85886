//! What of large memory's life can be faster on this machine, what stands in the way, and what
//! to do about it.

mod facts;
mod steps;

use std::path::Path;

pub use facts::{Facts, Pool};
use serde::Serialize;
pub use steps::{Stage, Verdict};

/// What was found, and what follows from it.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The machine, and this process's rights and limits.
    pub facts: Facts,
    /// The steps of memory's life, from making it to giving it back.
    pub steps: Vec<Stage>,
}

impl Explanation {
    /// Looks at this machine, and at this process's rights and limits. `program` is where
    /// `bigiron` is, if anywhere: beside it lies what `bigiron mem run` needs.
    ///
    /// Whatever the system does not tell counts as not there.
    pub fn find(program: Option<&Path>) -> Self {
        let facts = Facts::find(program);
        let steps = steps::steps(&facts);
        Self { facts, steps }
    }
}
