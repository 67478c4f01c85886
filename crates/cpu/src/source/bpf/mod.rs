//! The running kernel's own domains, by a BPF program that is run when somebody asks and is
//! attached to nothing: at any other time it costs the kernel nothing.
//!
//! The program walks from `runqueues` of one CPU, `rq->sd`, up and copies each domain, within a
//! read-side section of RCU (bpf_prog_test_run_raw_tp, net/bpf/test_run.c), so that a chain is as it
//! was at one moment. Offsets and sizes are those of the kernel's BTF.

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
pub use layout::Layout;

/// The types of the running kernel (CONFIG_DEBUG_INFO_BTF).
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// A program in the running kernel, ready to be run for any CPU by any thread. It goes with this.
pub struct Bpf {
    layout: Layout,
    map: Map,
    program: Program,
    /// Held from a run that writes to the map until that is read.
    turn: Mutex<()>,
}

impl Bpf {
    /// Gives the program to the running kernel.
    ///
    /// # Errors
    /// No types, no permission, lockdown, or a kernel that lacks something.
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

    /// The domains of a CPU as they are now, the smallest first; none of a CPU that is offline, set
    /// apart, or not there.
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

    /// What changes when the domains of a CPU are built anew: see [`Mark`]. It is less work than the
    /// chain, and threads do not wait for each other.
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
