//! What a task waits for that has called a server by RPC: the answer.
//!
//! It waits for a bit of `rpc_task.tk_runstate` (rpc_wait_for_completion_task,
//! net/sunrpc/sched.c). The call is believed if it is in the list of its client,
//! `rpc_clnt.cl_tasks` (include/linux/sunrpc/clnt.h, xprt.h).

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use bigiron_format::VirtAddr;

use super::thing::Thing;
use crate::error::InspectError;
use crate::modules::Structure;
use crate::program::Program;

/// The module.
const MODULE: &str = "sunrpc";
/// Maximum number of calls of a client.
const MAX_CALLS: usize = 1 << 16;
/// XPRT_CONNECTED: a bit of `rpc_xprt.state`.
const CONNECTED: u32 = 1;

/// The calls of a kernel's RPC clients.
pub(super) struct Rpc<'p, 'k, 's> {
    task: Structure<'p, 'k, 's>,
    client: Structure<'p, 'k, 's>,
    transport: Structure<'p, 'k, 's>,
    rpc_program: Structure<'p, 'k, 's>,
    procedure: Structure<'p, 'k, 's>,
    /// The calls of each client.
    known: RefCell<HashMap<VirtAddr, HashSet<VirtAddr>>>,
}

impl<'p, 'k, 's> Rpc<'p, 'k, 's> {
    /// Reads the layouts; `None` if the module is not loaded, or has no types.
    pub fn of(program: &'p Program<'k, 's>) -> Option<Self> {
        let find = |name| Structure::of(program, MODULE, name).ok().flatten();
        Some(Self {
            task: find("rpc_task")?,
            client: find("rpc_clnt")?,
            transport: find("rpc_xprt")?,
            rpc_program: find("rpc_program")?,
            procedure: find("rpc_procinfo")?,
            known: RefCell::default(),
        })
    }

    /// Returns the call whose state is the word at `state`; `None` if it is none of a call.
    pub fn call(&self, state: VirtAddr) -> Option<Thing> {
        let offset = self.task.offset("tk_runstate").ok()?;
        let call = VirtAddr(state.0.checked_sub(offset)?);
        self.describe(call).ok().flatten()
    }

    fn describe(&self, call: VirtAddr) -> Result<Option<Thing>, InspectError> {
        let client = self.task.pointer(call, "tk_client")?;
        if client.0 == 0 {
            return Ok(None);
        }
        let mut known = self.known.borrow_mut();
        let calls = match known.get(&client) {
            Some(calls) => calls,
            None => {
                let calls = self.calls(client)?;
                known.entry(client).or_insert(calls)
            }
        };
        if !calls.contains(&call) {
            return Ok(None);
        }
        let transport = self.client.pointer(client, "cl_xprt")?;
        let rpc_program = self.client.pointer(client, "cl_program")?;
        let procedure = self.task.pointer(call, "tk_msg.rpc_proc")?;
        let state = self.transport.value(transport, "state")?;
        Ok(Some(Thing::Rpc {
            program: self.rpc_program.text(rpc_program, "name")?,
            version: self.client.value(client, "cl_vers")?,
            procedure: match procedure {
                VirtAddr(0) => None,
                procedure => self.procedure.text(procedure, "p_name").ok(),
            },
            server: self.transport.text(transport, "servername")?,
            connected: state >> CONNECTED & 1 != 0,
            calls: calls.len(),
            transport,
        }))
    }

    /// The calls of a client that have not ended. The list must lead back to its head.
    fn calls(&self, client: VirtAddr) -> Result<HashSet<VirtAddr>, InspectError> {
        let head = self.client.member(client, "cl_tasks")?;
        let calls = self.task.list(head, "tk_task", MAX_CALLS)?;
        Ok(calls.into_iter().collect())
    }
}
