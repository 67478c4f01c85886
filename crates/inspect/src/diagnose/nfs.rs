//! Finding: a server of NFS, or of another protocol over RPC, that does not answer.
//!
//! Relies on the tasks that wait for the answers (`waits`).

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::waiting::{LONG_NSEC, longest};
use crate::error::InspectError;
use crate::waits::{Thing, Wait};

/// Kind.
pub const KIND: &str = "nfs";

/// A finding for each server.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let mut servers: Vec<(&str, Vec<&Wait>)> = Vec::new();
    for wait in &evidence.waits()?.waits {
        let is_long = wait.since_nsec.is_some_and(|since| since >= LONG_NSEC);
        let Some(Thing::Rpc { server, .. }) = wait.thing().filter(|_| is_long) else {
            continue;
        };
        match servers.iter_mut().find(|(known, _)| known == server) {
            Some((_, waits)) => waits.push(wait),
            None => servers.push((server, vec![wait])),
        }
    }
    let found = servers
        .iter()
        .filter_map(|(server, waits)| finding(evidence, server, waits));
    Ok(found.collect())
}

fn finding(evidence: &Evidence, server: &str, waits: &[&Wait]) -> Option<Finding> {
    let Thing::Rpc {
        program,
        version,
        calls,
        connected,
        transport,
        ..
    } = waits.first()?.thing()?
    else {
        return None;
    };
    let title = format!(
        "the server {server} has not answered {program} version {version} for {}; {} tasks wait for it",
        seconds(longest(waits.iter().copied())),
        waits.len()
    );
    let state = match connected {
        true => "there is a connection to it",
        false => "there is no connection to it",
    };
    let mut finding = Finding::new(KIND, 84, Sure::Certain, title)
        .because(format!("{calls} calls of its client have no answer"))
        .because(format!("{state}, as its transport says"));
    for wait in waits {
        if let Some(thing) = wait.thing() {
            let since = seconds(wait.since_nsec.unwrap_or(0));
            finding = finding
                .because(format!("{} waits for {thing} for {since}", wait.task))
                .task(&wait.task);
        }
    }
    Some(
        finding
            .place(evidence.program, "struct rpc_xprt", *transport)
            .more("bigiron info --waits --stacks --mounts DUMP"),
    )
}
