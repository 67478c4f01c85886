//! The process that finds debug information.
//!
//! It is told a build id, the release of the kernel, and the name of a module, and can read the
//! folders with debug information alone. If it may ask servers, it can connect to them, and write
//! into the cache. It ends when the process that reads the dump has ended.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use bigiron_debuginfo::{Cache, Finder, Servers, Wanted};

use super::message::{ASK_SERVERS, Answer, MAX_MESSAGE};
use crate::errors::FAILED;
use crate::passing::{receive, send};
use crate::resolver;
use crate::sandbox::{self, Needs};

/// Runs the process; returns its exit code.
pub fn run(arguments: Vec<OsString>) -> u8 {
    let (flags, given): (Vec<_>, Vec<_>) = arguments
        .into_iter()
        .partition(|argument| argument == ASK_SERVERS);
    let given: Vec<PathBuf> = given.into_iter().map(PathBuf::from).collect();
    let cache = Cache::of_user();
    let servers = match flags.is_empty() {
        true => None,
        false => Servers::of_environment(),
    };
    // Servers are of no use without a place for what they send.
    let servers = servers.filter(|_| cache.as_ref().is_some_and(|cache| cache.make().is_ok()));
    let hosts = servers.iter().flat_map(Servers::hosts);
    hosts.for_each(|host| resolver::load(&host));
    let has_servers = servers.is_some();
    let finder = Finder::new(given, cache.clone(), servers);
    let mut reads = finder.reads();
    let keeps = cache.as_ref().filter(|_| has_servers).map(Cache::folder);
    if has_servers {
        reads.extend(resolver::FILES.map(PathBuf::from));
    }
    #[cfg(feature = "objects")]
    crate::objects::forget_secrets();
    sandbox::enter(&Needs::DebugInfo {
        reads: &reads,
        keeps,
    });
    let no_servers = (!flags.is_empty() && !has_servers).then_some(
        "--debuginfod has no server to ask: DEBUGINFOD_URLS names none, or there is no folder for \
         the cache",
    );
    match answer(&finder, no_servers) {
        Ok(()) => 0,
        Err(_) => FAILED,
    }
}

/// Answers until the other process has ended.
fn answer(finder: &Finder, remark: Option<&str>) -> io::Result<()> {
    let socket = io::stdin();
    let mut bytes = vec![0; MAX_MESSAGE];
    loop {
        let (len, _) = receive(&socket, &mut bytes)?;
        if len == 0 {
            return Ok(());
        }
        let wanted: Wanted = serde_json::from_slice(bytes.get(..len).unwrap_or_default())?;
        let (answer, file) = match finder.find(&wanted) {
            Ok(found) => (Answer::Found(found.path), Some(found.file)),
            Err(reason) => {
                let reason = [Some(reason.as_str()), remark].into_iter().flatten();
                let reason: Vec<&str> = reason.collect();
                (Answer::Missing(reason.join("; ")), None)
            }
        };
        let mut answer = serde_json::to_vec(&answer)?;
        if answer.len() > MAX_MESSAGE {
            answer = serde_json::to_vec(&Answer::Missing("the answer is too long".into()))?;
        }
        let file = file.as_ref().map(AsFd::as_fd);
        send(&socket, &answer, file)?;
    }
}
