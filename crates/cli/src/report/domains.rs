//! Scheduler domains of all CPUs as one tree.

use bigiron_cpu::{Forest, Node};
use bigiron_inspect::{InspectError, Program, SchedDomains};
use serde::Serialize;

/// Maximum number of boxes in the tree; a machine of 4096 CPUs in pairs has about as many.
const MAX_NODES: usize = 16 << 10;

/// The domains.
#[derive(Debug, Serialize)]
pub(crate) struct Domains {
    /// The outermost domains.
    roots: Vec<Node>,
    /// Number of CPUs that may have domains.
    cpus: usize,
    /// CPUs without a domain: offline or isolated.
    without: Vec<u32>,
    warnings: Vec<String>,
}

impl Domains {
    pub(crate) fn of(program: &Program) -> Result<Self, InspectError> {
        let domains = SchedDomains::new(program)?;
        let tree = domains.tree()?;
        let Forest { roots, warnings } = tree.forest(MAX_NODES);
        Ok(Self {
            roots,
            cpus: domains.cpus()?.len(),
            without: tree.without().iter().collect(),
            warnings: [tree.warnings, warnings].concat(),
        })
    }
}
