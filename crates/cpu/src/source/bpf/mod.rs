//! Domains of the running kernel, read by a BPF program. The program runs on request and is
//! attached to nothing, so it costs the kernel nothing at any other time.
//!
//! For one CPU, the program starts at `rq->sd` in `runqueues`, walks up and copies each domain.
//! It runs in an RCU read-side critical section (bpf_prog_test_run_raw_tp, net/bpf/test_run.c),
//! so a chain is consistent. Offsets and sizes are from the kernel's BTF.

mod call;
mod error;
mod layout;
mod program;

use std::fs;
use std::sync::{Mutex, PoisonError};

use super::{DomainSource, Mark, SourceError};
use crate::domains::SchedDomain;
use crate::system::System;
use crate::tree::DomainTree;
use call::{Map, Program};

pub use error::BpfError;
use error::TYPES;
pub use layout::Layout;

/// BPF program in the running kernel, which any thread can run for any CPU. It is unloaded on
/// drop.
pub struct Bpf {
    layout: Layout,
    map: Map,
    program: Program,
    /// Held from a run that writes to the map until the map is read.
    turn: Mutex<()>,
}

impl Bpf {
    /// Loads the program into the running kernel.
    ///
    /// # Errors
    /// Types or permissions are missing, the kernel is locked down, or it lacks a feature.
    pub fn load() -> Result<Self, BpfError> {
        let bytes = fs::read(TYPES).map_err(BpfError::Types)?;
        let possible = System::running().possible()?;
        let most = possible.iter().last().map_or(1, |last| last as usize + 1);
        let layout = Layout::of(bytes, most)?;
        let map = Map::new(layout.value_size())?;
        let program = Program::load(&program::instructions(&layout, map.descriptor()))?;
        let turn = Mutex::new(());
        Ok(Self {
            layout,
            map,
            program,
            turn,
        })
    }

    /// Returns the current domains of a CPU, smallest first; empty if the CPU is offline,
    /// isolated, or does not exist.
    ///
    /// # Errors
    /// The kernel does not run the program, or the chain has no end.
    pub fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, BpfError> {
        let value = {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            self.program.run([cpu.into(), 0])?;
            self.map.value()?
        };
        self.layout.chain(cpu, &value)
    }

    /// Returns a mark that changes when the domains of a CPU are rebuilt: see [`Mark`]. A mark
    /// costs less than the chain, and threads do not wait for each other.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn mark(&self, cpu: u32) -> Result<Mark, BpfError> {
        self.program.run([cpu.into(), 1]).map(Mark)
    }

    fn tree(&self) -> Result<DomainTree, BpfError> {
        let mut tree = DomainTree {
            source: "the running kernel".into(),
            ..DomainTree::default()
        };
        for cpu in System::running().online()?.iter() {
            tree.cpus.insert(cpu, self.chain(cpu)?);
        }
        Ok(tree)
    }
}

impl DomainSource for Bpf {
    fn read(&self) -> Result<DomainTree, SourceError> {
        Ok(self.tree()?)
    }

    fn chain(&self, cpu: u32) -> Result<Vec<SchedDomain>, SourceError> {
        Ok(self.chain(cpu)?)
    }

    fn mark(&self, cpu: u32) -> Result<Option<Mark>, SourceError> {
        Ok(Some(self.mark(cpu)?))
    }
}
