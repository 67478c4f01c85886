//! Reports which operations on large memory can be faster on this machine, what prevents it, and what
//! to change.

mod facts;
mod steps;

use std::path::Path;

pub use facts::{Facts, Pool};
use serde::Serialize;
pub use steps::{Stage, Verdict};

/// Properties of the machine, and the operations that depend on them.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// Properties of the machine, and the rights and limits of this process.
    pub facts: Facts,
    /// The operations, from creating memory to freeing it.
    pub steps: Vec<Stage>,
}

impl Explanation {
    /// Inspects this machine, and the rights and limits of this process. `program` is the path
    /// of `bigiron`, next to which the preload library is.
    ///
    /// A feature that the system does not report counts as absent.
    pub fn find(program: Option<&Path>) -> Self {
        let facts = Facts::find(program);
        let steps = steps::steps(&facts);
        Self { facts, steps }
    }
}
